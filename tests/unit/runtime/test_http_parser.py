"""The parser of HTTP answers: any answer, cut into any pieces, is read the same; what is not HTTP is refused."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.runtime.http_parser import Answer, AnswerParser


class Reader:
    """Collects whole answers, as a connection does."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.kept_alive: list[bool] = []
        self._head: tuple[int, dict[str, str]] = (0, {})
        self._body: list[bytes] = []
        self.parser = AnswerParser(self._on_head, self._body.append, self._on_end)

    def _on_head(self, status: int, headers: dict[str, str], keep_alive: bool) -> None:
        self._head = (status, headers)
        self.kept_alive.append(keep_alive)

    def _on_end(self) -> None:
        self.answers.append(Answer(*self._head, b"".join(self._body)))
        self._body.clear()


def read(*pieces: bytes, end: bool = False) -> Reader:
    reader = Reader()
    for piece in pieces:
        reader.parser.feed(piece)
    if end:
        reader.parser.end()
    return reader


def by_length(body: bytes, status: int = 200) -> bytes:
    return b"HTTP/1.1 %d Whatever\r\nContent-Length: %d\r\nX-A: b\r\n\r\n%s" % (status, len(body), body)


def in_chunks(*chunks: bytes, trailer: bytes = b"") -> bytes:
    parts = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + parts + b"0\r\n" + trailer + b"\r\n"


answers = st.lists(
    st.one_of(
        st.binary(max_size=200).map(lambda body: (by_length(body), body)),
        st.lists(st.binary(min_size=1, max_size=80), max_size=4).map(
            lambda parts: (in_chunks(*parts), b"".join(parts))
        ),
    ),
    max_size=4,
)


@given(answers, st.lists(st.integers(min_value=0, max_value=2000), max_size=30))
def test_answers_cut_into_any_pieces_are_read_whole_and_in_order(
    answers: list[tuple[bytes, bytes]], cuts: list[int]
) -> None:
    wire = b"".join(encoded for encoded, _ in answers)
    places = sorted({0, len(wire), *(cut for cut in cuts if cut < len(wire))})
    reader = read(*(wire[a:b] for a, b in pairwise(places)), end=True)
    assert [answer.body for answer in reader.answers] == [body for _, body in answers]


@given(st.binary(max_size=300))
def test_bytes_that_are_not_http_are_refused_or_waited_for_and_never_anything_else(noise: bytes) -> None:
    with suppress(ValueError):
        read(noise, end=True)


def test_headers_are_found_in_lower_case() -> None:
    (answer,) = read(b"HTTP/1.1 429 Too Many\r\nRetry-After:  7 \r\ncontent-LENGTH: 2\r\n\r\nno").answers
    assert answer == Answer(429, {"retry-after": "7", "content-length": "2"}, b"no")


def test_an_interim_answer_is_passed_over() -> None:
    assert [a.status for a in read(b"HTTP/1.1 100 Continue\r\n\r\n" + by_length(b"x")).answers] == [200]


def test_an_answer_without_a_length_lasts_until_the_connection_ends() -> None:
    reader = read(b"HTTP/1.1 200 OK\r\n\r\nsome ", b"text")
    assert reader.answers == []
    reader.parser.end()
    assert reader.answers[0].body == b"some text"
    assert reader.kept_alive == [False]


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_that_has_no_body_ends_with_its_head(status: int) -> None:
    assert read(b"HTTP/1.1 %d None\r\n\r\n" % status).answers[0].body == b""


def test_trailers_after_the_last_chunk_are_passed_over() -> None:
    assert read(in_chunks(b"ab", trailer=b"X-Checksum: 1\r\n"), by_length(b"c")).answers[1].body == b"c"


@pytest.mark.parametrize(
    ("head", "kept"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: Close\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
    ],
    ids=["1.1 stays open", "asked to close", "1.0 closes"],
)
def test_whether_the_connection_can_be_used_again(head: bytes, kept: bool) -> None:
    assert read(head).kept_alive == [kept]


@pytest.mark.parametrize(
    ("wire", "says"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", "begins with 'SSH"),
        (b"HTTP/2 200 OK\r\n\r\n", "begins with"),
        (b"HTTP/1.1 2xx OK\r\n\r\n", "begins with"),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "not a header"),
        (b"HTTP/1.1 200 OK\r\nName : spaced\r\n\r\n", "not a header"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "not a length"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "not the size of a chunk"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", "not the size of a chunk"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "longer than it says"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 70_000, "head is too long"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 5000, "too long"),
    ],
    ids=lambda value: value[:40].decode("latin-1") if isinstance(value, bytes) else "",
)
def test_what_is_not_http_is_refused(wire: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read(wire)


@pytest.mark.parametrize(
    "wire",
    [b"HTTP/1.1 20", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", in_chunks(b"abc")[:-4]],
    ids=["in its head", "in its body", "between chunks"],
)
def test_a_connection_that_ends_in_an_answer_is_an_error(wire: bytes) -> None:
    with pytest.raises(ValueError, match="in the middle of an answer"):
        read(wire, end=True)
