"""Label and field selectors, as `?labelSelector=` and `?fieldSelector=` carry them.

`parse` and `parse_fields` compile a text once for a list or watch; `matches` is then called for each object. What they
take, what they refuse and with which sentence is what kube-apiserver does. Nothing here reads a store.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from edgewright.local.errors import bad_request
from edgewright.local.go_format import quote
from edgewright.runtime.objects import RawObject

_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '({_NAME})?')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_NAME_PATTERN, _SUBDOMAIN_PATTERN = re.compile(_NAME), re.compile(_SUBDOMAIN)
_NAME_LENGTH, _SUBDOMAIN_LENGTH = 63, 253
_INTEGER = re.compile(r"[+-]?[0-9]+")
_INTEGER_DIGITS = 63  # no label is longer: longer texts are refused without being read as numbers
# A NUL ends a word, and at the start of a word the whole text, as in the real server.
_TOKEN = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!()<>,])|([^=!()<>, \t\r\n\0]+))\0?")
_END = ""
_OPERATORS = "in, notin, =, ==, !=, gt, lt"


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """One term of a label selector; operators are written as in the text, a bare key is `exists`, `!key` is `!`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class Selector:
    """A compiled selector of objects by their labels; without requirements it selects all."""

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda requirement: requirement.key))
        self._checks = tuple(_check(requirement) for requirement in self.requirements)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return all(check(labels) for check in self._checks)


def parse(text: str) -> Selector:
    """The selector that this text says, or BadRequest."""
    return Selector(_Parser(text).requirements())


def _check(requirement: Requirement) -> Callable[[Mapping[str, str]], bool]:
    key, values = requirement.key, frozenset(requirement.values)
    match requirement.operator:
        case "in" | "=" | "==":
            return lambda labels: labels.get(key) in values
        case "notin" | "!=":
            return lambda labels: labels.get(key) not in values
        case "exists":
            return lambda labels: key in labels
        case "!":
            return lambda labels: key not in labels
        case operator:
            return _comparison(key, operator, int(requirement.values[0]))


def _comparison(key: str, operator: str, limit: int) -> Callable[[Mapping[str, str]], bool]:
    def compare(labels: Mapping[str, str]) -> bool:
        value = _integer(labels.get(key, ""))
        return value is not None and (value > limit if operator == ">" else value < limit)

    return compare


def _integer(text: str) -> int | None:
    """A number of 64 bits in decimal, else nothing."""
    if len(text) > _INTEGER_DIGITS or not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


class _Parser:
    """Reads a label selector from left to right; `in` and `notin` are keywords only where an operator may stand."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[bool, str]] = []
        position = 0
        while found := _TOKEN.match(text, position):
            symbol, word = found.groups()
            self._tokens.append((symbol is None, symbol or word))
            position = found.end()
        self._tokens.append((False, _END))
        self._position = 0

    def requirements(self) -> list[Requirement]:
        """All terms, or BadRequest."""
        found: list[Requirement] = []
        while True:
            is_word, token = self._next
            if not is_word and token == _END:
                return found
            if not is_word and token != "!":  # noqa: S105 - a symbol of the grammar
                raise bad_request(f"found '{token}', expected: !, identifier, or 'end of string'")
            found.append(self._requirement())
            _, token = self._take()
            if token == _END:
                return found
            if token != ",":  # noqa: S105 - a symbol of the grammar
                raise bad_request(f"found '{token}', expected: ',' or 'end of string'")
            is_word, token = self._next
            if not is_word and token != "!":  # noqa: S105 - a symbol of the grammar
                raise bad_request(f"found '{token}', expected: identifier after ','")

    @property
    def _next(self) -> tuple[bool, str]:
        return self._tokens[self._position]

    def _take(self) -> tuple[bool, str]:
        token = self._tokens[self._position]
        self._position += 1
        return token

    def _requirement(self) -> Requirement:
        is_word, key = self._take()
        absent = not is_word and key == "!"
        if absent:
            is_word, key = self._take()
        if not is_word:
            _refuse(f"found '{key}', expected: identifier")
        if faults := label_key_faults(key):
            _refuse(f"<nil>: Invalid value: {quote(key)}: {'; '.join(faults)}")
        if absent:
            return Requirement(key=key, operator="!")
        if self._next in {(False, _END), (False, ",")}:
            return Requirement(key=key, operator="exists")
        operator = self._operator()
        values = self._set() if operator in {"in", "notin"} else {self._exact()}
        return _checked(key, operator, sorted(values))

    def _operator(self) -> str:
        is_word, token = self._take()
        if token not in {"in", "notin"} and (is_word or token not in {"=", "==", "!=", ">", "<"}):
            _refuse(f"found '{token}', expected: {_OPERATORS}")
        return token

    def _exact(self) -> str:
        if self._next in {(False, _END), (False, ",")}:
            return ""
        is_word, token = self._take()
        if not is_word:
            _refuse(f"found '{token}', expected: identifier")
        return token

    def _set(self) -> set[str]:
        if (token := self._take()) != (False, "("):
            _refuse(f"found '{token[1]}' expected: '('")
        values: set[str] = set()
        is_word, text = self._next
        if not is_word and text not in {",", ")"}:
            _refuse(f"found '{text}', expected: ',', ')' or identifier")
        after_comma = True  # so that "()" and "(,a)" and "(a,)" hold the empty value
        while True:
            is_word, text = self._take()
            if not is_word and text in {",", ")"}:
                if after_comma:
                    values.add("")
                if text == ")":
                    return values
                after_comma = True
            elif not is_word:
                _refuse(f"found '{text}', expected: ',', or identifier")
            else:
                values.add(text)
                after_comma = False
                if self._next not in {(False, ","), (False, ")")}:
                    _refuse(f"found '{self._next[1]}', expected: ',' or ')'")


def _checked(key: str, operator: str, values: Sequence[str]) -> Requirement:
    faults = []
    if operator in {"<", ">"} and _integer(values[0]) is None:
        rule = "for 'Gt', 'Lt' operators, the value must be an integer"
        faults.append(f"values[0]: Invalid value: {quote(values[0])}: {rule}")
    for index, value in enumerate(values):
        if rules := label_value_faults(value):
            faults.append(f"values[{index}][{key}]: Invalid value: {quote(value)}: {'; '.join(rules)}")
    if faults:
        _refuse(faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")
    return Requirement(key=key, operator=operator, values=tuple(values))


def _refuse(why: str) -> NoReturn:
    raise bad_request(f"unable to parse requirement: {why}")


def label_key_faults(key: str) -> list[str]:
    """What is wrong with the key of a label, in the server's words; nothing when it is good."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return [
            f"a valid label key {_NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    faults = []
    if slash and not prefix:
        faults.append("prefix part must be non-empty")
    elif slash:
        if _length(prefix) > _SUBDOMAIN_LENGTH:
            faults.append(f"prefix part must be no more than {_SUBDOMAIN_LENGTH} bytes")
        if not _SUBDOMAIN_PATTERN.fullmatch(prefix):
            faults.append(f"prefix part {_SUBDOMAIN_RULE}")
    if not name:
        faults.append("name part must be non-empty")
    elif _length(name) > _NAME_LENGTH:
        faults.append(f"name part must be no more than {_NAME_LENGTH} bytes")
    if not _NAME_PATTERN.fullmatch(name):
        faults.append(f"name part {_NAME_RULE}")
    return faults


