"""The control plane's own authority: its files, whom they convince, and when they are made again."""

from __future__ import annotations

import ipaddress
import ssl
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from edgewright.local.access import Authority, Identity, client_tls, serving_names, serving_tls, user_of_connection
from edgewright.runtime.clock import SystemClock, VirtualClock
from edgewright.runtime.tls import ConfigError
from tests.unit.local.access.handshakes import handshake

NOW = datetime.now(UTC)
YEAR = timedelta(days=365)


class SetClock(VirtualClock):
    """A clock that shows what a test sets."""

    def __init__(self, now: datetime = NOW) -> None:
        super().__init__()
        self.time = now

    def now(self) -> datetime:
        return self.time


def serving_of(authority: Authority, *others: str) -> Identity:
    return authority.server("serving", user="kube-apiserver", names=serving_names("127.0.0.1", *others))


def administrator_of(authority: Authority) -> Identity:
    return authority.client("admin", user="kubernetes-admin", groups=["system:masters"])


def parsed(identity: Identity) -> x509.Certificate:
    return x509.load_pem_x509_certificate(identity.certificate.encode())


def plain_client(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.file)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "data" / "pki", clock=SystemClock())


def test_the_directory_and_what_is_secret_in_it_can_be_read_by_nobody_else(authority: Authority) -> None:
    serving_of(authority)
    administrator_of(authority)
    authority.token()
    directory = authority.file.parent
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    assert modes == {
        "ca.pem": 0o600, "ca.crt": 0o644, "serving.pem": 0o600, "admin.pem": 0o600, "token": 0o600,
    }  # fmt: skip
    assert "PRIVATE" not in authority.file.read_text()


def test_modes_that_somebody_has_opened_are_closed_again(authority: Authority) -> None:
    serving_of(authority)
    authority.token()
    directory = authority.file.parent
    directory.chmod(0o755)
    for name in ("ca.pem", "serving.pem", "token"):
        (directory / name).chmod(0o644)
    again = Authority(directory, clock=SystemClock())
    serving_of(again)
    again.token()
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE((directory / name).stat().st_mode) for name in ("ca.pem", "serving.pem", "token")} == {0o600}


def test_the_authority_is_an_elliptic_curve_one_for_ten_years_that_signs_only_ends(authority: Authority) -> None:
    certificate = x509.load_pem_x509_certificate(authority.certificate.encode())
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.curve.name == "secp256r1"
    assert certificate.not_valid_after_utc - certificate.not_valid_before_utc > timedelta(days=3649)
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.key_cert_sign, usage.crl_sign) == (True, True)


def test_a_serving_certificate_has_every_name_under_which_an_api_server_is_known(authority: Authority) -> None:
    certificate = parsed(serving_of(authority, "10.96.0.1", "192.0.2.7", "edge.example"))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert set(names.get_values_for_type(x509.DNSName)) == {
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "edge.example",
    }
    assert set(names.get_values_for_type(x509.IPAddress)) == {
        ipaddress.ip_address(each) for each in ("127.0.0.1", "::1", "10.96.0.1", "192.0.2.7")
    }
    usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usages) == [ExtendedKeyUsageOID.SERVER_AUTH]


@pytest.mark.parametrize(
    ("listen", "more"),
    [
        ("127.0.0.1", set()),
        ("192.0.2.7", {"192.0.2.7"}),
        ("2001:DB8::0001", {"2001:db8::1"}),
        ("edge.example", {"edge.example"}),
        ("0.0.0.0", set()),
        ("::", set()),
        ("", set()),
    ],
)
def test_the_address_on_which_a_server_listens_is_one_of_its_names(listen: str, more: set[str]) -> None:
    assert set(serving_names(listen)) - set(serving_names("127.0.0.1")) == more


