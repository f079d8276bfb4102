"""Standard Webhooks: the published vector, several secrets, and files that hold none."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest

from edgewright.controllers.notifications.signatures import BadSecrets, read_secrets, signed_headers
from tests.unit.controllers.notifications.receivers import SECRET, example

ID, SECONDS, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
OTHER = "whsec_" + base64.b64encode(bytes(range(32))).decode()


def file_with(folder: Path, text: str) -> Path:
    file = folder / "secrets"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_published_vector_is_signed_as_published(tmp_path: Path) -> None:
    keys = read_secrets(file_with(tmp_path, f"{SECRET}\n"))
    assert signed_headers(keys, ID, SECONDS, BODY) == {
        "webhook-id": ID,
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_another_program_computes_the_same_signature(tmp_path: Path) -> None:
    (key,) = read_secrets(file_with(tmp_path, OTHER))
    signed = f"{ID}.{SECONDS}.".encode() + BODY
    mac = subprocess.run(
        ["openssl", "dgst", "-sha256", "-mac", "HMAC", "-macopt", f"hexkey:{key.hex()}", "-binary"],
        input=signed,
        capture_output=True,
        check=True,
    ).stdout
    assert signed_headers([key], ID, SECONDS, BODY)["webhook-signature"] == f"v1,{base64.b64encode(mac).decode()}"


def test_while_a_secret_is_replaced_receivers_with_either_one_agree(tmp_path: Path) -> None:
    keys = read_secrets(file_with(tmp_path, f"\n{OTHER}\n  {SECRET}  \n"))
    headers = signed_headers(keys, ID, SECONDS, BODY)
    assert len(headers["webhook-signature"].split(" ")) == 2
    for secret in (SECRET, OTHER):
        assert example().verify([secret], headers, BODY, SECONDS + 10) == {"test": 2432232314}


@pytest.mark.parametrize(
    ("change", "now"),
    [
        ({"webhook-id": "msg_other"}, SECONDS),
        ({"webhook-timestamp": str(SECONDS + 1)}, SECONDS),
        ({"webhook-signature": "v1,AAAA v2,BBBB"}, SECONDS),
        ({"webhook-signature": ""}, SECONDS),
        ({}, SECONDS + 301),
        ({}, SECONDS - 301),
    ],
    ids=["another id", "another time", "no fitting code", "no code", "too late", "too early"],
)
def test_the_receiver_of_the_docs_refuses_what_was_changed(change: dict[str, str], now: float, tmp_path: Path) -> None:
    keys = read_secrets(file_with(tmp_path, SECRET))
    headers = signed_headers(keys, ID, SECONDS, BODY) | change
    with pytest.raises(ValueError, match=r"timestamp|signature"):
        example().verify([SECRET], headers, BODY, now)
    with pytest.raises(ValueError, match="signature"):
        example().verify([SECRET], signed_headers(keys, ID, SECONDS, BODY), BODY + b" ", SECONDS)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "holds 0 secrets"),
        ("\n\n", "holds 0 secrets"),
        (SECRET.removeprefix("whsec_"), "line 1 is no secret"),
        (f"{SECRET}\nwhsec_not*base64", "line 2 is no secret"),
        ("whsec_" + base64.b64encode(b"short").decode(), "line 1 is no secret"),
        ("whsec_" + base64.b64encode(b"l" * 65).decode(), "line 1 is no secret"),
        ("\n".join([SECRET] * 6), "holds 6 secrets"),
        ("x" * 20_000, "is larger than"),
    ],
)
def test_a_file_without_secrets_is_refused_by_line_and_never_shown(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(BadSecrets, match=why) as refused:
        read_secrets(file_with(tmp_path, text))
    for line in text.split():
        assert line not in str(refused.value)
