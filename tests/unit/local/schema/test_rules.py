"""CEL rules say of objects what they say on the real server, and rules that cannot be used are found."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from edgewright.local import schema
from edgewright.local.schema import engine
from edgewright.local.schema.rules import evaluation
from tests.unit.local.schema import cost_cases
from tests.unit.local.schema import rule_cases as cases
from tests.unit.local.schema.recorded import RECORDED, listed, stored

COMPILED = schema.compile(cases.SCHEMA)
SAID = RECORDED["rules"]
PATH = "spec.validation.openAPIV3Schema"


@pytest.mark.parametrize("name", cases.CREATED)
def test_rules_say_of_a_new_object_what_they_say_on_the_real_server(name: str) -> None:
    assert listed(COMPILED.validate(stored(COMPILED, cases.CREATED[name]))) == SAID["created"][name]


@pytest.mark.parametrize("name", cases.UPDATED)
def test_rules_say_of_an_update_what_they_say_on_the_real_server(name: str) -> None:
    before, after = (stored(COMPILED, spec) for spec in cases.UPDATED[name])
    assert listed(COMPILED.validate(after, before)) == SAID["updated"][name]


@pytest.mark.parametrize("name", cases.FAULTY)
def test_rules_that_cannot_be_used_are_found_as_on_the_real_server(name: str) -> None:
    whole = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": cases.FAULTY[name]}}}}
    ours = [
        [reason, "".join(message.partition("compilation failed: ")[:2]), field]
        for reason, message, field in listed(schema.rules_faults(whole, PATH))
    ]
    assert ours == SAID["faulty"][name]


def asked(rule: str, value: Any, held: dict[str, Any] | None = None, **more: Any) -> list[str]:
    """The sentences about a value that a rule is asked of."""
    node = cases.ruled(held or {"x-kubernetes-int-or-string": True}, {"rule": rule, **more})
    return [cause.message for cause in schema.compile({"properties": {"x": node}}).validate({"x": value})]


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("self == 1", 1),
        ("quantity('1Ki').asInteger() == 1024", 1),
        ("quantity('1.5').asApproximateFloat() == 1.5 && !quantity('1.5').isInteger()", 1),
        ("quantity('2').sub(1).compareTo(quantity('1')) == 0", 1),
        ("quantity('1').isGreaterThan(quantity('999m')) && quantity('1') == quantity('1000m')", 1),
        ("sign(quantity('-1')) == -1 && sign(quantity('0')) == 0", 1),
        ("!isQuantity('1x') && !isQuantity('')", 1),
        ("semver('v1.02', true) == semver('1.2.0+x') && semver('v1.02', true).minor() == 2", 1),
        ("semver('1.2.3').patch() == 3 && !isSemver('1.2') && !isSemver('1-a', true)", 1),
        ("semver('1.0.0-a.1').isLessThan(semver('1.0.0-a.b'))", 1),
        ("ip('::1').isLoopback() && ip('::').isUnspecified() && ip('fe80::1').isLinkLocalUnicast()", 1),
        ("ip('224.0.0.1').isLinkLocalMulticast() && ip('ff02::1').isLinkLocalMulticast()", 1),
        ("!ip('255.255.255.255').isGlobalUnicast() && ip('8.8.8.8').isGlobalUnicast()", 1),
        ("!isIP('fe80::1%eth0') && !isCIDR('10.0.0.0/08') && !isCIDR('x/8')", 1),
        ("cidr('10.0.0.0/8').containsIP(ip('10.0.0.1')) && cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16'))", 1),
        ("string(cidr('10.1.2.3/8')) == '10.1.2.3/8' && string(1) == '1'", 1),
        ("url('http://u@[::1]:80/a b').getHostname() == '::1' && url('/x').getHost() == ''", 1),
        ("format.qualifiedName().validate('a/b/c').hasValue()", 1),
        ("format.dns1123LabelPrefix().validate('a-').orValue(['x']) == ['x']", 1),
        ("format.dns1123SubdomainPrefix().validate('A').value().size() == 1", 1),
        ("format.dns1035LabelPrefix().validate('1').hasValue() && !format.uri().validate('/x').hasValue()", 1),
        ("format.uri().validate('x').hasValue() && format.uuid().validate('x').hasValue()", 1),
        ("format.byte().validate('x').hasValue() && format.date().validate('x').hasValue()", 1),
        ("format.datetime().validate('x').hasValue() && format.labelValue().validate('-').hasValue()", 1),
        ("[1.5, 2.5].sum() == 4.0 && [].sum() == 0 && [2, 1].max() == 2", 1),
        ("[1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(2) == -1 && 'abc'.indexOf('c') == 2", 1),
        ("'abcabc'.findAll('(b)(c)') == ['bc', 'bc'] && 'x'.find('[[:digit:](]') == ''", 1),
    ],
)
def test_the_functions_of_kubernetes_are_there(rule: str, value: Any) -> None:
    assert asked(rule, value) == []


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("[].min() == 1", "min called on empty list evaluating rule"),
        ("['a'].sum() == 1", "'no such overload'"),
        ("quantity('1').major() == 1", "'no such overload'"),
        ("quantity('1.5').asInteger() == 1", "cannot convert value to integer evaluating rule"),
        ("quantity('1x') == quantity('1')", "quantities must match the regular expression"),
        ("quantity('1i') == quantity('1')", "unable to parse quantity's suffix"),
        ("semver('1.0.0').compareTo(quantity('1')) == 1", "'no such overload'"),
        ("semver('1') == semver('1')", "No Major.Minor.Patch elements found"),
        ("semver('1.2.x') == semver('1')", "Invalid character(s) found"),
        ("ip('x').family() == 4", 'IP Address "x" parse error during conversion from string'),
        ("ip('fe80::1%e').family() == 6", 'IP address "fe80::1%e" with zone value is not allowed'),
        ("cidr('10.0.0.0/x').prefixLength() == 1", "network address parse error during conversion from string"),
        ("url('x').getHost() == ''", "URL parse error during conversion from string"),
        ("'a'.find('(') == ''", "Illegal regex"),
        ("self.a == 1", "'no such overload'"),
        ("10 / 0 == 1", "division by zero evaluating rule"),
    ],
)
def test_a_rule_that_fails_says_why(rule: str, sentence: str) -> None:
    (said,) = asked(rule, 1)
    assert sentence in said


def test_a_rule_that_does_not_end_is_given_up_with_all_that_follow() -> None:
    numbers = {"type": "array", "items": {"type": "integer"}}
    endless = "self.all(x, self.all(y, self.all(z, x + y + z >= 0)))"
    held = {"properties": {"x": cases.ruled(numbers, endless, "false"), "y": cases.ruled(numbers, "false")}}
    found = schema.compile(held).validate({"x": list(range(100)), "y": [1]})
    (said,) = [cause.message for cause in found]
    assert said.startswith("Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further ")
    assert said.endswith(f"call cost exceeds limit for rule: {endless}")


def test_rules_that_take_too_long_together_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 1.0, 2.0, 6.0])
    monkeypatch.setattr(evaluation, "_clock", lambda: next(times))
    items = {"type": "array", "items": cases.ruled({"type": "integer"}, "self < 5")}
    found = schema.compile({"properties": {"x": items}}).validate({"x": [1, 7, 8, 9]})
    assert [cause.field for cause in found] == ["x[1]", "x[2]"]
    assert "running out of cost budget, no further validation rules will be run" in found[1].message


def test_a_rule_that_unchanged_values_break_is_warned_of() -> None:
    before, after = (stored(COMPILED, spec) for spec in ({"ratcheted": 5}, {"ratcheted": 5, "other": "x"}))
    warnings: list[str] = []
    assert COMPILED.validate(after, before, warnings=warnings) == []
    assert warnings == ["spec.ratcheted: Invalid value: 5: too large"]


def test_a_rule_that_does_not_compile_is_held_against_every_object() -> None:
    (said,) = asked("self >", 1)
    assert "rule compile error: compilation failed: ERROR: <input>:1:7: Syntax error" in said


def test_an_empty_rule_is_not_asked() -> None:
    assert asked("  ", 1) == []
    assert schema.rules_faults({"type": "object", **cases.ruled({}, " ")}, "x") == []


def test_the_rules_of_what_has_no_type_are_faulty() -> None:
    (fault,) = schema.rules_faults({"properties": {"x": cases.ruled({}, "true")}}, "s")
    assert fault.field == "s.properties[x].x-kubernetes-validations[0].rule"


def test_what_the_library_cannot_evaluate_is_refused_when_the_rule_is_written() -> None:
    held = cases.ruled(cases.mapped({"type": "integer"}), "self.transformMap(k, v, v + 1).size() == 1")
    (fault,) = schema.rules_faults({"properties": {"x": held}}, "s")
    assert "this server cannot evaluate" in fault.message


def test_a_message_too_long_to_be_shown_is_not() -> None:
    long = "'" + "x" * 6000 + "'"
    assert asked("self == 2", 1, messageExpression=long, message="short") == ["Invalid value: 1: short"]
    assert asked("self == 2", 1, messageExpression="self.", message="short") == ["Invalid value: 1: short"]


def test_a_field_path_that_is_none_is_left_out() -> None:
    for path in (".y", "x", "[0]", ".a.b"):
        node = cases.ruled(cases.obj(a={"type": "integer"}), {"rule": "false", "fieldPath": path, "message": "no"})
        (cause,) = schema.compile({"properties": {"x": node}}).validate({"x": {"a": 1}})
        assert cause.field == "x"


def test_times_in_rules_are_compared_as_times() -> None:
    moment = {"type": "string", "format": "date-time"}
    held = cases.obj(at=moment, list={"type": "array", "items": {"type": "string", "format": "duration"}})
    rule = "self.at == timestamp('2024-01-01T00:00:00Z') && self.list.all(x, x > duration('1m'))"
    assert asked(rule, {"at": "2024-01-01T01:00:00+01:00", "list": ["2 min", "1h"]}, held) == []


def test_a_process_without_rules_does_not_load_the_library() -> None:
    program = """