def label_value_faults(value: str) -> list[str]:
    """What is wrong with the value of a label, in the server's words; nothing when it is good."""
    faults = [f"must be no more than {_NAME_LENGTH} bytes"] if _length(value) > _NAME_LENGTH else []
    if value and not _NAME_PATTERN.fullmatch(value):
        faults.append(_VALUE_RULE)
    return faults


def _length(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


class FieldSelector:
    """A compiled selector of objects by fields; without terms it selects all."""

    def __init__(self, terms: Iterable[tuple[Callable[[RawObject], str], bool, str]]) -> None:
        self._terms = tuple(terms)

    def matches(self, raw: RawObject) -> bool:
        """Whether this object is selected."""
        return all((read(raw) == value) is equal for read, equal, value in self._terms)


def parse_fields(
    text: str, allowed: Mapping[str, Callable[[RawObject], str]], *, metadata_only: bool = False
) -> FieldSelector:
    """The selector that this text says, or BadRequest.

    `allowed` reads the fields that this kind can be selected by; `metadata_only` is for built-in kinds that have none
    but name and namespace, of which the real server says so.
    """
    terms = _field_terms(text)
    for field, _, _ in terms:
        if field not in allowed:
            known = f'{quote(field)} is not a known field selector: only "metadata.name", "metadata.namespace"'
            raise bad_request(known if metadata_only else f"field label not supported: {field}")
    return FieldSelector((allowed[field], equal, value) for field, equal, value in terms)


def exact_field(text: str, field: str) -> str | None:
    """The one value of a field that a selector leaves, or None; BadRequest where it is no selector."""
    return next((value for name, equal, value in _field_terms(text) if equal and name == field), None)


def _field_terms(text: str) -> list[tuple[str, bool, str]]:
    return [_field_term(text, part) for part in sorted(re.findall(r"(?:[^\\,]|\\.|\\$)+", text, flags=re.DOTALL))]


def _field_term(text: str, part: str) -> tuple[str, bool, str]:
    found = re.search("!=|==|=", part)
    if not found:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
    return part[: found.start()], found.group() != "!=", _unescaped(part[found.end() :])


def _unescaped(value: str) -> str:
    plain, escaped = [], False
    for char in value:
        if escaped and char not in "\\,=":
            raise bad_request(f"invalid field selector: invalid escape sequence: \\{char}")
        if not escaped and char == "=":
            raise bad_request(f"invalid field selector: unescaped character in value: {ord(char)}")
        if not escaped and char == "\\":
            escaped = True
            continue
        plain.append(char)
        escaped = False
    if escaped:
        raise bad_request("invalid field selector: invalid escape sequence: \\")
    return "".join(plain)
