"""References of firmware images: what is taken, what is refused, and with which words."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.api.reference import BadReference, Reference, is_digest, parse_reference

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("registry.example/fw:1", Reference(host="registry.example", repository="fw", tag="1")),
        ("registry.example:5000/a/b/c", Reference(host="registry.example:5000", repository="a/b/c")),
        ("localhost/fw:x", Reference(host="localhost", repository="fw", tag="x")),
        ("build:80/fw", Reference(host="build:80", repository="fw")),
        ("127.0.0.1:5000/fw:1_2.3-x", Reference(host="127.0.0.1:5000", repository="fw", tag="1_2.3-x")),
        ("[::1]:5000/fw:1", Reference(host="[::1]:5000", repository="fw", tag="1")),
        (f"r.example/fw@{DIGEST}", Reference(host="r.example", repository="fw", digest=DIGEST)),
        (f"r.example/fw:1@{DIGEST}", Reference(host="r.example", repository="fw", tag="1", digest=DIGEST)),
        ("r.example/esp32__a.b--c_d:V1", Reference(host="r.example", repository="esp32__a.b--c_d", tag="V1")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_reference_with_a_host_is_read_and_written_back(text: str, expected: Reference) -> None:
    assert parse_reference(text) == expected
    assert str(parse_reference(text)) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("fsdsdsd", "names no registry host"),
        ("fsdsdsd:1", "names no registry host"),
        ("team/firmware:1", "names no registry host"),
        ("registry.example", "names no registry host"),
        ("registry.example/", "names no repository"),
        ("registry.example/:1", "names no repository"),
        ("https://registry.example/fw:1", "begins with https://"),
        ("docker://registry.example/fw:1", "begins with docker://"),
        ("registry.example/fw :1", "a space"),
        ("registry.example/fw:1\n", "a space"),
        ("registry.example/fw\x00", "a space"),
        ("registry.example/fwä", "another character"),
        ("registry.example/Firmware:1", "lower case"),
        ("registry.example/../fw:1", "'..' cannot be a part"),
        ("registry.example//fw:1", "'' cannot be a part"),
        ("registry.example/fw_:1", "'fw_' cannot be a part"),
        ("registry.example/fw:", "its tag"),
        ("registry.example/fw:-x", "its tag"),
        ("registry.example/fw:1:2", "its tag"),
        ("registry.example/fw:" + "x" * 129, "its tag"),
        ("registry.example/fw@", "what follows @"),
        ("registry.example/fw@sha256:abc", "what follows @"),
        ("registry.example/fw@" + DIGEST.upper(), "what follows @"),
        ("registry.example:0/fw", "0 is no port"),
        ("registry.example:65536/fw", "65536 is no port"),
        ("registry.example:/fw", "is no host name"),
        ("-a.example/fw", "is no host name"),
        ("user@registry.example/fw", "what follows @"),
        ("registry.example/" + "a" * 256, "longer than 255"),
        ("registry.example/" + "a" * 1100, "longer than 1024"),
    ],
    ids=lambda value: value[:30],
)
def test_what_is_no_reference_is_refused_with_the_reason_and_a_right_one(text: str, says: str) -> None:
    with pytest.raises(BadReference) as refused:
        parse_reference(text)
    assert says in str(refused.value)
    assert "registry.example/team/firmware:1.2.0" in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("text", "target"),
    [("r.example/fw", "latest"), ("r.example/fw:1", "1"), (f"r.example/fw:1@{DIGEST}", DIGEST)],
)
def test_the_registry_is_asked_for_the_digest_before_the_tag(text: str, target: str) -> None:
    assert parse_reference(text).target == target


@pytest.mark.parametrize(
    ("text", "good"),
    [
        (DIGEST, True),
        ("sha512:" + "a" * 128, True),
        (DIGEST[:-1], False),
        (DIGEST + "\n", False),
        ("md5:" + "a" * 32, False),
    ],
)
def test_only_digests_that_can_be_checked_are_digests(text: str, good: bool) -> None:
    assert is_digest(text) is good


@given(st.text(alphabet=string.ascii_letters + string.digits + "/:@.-_[] \n", max_size=60))
def test_any_text_is_refused_or_comes_back_as_it_was(text: str) -> None:
    try:
        reference = parse_reference(text)
    except BadReference:
        return
    assert str(reference) == text