def test_a_client_that_trusts_the_authority_believes_the_server_and_is_known_by_its_certificate(
    authority: Authority,
) -> None:
    server = serving_tls(serving_of(authority), authority.file)
    connection = handshake(server, client_tls(administrator_of(authority), authority.file), "kubernetes.default.svc")
    user = user_of_connection(connection)
    assert user is not None
    assert (user.name, user.groups) == ("kubernetes-admin", ("system:masters", "system:authenticated"))
    assert connection.selected_alpn_protocol() == "http/1.1"


def test_a_client_without_a_certificate_gets_a_connection_and_is_nobody(authority: Authority) -> None:
    server = serving_tls(serving_of(authority), authority.file)
    assert user_of_connection(handshake(server, plain_client(authority))) is None


def test_a_server_under_another_name_is_not_believed(authority: Authority) -> None:
    server = serving_tls(serving_of(authority), authority.file)
    with pytest.raises(ssl.SSLCertVerificationError, match="match"):
        handshake(server, plain_client(authority), "elsewhere.example")


def test_a_client_certificate_of_another_authority_is_refused(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other", clock=SystemClock())
    client = client_tls(administrator_of(other), authority.file)
    with pytest.raises(ssl.SSLError):
        handshake(serving_tls(serving_of(authority), authority.file), client)


def test_a_serving_certificate_makes_nobody_a_user(authority: Authority) -> None:
    serving = serving_of(authority)
    with pytest.raises(ssl.SSLError):
        handshake(serving_tls(serving, authority.file), client_tls(serving, authority.file))


def test_what_is_there_is_used_again(authority: Authority) -> None:
    first = (authority.certificate, serving_of(authority), administrator_of(authority), authority.token())
    again = Authority(authority.file.parent, clock=SystemClock())
    assert (again.certificate, serving_of(again), administrator_of(again), again.token()) == first


def test_what_is_there_is_used_without_the_library_that_makes_it(authority: Authority) -> None:
    serving_of(authority)
    program = f"""
import sys
from pathlib import Path
from edgewright.local.access import Authority, serving_names, serving_tls
from edgewright.runtime.clock import SystemClock
authority = Authority(Path({str(authority.file.parent)!r}), clock=SystemClock())
serving_tls(authority.server("serving", user="kube-apiserver", names=serving_names("127.0.0.1")), authority.file)
assert "cryptography" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_without_the_library_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.delitem(sys.modules, "edgewright.local.access.signing", raising=False)
    import edgewright.local.access

    monkeypatch.delattr(edgewright.local.access, "signing", raising=False)
    with pytest.raises(ConfigError, match=r"cryptography is not installed.*pip install 'edgewright\[local\]'"):
        Authority(tmp_path, clock=SystemClock())


@pytest.mark.parametrize(
    ("later", "renewed"),
    [(timedelta(0), False), (YEAR * 0.85, False), (YEAR * 0.95, True), (YEAR * 3, True)],
    ids=["at once", "well before its end", "near its end", "after its end"],
)
def test_a_serving_certificate_is_made_again_in_the_last_tenth_of_its_life(
    tmp_path: Path, later: timedelta, renewed: bool
) -> None:
    clock = SetClock()
    authority = Authority(tmp_path, clock=clock)
    first = serving_of(authority)
    clock.time += later
    assert (serving_of(authority).certificate != first.certificate) is renewed


def test_a_serving_certificate_is_made_again_when_the_names_change(authority: Authority) -> None:
    first = serving_of(authority)
    second = serving_of(authority, "192.0.2.7")
    assert first.certificate != second.certificate
    assert serving_of(authority, "192.0.2.7") == second


def test_a_context_in_use_takes_the_new_certificate_for_new_connections(authority: Authority) -> None:
    server = serving_tls(serving_of(authority), authority.file)
    server.load_cert_chain(serving_of(authority, "edge.example").file)
    handshake(server, plain_client(authority), "edge.example")


def test_no_certificate_outlasts_its_authority(tmp_path: Path) -> None:
    clock = SetClock()
    authority = Authority(tmp_path, clock=clock)
    ends = x509.load_pem_x509_certificate(authority.certificate.encode()).not_valid_after_utc
    clock.time += timedelta(days=3200)
    assert parsed(administrator_of(authority)).not_valid_after_utc == ends


def test_an_authority_near_its_end_is_replaced_with_all_that_it_signed(tmp_path: Path) -> None:
    clock = SetClock()
    authority = Authority(tmp_path, clock=clock)
    old = (authority.certificate, serving_of(authority).certificate)
    clock.time += timedelta(days=3400)
    again = Authority(tmp_path, clock=clock)
    assert again.certificate != old[0]
    assert serving_of(again).certificate != old[1]
    assert again.file.read_text() == again.certificate


def test_a_clock_that_was_never_set_makes_certificates_that_are_good_today(tmp_path: Path) -> None:
    authority = Authority(tmp_path, clock=SetClock(datetime(1970, 1, 1, tzinfo=UTC)))
    assert x509.load_pem_x509_certificate(authority.certificate.encode()).not_valid_after_utc > NOW
    before = authority.certificate
    assert Authority(tmp_path, clock=SetClock(datetime(1970, 1, 1, tzinfo=UTC))).certificate == before


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[:300],
        lambda text: text.split("-----BEGIN CERT")[0],
        lambda text: text.replace("# edgewright {", "# edgewright "),
    ],
    ids=["empty", "cut", "without a certificate", "with a broken note"],
)
def test_a_damaged_authority_is_an_error_and_never_replaced(authority: Authority, damage: Callable[[str], str]) -> None:
    path = authority.file.with_name("ca.pem")
    damaged = damage(path.read_text())
    path.write_text(damaged)
    with pytest.raises(ConfigError, match=r"ca\.pem: is damaged, or no authority of ours"):
        Authority(authority.file.parent, clock=SystemClock())
    assert path.read_text() == damaged


@pytest.mark.parametrize("note", ["[]", "{", '{"facts": 1}', '{"renew": 1}', "\xff"])
def test_a_damaged_certificate_is_made_again(authority: Authority, note: str) -> None:
    first = serving_of(authority)
    first.file.write_text(f"# edgewright {note}\n{first.certificate}")
    second = serving_of(authority)
    assert second.certificate != first.certificate
    handshake(serving_tls(second, authority.file), plain_client(authority))


def test_a_key_that_is_not_the_one_of_its_certificate_is_found(authority: Authority) -> None:
    serving, admin = serving_of(authority), administrator_of(authority)
    serving.file.write_text(serving.file.read_text().replace(serving.key, admin.key))
    assert serving_of(authority).key not in (serving.key, admin.key)


def test_an_empty_token_file_gets_a_token_and_two_directories_never_share_one(tmp_path: Path) -> None:
    first, second = (Authority(tmp_path / name, clock=SystemClock()) for name in "ab")
    (tmp_path / "a" / "token").write_text("\n")
    tokens = {first.token(), second.token()}
    assert len(tokens) == 2
    assert min(map(len, tokens)) >= 40


@pytest.mark.parametrize("user", ["", "system:node:" + "n" * 60])
def test_a_name_that_cannot_stand_in_a_certificate_is_refused_with_a_sentence(authority: Authority, user: str) -> None:
    with pytest.raises(ConfigError, match="cannot stand in a certificate"):
        authority.client("node", user=user)


def test_no_key_is_shown_where_an_identity_is_printed(authority: Authority) -> None:
    assert "PRIVATE" not in repr(serving_of(authority))


def test_what_cannot_be_written_leaves_what_was_there(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    first = serving_of(authority)
    before = first.file.read_text()

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        serving_of(authority, "edge.example")
    assert first.file.read_text() == before
    assert {path.name for path in first.file.parent.iterdir()} == {"ca.pem", "ca.crt", "serving.pem"}
