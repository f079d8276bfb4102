"""Masking: takes what looks like a secret out of a text or a field, and leaves the rest readable.

`logs` calls it on every message, field and traceback, `health` on the reasons that it shows to anybody who asks. It
knows forms (bearer tokens, JWTs, private keys, passwords in URLs, `password=…`), not values, and it never raises. Every
pattern takes time in proportion to the text, whatever the text is.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

MASK: Final = "***"
MAX_TEXT: Final = 16_384

# What makes the name of a field or of a setting secret, in any way of writing it; see `is_secret_name`.
_WORD = (
    r"tokens?|passw(?:or)?ds?|passphrase|pwd|secrets?|credentials?|authorization|cookie|bearer|jwt|psk|"
    r"(?:private|api|client|access|signing|encryption|account|ssh)[-_. ]?keys?|key[-_. ]?data"
)
# In every such name there is one of these.
_HINTS: Final = (
    *("token", "passw", "passphrase", "pwd", "secret", "credential", "authorization", "cookie", "bearer"),
    *("jwt", "psk", "key"),
)
_SECRET_NAME = re.compile(rf"(?:{_WORD})", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# ... unless the name goes on to say that it is only about the secret.
_ABOUT = re.compile(
    r"[-_. ](?:name|names|file|files|path|dir|ref|refs|count|kind|namespace|type|version|id|ids|url|uri|endpoint|"
    r"expiry|expires|expiration|expired|at|age|seconds|ttl|timeout|length|size|status|error|reason|"
    r"valid|present|found|missing|review|reviews|source|provider|policy|audience|audiences)$",
    re.IGNORECASE,
)

_PRIVATE_KEY = re.compile(
    r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----).*?(?:-----END [A-Z0-9 ]{0,40}-----|\Z)", re.DOTALL
)
# The same in base64, as kubeconfigs and Secrets hold it; certificates are public and may stay.
_PRIVATE_KEY_BASE64 = re.compile(r"LS0tLS1CRUdJTi(?!BDRVJUSUZJQ0FUR)[A-Za-z0-9+/]{16,}={0,2}")
_JWT = re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){1,4}")
_TOKEN_PREFIXES: Final = ("gh", "glpat-", "xox", "sha256~", "github_pat_", "whsec_")
_KNOWN_TOKEN = re.compile(
    r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}|"
    r"sha256~[\w-]{20,}|whsec_[A-Za-z0-9+/]{16,}={0,2})"
)
_HEADER = re.compile(
    r"""(authorization\\?["']?[:=,]\s{0,3}b?\\?["']?)(bearer|basic|negotiate|ntlm|token|apikey)[ ]+[^\s"',\\]+""",
    re.IGNORECASE,
)
_WHOLE_HEADER = re.compile(
    r"""(authorization\\?["']?[:=,]\s{0,3}b?\\?["']?(?:digest|aws4-hmac-sha256)|"""
    r"""(?<![\w-])(?:set-)?cookie\\?["']?[:,]\s{0,3}b?\\?["']?)"""
    r"""[^\r\n"'\\]+""",
    re.IGNORECASE,
)
_HEADER_PAIR = re.compile(r"""(["'](?:authorization|x-auth-token)["'],\s{0,3}b?)(["'])[^"']*["']""", re.IGNORECASE)
# Words that follow "bearer" in a sentence or a challenge, and are no token.
_PROSE = r"(?:tokens?|auth\w*|credentials?|schemes?|headers?|prefix|errors?|requests?|method|access)"
_BEARER = re.compile(
    rf"\b(bearer)\s+(?!\*\*\*|\w+=[\"']|{_PROSE}(?:[.,;:)\"']?(?:\s|\Z)))[\w.~+/=-]{{6,}}", re.IGNORECASE
)
_BASIC = re.compile(r"\b(basic)\s+([A-Za-z0-9+/]{4,400}={0,2})(?![A-Za-z0-9+/=])", re.IGNORECASE)
_URL_USER = re.compile(r"""://[^\s/"'<>@\\]{0,400}(?:@[^\s/"'<>@\\]{0,400}){0,4}@""")
# A password with a slash is not legal there, and people have them; digits before the slash are a port.
_URL_SLASH = re.compile(r"""://[^\s/:@\["'<>]{1,200}:(?!\d+(?:[/?#]|\Z))[^\s@"'<>]{1,200}@""")

_VALUE = r""""(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|\\"[^"\\]*\\?"?|[^\s&,;"'(){}\[\]<>\\]+"""
# name=value and "name": "value"
_ASSIGNED = re.compile(
    rf"""({_WORD})([\w.-]{{0,40}})(\\?["']\s{{0,3}}:\s{{0,3}}b?|(?:\\?["'])?\s{{0,3}}=(?![=])\s{{0,3}}b?)({_VALUE})""",
    re.IGNORECASE,
)
# --name value
_FLAG = re.compile(rf"(?<=--)([a-z-]{{0,40}}?(?:{_WORD}))([\w-]{{0,40}})([ ]+)({_VALUE})", re.IGNORECASE)
# name: value, as in YAML and in sentences
_COLON = re.compile(rf"({_WORD})([\w.-]{{0,40}})(:[ \t]{{1,8}})({_VALUE})(?=([ \t]+\S)?)", re.IGNORECASE)
# an indented line of YAML, whose value may have spaces
_INDENTED = re.compile(
    rf"(?:(?<=\n)|\A)([ \t]{{1,80}}(?:-[ ]+)?[\w.-]{{0,40}}?(?:{_WORD}))([\w.-]{{0,40}})(:[ \t]+)"
    r"([^\s{\[\"'&*!|>][^\r\n]*)",
    re.IGNORECASE,
)
_OTHER_WORD = re.compile(r"iz|is[a-z]|ar|less|cutter")
_ALWAYS_SECRET = re.compile(r"pass|pwd|psk|key|cookie|authorization", re.IGNORECASE)
_HARMLESS = frozenset({"none", "null", "true", "false", "", MASK})


def mask(text: str) -> str:
    """`text` without what looks like a secret, cut to about `MAX_TEXT`, and fit to be written as UTF-8."""
    length = len(text)
    if length > 2 * MAX_TEXT:  # cut before the work, and again after it, so that no half of a secret ends at the cut
        text = text[: 2 * MAX_TEXT]
    # Searching for a few plain words first makes an innocent line, which is nearly every one, ten times as cheap.
    plain = text.lower()
    if "://" in plain:
        text = _URL_SLASH.sub(f"://{MASK}@", _URL_USER.sub(f"://{MASK}@", text))
    if "private key" in plain:
        text = _PRIVATE_KEY.sub(rf"\1{MASK}", text)
    if "ls0tls1crudjti" in plain:
        text = _PRIVATE_KEY_BASE64.sub(MASK, text)
    if "eyj" in plain:
        text = _JWT.sub(MASK, text)
    if any(prefix in plain for prefix in _TOKEN_PREFIXES):
        text = _KNOWN_TOKEN.sub(MASK, text)
    if "authorization" in plain or "cookie" in plain or "x-auth-token" in plain:
        text = _WHOLE_HEADER.sub(rf"\1 {MASK}", text)
        text = _HEADER.sub(rf"\1\2 {MASK}", text)
        text = _HEADER_PAIR.sub(rf"\1\2{MASK}\2", text)
    if "bearer" in plain:
        text = _BEARER.sub(rf"\1 {MASK}", text)
    if "basic" in plain:
        text = _BASIC.sub(_without_basic, text)
    if any(hint in plain for hint in _HINTS):
        text = _INDENTED.sub(_without_value, text)
        text = _ASSIGNED.sub(_without_value, text)
        text = _FLAG.sub(_without_value, text)
        text = _COLON.sub(_without_colon_value, text)
    if length > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}… ({length} characters)"
    # A lone surrogate, as in a file name that is not UTF-8, could not be written anywhere.
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def is_secret_name(name: str) -> bool:
    """Whether a field of this name holds a secret (`token`, `clientKeyData`), not just tells of one (`token_file`)."""
    name = _CAMEL.sub("_", name)
    found = _SECRET_NAME.search(name)
    return found is not None and not _OTHER_WORD.match(name, found.end()) and not _ABOUT.search(name)


def _without_value(match: re.Match[str]) -> str:
    name, rest, between, value = match.group(1, 2, 3, 4)
    if not is_secret_name(name + rest) or value.strip("\"'\\").lower() in _HARMLESS:
        return match.group()
    quote = value[0] if value[0] in "\"'" else '\\"' if value.startswith('\\"') else ""
    return f"{name}{rest}{between}{quote}{MASK}{quote}"


def _without_colon_value(match: re.Match[str]) -> str:
    """A colon is also how sentences go on ("invalid token: it has expired"), so the value must look like one."""
    value, more = match.group(4, 5)
    bare = value.strip("\"'.")
    random = len(bare) >= 20 or (len(bare) >= 8 and bool(re.search(r"\d", bare)) and bool(re.search(r"[A-Za-z]", bare)))
    last = more is None and bool(_ALWAYS_SECRET.search(match.group(1)))
    return _without_value(match) if random or last else match.group()


def _without_basic(match: re.Match[str]) -> str:
    """The word "basic" has other uses: what follows is a secret when it is base64 of `user:password`."""
    value = match.group(2)
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return match.group()
    return f"{match.group(1)} {MASK}" if b":" in decoded else match.group()