import sys
from edgewright.local import schema
compiled = schema.compile({"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-z]+$"}}})
assert [each.field for each in compiled.validate({"a": "A"})] == ["a"]
assert not any(name.startswith("cel_expr_python") for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_the_library_rules_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(engine, "import_module", missing)
    engine._library.cache_clear()
    try:
        with pytest.raises(RuntimeError, match=r"install edgewright\[local\]"):
            engine.Environment(("self",)).compile("true")
    finally:
        engine._library.cache_clear()


@pytest.mark.parametrize("name", cost_cases.CASES)
def test_a_rule_that_could_take_too_long_is_refused(name: str) -> None:
    held, taken = cost_cases.CASES[name]
    found = schema.rules_faults(cost_cases.root(held), "root")
    assert (not found) is taken
    assert {each.reason for each in found} <= {"FieldValueForbidden"}


def test_a_message_that_could_take_too_long_is_refused_too() -> None:
    rule = {"rule": "true", "messageExpression": "self.map(x, self.map(y, x + y).join('')).join('')"}
    held = {**cost_cases.items(cost_cases.TEXT), "x-kubernetes-validations": [rule]}
    fields = [each.field for each in schema.rules_faults(cost_cases.root(held), "root")]
    assert "root.properties[spec].properties[v].x-kubernetes-validations[0].messageExpression" in fields
