"""Rules in CEL and the values they are asked of, for the unit tests and for the comparison with the real server.

What the real server says of each case was written down in causes.json, so that the unit tests can do without it; the
cluster tests ask it again. Bounds are everywhere, since the real server estimates what a rule may cost.
"""

from __future__ import annotations

from typing import Any

TEXT: dict[str, Any] = {"type": "string", "maxLength": 40}
NUMBER: dict[str, Any] = {"type": "integer"}


def ruled(schema: dict[str, Any], *rules: str | dict[str, Any]) -> dict[str, Any]:
    """A schema with rules."""
    return {
        **schema,
        "x-kubernetes-validations": [{"rule": rule} if isinstance(rule, str) else rule for rule in rules],
    }


def obj(**properties: Any) -> dict[str, Any]:
    """The schema of an object."""
    return {"type": "object", "properties": properties}


def listed(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The schema of a short list."""
    return {"type": "array", "maxItems": 10, "items": items, **more}


def mapped(values: dict[str, Any]) -> dict[str, Any]:
    """The schema of a small map."""
    return {"type": "object", "maxProperties": 10, "additionalProperties": values}


EITHER = {"x-kubernetes-int-or-string": True, "maxLength": 40}
KEYED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
PORT = {"type": "object", "required": ["name"], "properties": {"name": TEXT, "port": NUMBER}}

FIELDS: dict[str, dict[str, Any]] = {
    "text": ruled(TEXT, "self.startsWith('a')", {"rule": "self.size() < 5", "message": " too long for us "}),
    "number": ruled(NUMBER, "self > 3"),
    "ratio": ruled({"type": "number"}, "self / 2.0 < 3.0"),
    "flag": ruled({"type": "boolean"}, "!self"),
    "pair": ruled(obj(low=NUMBER, high=NUMBER), "self.low <= self.high"),
    "optionals": ruled(obj(low=NUMBER, high=NUMBER), "!has(self.low) || self.low < self.?high.orValue(10)"),
    "told": ruled(
        obj(a=NUMBER, b=NUMBER),
        {"rule": "self.a < self.b", "messageExpression": "'a is %d and b is %d'.format([self.a, self.b])"},
    ),
    "badlyTold": ruled(
        obj(a=NUMBER, b=NUMBER),
        {"rule": "self.a < 5", "message": "fallback", "messageExpression": "string(self.b)"},
        {"rule": "self.a < 6", "messageExpression": "'  '"},
        {"rule": "self.a < 7", "messageExpression": "'a\\nb'"},
    ),
    "forbidden": ruled(NUMBER, {"rule": "self < 3", "reason": "FieldValueForbidden", "message": "not that many"}),
    "required": ruled(
        obj(a=TEXT),
        {"rule": "has(self.a)", "reason": "FieldValueRequired", "fieldPath": ".a", "message": "a is needed"},
    ),
    "duplicate": ruled(
        obj(a=TEXT, b=TEXT), {"rule": "self.a != self.b", "reason": "FieldValueDuplicate", "fieldPath": ".b"}
    ),
    "pointed": ruled(
        obj(deep=obj(**{"er-": mapped(NUMBER)})),
        {"rule": "self.deep.er__dash__.all(k, self.deep.er__dash__[k] > 0)", "fieldPath": ".deep['er-'].x"},
    ),
    "escaped": ruled(
        obj(**{"a.b": NUMBER, "c-d": NUMBER, "e/f": NUMBER, "in": NUMBER, "g__h": NUMBER, "namespace": NUMBER}),
        "self.a__dot__b + self.c__dash__d + self.e__slash__f + self.__in__ + self.g__underscores__h "
        "+ self.__namespace__ == 21",
    ),
    "list": ruled(listed(NUMBER), "self.all(x, x > 0)", "self.exists_one(x, x == 2)", "self.map(x, x * 2).sum() < 20"),
    "sorted": ruled(listed(NUMBER), "self.isSorted()", "self.min() >= 1 && self.max() <= 9", "self.indexOf(3) == 0"),
    "words": ruled(listed(TEXT), "self.isSorted()", "self.join('-').size() < 10", "self.lastIndexOf('b') < 3"),
    "map": ruled(mapped(NUMBER), "self.all(k, self[k] > 0)", "!('bad' in self)", "self.size() < 3"),
    "below": listed(ruled(NUMBER, "self < 5")),
    "belowMap": mapped(ruled(NUMBER, "self < 5")),
    "either": ruled(EITHER, "type(self) == int ? self < 5 : self.endsWith('%')"),
    "wrongEither": ruled(EITHER, "self.startsWith('a')"),
    "missing": ruled(obj(a=NUMBER, b=NUMBER), "self.a > 1"),
    "index": ruled(listed(NUMBER), "self[1] > 1"),
    "division": ruled(NUMBER, "10 / self > 1"),
    "remainder": ruled(NUMBER, "10 % self == 1"),
    "overflow": ruled(NUMBER, "self + 9223372036854775807 > 0"),
    "pattern": ruled(
        TEXT, "self.matches('^[a-z]+$')", "self.find('[b-z]+') == 'b'", "self.findAll('[a-c]').size() == 2"
    ),
    "grouped": ruled(TEXT, "self.find('(a)(b)+') == 'abb'", "self.findAll('(?i)x.', 1) == ['xy']"),
    "quantity": ruled(
        TEXT,
        "isQuantity(self)",
        "!isQuantity(self) || quantity(self).isLessThan(quantity('2Gi'))",
        "!isQuantity(self) || quantity(self).add(quantity('500m')).compareTo(quantity('1')) >= 0",
        "!isQuantity(self) || quantity(self).isInteger() && quantity(self).asInteger() > 0",
    ),
    "badQuantity": ruled(TEXT, "sign(quantity(self)) == 1"),
    "url": ruled(
        TEXT,
        "isURL(self)",
        "!isURL(self) || url(self).getScheme() == 'https'",
        "!isURL(self) || url(self).getHost() == 'a.b:1'",
        "!isURL(self) || url(self).getHostname() == 'a.b' && url(self).getPort() == '1'",
        "!isURL(self) || url(self).getEscapedPath() == '/c%20d'",
        "!isURL(self) || url(self).getQuery() == {'e': ['f', 'g']}",
    ),
    "ip": ruled(
        TEXT,
        "isIP(self)",
        "!isIP(self) || ip(self).family() == 4",
        "!isIP(self) || ip.isCanonical(self)",
        "!isIP(self) || !ip(self).isLoopback() && !ip(self).isUnspecified()",
        "!isIP(self) || ip(self).isGlobalUnicast()",
        "!isIP(self) || string(ip(self)) == self",
    ),
    "cidr": ruled(
        TEXT,
        "isCIDR(self)",
        "!isCIDR(self) || cidr(self).containsIP('10.1.2.3')",
        "!isCIDR(self) || cidr('10.0.0.0/8').containsCIDR(self)",
        "!isCIDR(self) || cidr(self).prefixLength() > 8 && cidr(self).masked() == cidr(self)",
        "!isCIDR(self) || cidr(self).ip().family() == 4",
    ),
    "semver": ruled(
        TEXT,
        "isSemver(self, true)",
        "!isSemver(self) || semver(self).isGreaterThan(semver('1.2.3-rc.1'))",
        "!isSemver(self) || semver(self).major() == 1 && semver(self).compareTo(semver('1.10.0')) < 0",
    ),
    "format": ruled(
        TEXT,
        "!format.dns1123Label().validate(self).hasValue()",
        "format.named('labelValue').value().validate(self).orValue([]).size() == 0",
        "!format.named('nope').hasValue()",
    ),
    "strings": ruled(
        TEXT,
        "self.split('-').size() == 2",
        "self.lowerAscii() == self && self.replace('-', '').trim() != ''",
        "self.substring(0, 1) == 'a' && self.indexOf('-') > 0",
    ),
    "sets": ruled(listed(TEXT), "sets.contains(['a', 'b', 'c'], self)", "sets.intersects(self, ['a'])"),
    "twoVariables": ruled(listed(NUMBER), "self.all(i, x, i <= x)", "self.transformList(i, x, i + x).sum() < 20"),
    "mapTwo": ruled(mapped(NUMBER), "self.all(k, v, k.size() == v)"),
    "listOps": ruled(listed(NUMBER), "self.distinct().size() == self.size()", "self.sort().slice(0, 1) == [1]"),
    "when": ruled(
        obj(start={"type": "string", "format": "date-time"}, length={"type": "string", "format": "duration"}),
        "self.start > timestamp('2020-01-01T00:00:00Z')",
        "!has(self.length) || self.length < duration('1h')",
        "!has(self.length) || self.start + self.length < timestamp('2030-01-01T00:00:00Z')",
        "self.start.getFullYear() < 2031",
    ),
    "day": ruled({"type": "string", "format": "date"}, "self < timestamp('2024-01-01T00:00:00Z')"),
    "span": ruled({"type": "string", "format": "duration"}, "self.getMinutes() < 60"),
    "bytes": ruled({"type": "string", "format": "byte", "maxLength": 40}, "self == b'abc'", "self.size() == 3"),
    "byteMap": ruled(
        mapped({"type": "string", "format": "byte", "maxLength": 40}),
        "self.all(k, self[k] == b'abc')",
    ),
    "nullable": obj(a=ruled({"type": "string", "nullable": True, "maxLength": 9}, "self != 'x'")),
    "seesNull": ruled(obj(a={**obj(b=NUMBER), "nullable": True}), "!has(self.a) || self.a != null"),
    "embedded": {
        **ruled(
            obj(spec=obj(n=NUMBER)),
            "self.apiVersion == 'v1' && self.kind == 'Thing'",
            "self.metadata.name.startsWith('a')",
        ),
        "x-kubernetes-embedded-resource": True,
    },
    "ternary": ruled(obj(mode=TEXT, n=NUMBER), "self.mode == 'one' ? self.n == 1 : self.n > 1"),
    "commented": ruled(NUMBER, {"rule": "self > 1 // not 'one'", "message": "more"}),
    "quoted": ruled(TEXT, 'self != "a\\"b" && self != r\'\\d\' && self != """x"""'),
    "integer": ruled(TEXT, "int(self) > 3"),
    "float": ruled(TEXT, "double(self) > 3.0"),
    "bool": ruled(TEXT, "bool(self)"),
    "length": ruled(TEXT, "duration(self) > duration('1s')"),
    "moment": ruled(TEXT, "timestamp(self) > timestamp('2024-01-01T00:00:00Z')"),
    "regular": ruled(TEXT, "'a'.matches(self)"),
    "none": ruled(TEXT, "optional.ofNonZeroValue(self).value() == 'x'"),
    "immutable": ruled(TEXT, {"rule": "self == oldSelf", "message": "is immutable"}),
    "growing": ruled(NUMBER, "self >= oldSelf"),
    "mixedTransition": ruled(obj(a=NUMBER, b=NUMBER), "self.a >= oldSelf.a", "self.b < 5"),
    "maybeOld": ruled(
        NUMBER,
        {
            "rule": "oldSelf.hasValue() ? self >= oldSelf.value() : self == 1",
            "optionalOldSelf": True,
            "messageExpression": "'from %s'.format([oldSelf.hasValue() ? string(oldSelf.value()) : 'none'])",
        },
    ),
    "keyed": listed(
        {**PORT, "properties": {"name": TEXT, "port": ruled(NUMBER, "self >= oldSelf", "self < 100")}}, **KEYED
    ),
    "keyedEqual": ruled(listed(PORT, **KEYED), {"rule": "self == oldSelf", "message": "may not change"}),
    "setEqual": ruled(
        listed(TEXT, **{"x-kubernetes-list-type": "set"}), {"rule": "self == oldSelf", "message": "may not change"}
    ),
    "mapTransition": mapped(ruled(NUMBER, "self >= oldSelf")),
    "ratcheted": ruled(NUMBER, {"rule": "self < 3", "message": "too large"}),
    "ratchetedList": listed(ruled(NUMBER, "self < 3")),
    "freeEqual": ruled(
        {**obj(n=NUMBER), "x-kubernetes-preserve-unknown-fields": True},
        {"rule": "self == oldSelf", "message": "may not change"},
    ),
    "podEqual": {
        **ruled(obj(n=NUMBER), {"rule": "self == oldSelf", "message": "may not change"}),
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "deepEqual": ruled(
        obj(ports=listed(PORT, **KEYED), tags=mapped(listed(TEXT, **{"x-kubernetes-list-type": "set"}))),
        {"rule": "self == oldSelf", "message": "may not change"},
    ),
    "shrinking": ruled(listed(TEXT), "oldSelf.all(x, x in self)", "self.size() == oldSelf.size() || self[0] == 'new'"),
    "timesBelow": ruled(
        listed(obj(at={"type": "string", "format": "date-time", "nullable": True}, name=TEXT)),
        "self.all(x, !has(x.at) || x.at < timestamp('2030-01-01T00:00:00Z'))",
        "self.all(x, has(x.name))",
    ),
    "nested": ruled(
        listed(obj(a=listed(obj(b=NUMBER)))),
        "self.all(x, x.a.all(y, y.b > 0 && self.exists(z, size(z.a) > 0)))",
    ),
    "constructed": ruled(NUMBER, "{'a': self, 'b': 2}['a'] > 1 && [1, self][1] in [2, 3]", "self in {2: 'x'}"),
    "oldTime": ruled({"type": "string", "format": "date-time"}, "self >= oldSelf"),
}
SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {**FIELDS, "plain": {"type": "integer", "maximum": 5}, "other": TEXT},
}
SCHEMA: dict[str, Any] = ruled(
    {"type": "object", "properties": {"spec": SPEC}},
    {"rule": "!self.metadata.name.startsWith('bad')", "message": "the name is bad"},
    {
        "rule": "!has(self.spec.other) || self.spec.other != 'root'",
        "fieldPath": ".spec.other",
        "message": "from the root",
    },
)

CREATED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a text that is right": {"text": "abc"},
    "a text that breaks two rules": {"text": "bcdefg"},
    "a number": {"number": 3},
    "a whole ratio": {"ratio": 6},
    "a ratio": {"ratio": 5.5},
    "a flag": {"flag": True},
    "a pair that is right": {"pair": {"low": 1, "high": 1}},
    "a pair": {"pair": {"low": 2, "high": 1}},
    "half a pair": {"pair": {"low": 2}},
    "a value that may be missing": {"optionals": {"low": 11}},
    "a message that is made": {"told": {"a": 2, "b": 1}},
    "a message that is none": {"badlyTold": {"a": 8}},
    "a message that is made of what is there": {"badlyTold": {"a": 8, "b": 3}},
    "a reason: forbidden": {"forbidden": 3},
    "a reason: required": {"required": {}},
    "a reason: duplicate": {"duplicate": {"a": "x", "b": "x"}},
    "a field path": {"pointed": {"deep": {"er-": {"x": 0}}}},
    "escaped names": {"escaped": {"a.b": 1, "c-d": 2, "e/f": 3, "in": 4, "g__h": 5, "namespace": 6}},
    "escaped names that are wrong": {"escaped": {"a.b": 2, "c-d": 2, "e/f": 3, "in": 4, "g__h": 5, "namespace": 6}},
    "a list that is right": {"list": [1, 2, 3]},
    "a list": {"list": [0, 2, 2, 9]},
    "an empty list": {"list": []},
    "a sorted list": {"sorted": [3, 4]},
    "an unsorted list": {"sorted": [5, 0, 12]},
    "an empty list without a least": {"sorted": []},
    "words": {"words": ["b", "a", "c", "b", "eeee"]},
    "a map that is right": {"map": {"a": 1}},
    "a map": {"map": {"a": 0, "bad": 1, "c": 1}},
    "items of a list": {"below": [1, 5, 7]},
    "values of a map": {"belowMap": {"a": 1, "b": 5, "c.d": 6}},
    "an integer or a string: integer": {"either": 5},
    "an integer or a string: string": {"either": "5"},
    "an integer or a string that is right": {"either": "5%"},
    "a function that is not there for an integer": {"wrongEither": 5},
    "a missing field": {"missing": {"b": 1}},
    "an index that is not there": {"index": [1]},
    "a division by zero": {"division": 0},
    "a remainder by zero": {"remainder": 0},
    "an overflow": {"overflow": 1},
    "patterns that match": {"pattern": "ab"},
    "patterns": {"pattern": "Abc1"},
    "patterns with groups": {"grouped": "abbb Xz xy"},
    "patterns with groups that match": {"grouped": "abb xy"},
    "a quantity that is right": {"quantity": "1Gi"},
    "a quantity that is too large": {"quantity": "3Gi"},
    "a quantity that is too small": {"quantity": "100m"},
    "a quantity with an exponent": {"quantity": "1.5e3"},
    "no quantity": {"quantity": "1 apple"},
    "no quantity at all": {"badQuantity": "1 apple"},
    "a negative quantity": {"badQuantity": "-1"},
    "a URL that is right": {"url": "https://a.b:1/c%20d?e=f&e=g"},
    "a URL": {"url": "http://[::1]:2/x?y"},
    "no URL": {"url": "not a url"},
    "an address that is right": {"ip": "10.0.0.1"},
    "an address that is long": {"ip": "0:0::1"},
    "a local address": {"ip": "127.0.0.1"},
    "no address": {"ip": "1.2.3"},
    "a mapped address": {"ip": "::ffff:1.2.3.4"},
    "a network that is right": {"cidr": "10.1.0.0/16"},
    "a network that is not masked": {"cidr": "10.2.3.4/16"},
    "a network elsewhere": {"cidr": "fd00::/64"},
    "no network": {"cidr": "10.0.0.0"},
    "a version that is right": {"semver": "1.9.0"},
    "a version before its release": {"semver": "1.2.3-beta.2"},
    "a short version": {"semver": "v1"},
    "a large version": {"semver": "1.10.0"},
    "no version": {"semver": "one"},
    "a format that is right": {"format": "abc"},
    "a format": {"format": "A_b-"},
    "strings that are right": {"strings": "ab-c"},
    "strings": {"strings": "Ab"},
    "sets that are right": {"sets": ["a", "c"]},
    "sets": {"sets": ["d"]},
    "two variables that are right": {"twoVariables": [0, 1, 2]},
    "two variables": {"twoVariables": [10, 0, 9]},
    "two variables of a map": {"mapTwo": {"a": 1, "bb": 1}},
    "list operations": {"listOps": [2, 2]},
    "list operations that are right": {"listOps": [2, 1]},
    "a time that is right": {"when": {"start": "2024-01-01T00:00:00Z", "length": "30m"}},
    "a time": {"when": {"start": "2019-01-01T00:00:00+01:00"}},
    "a time and a length": {"when": {"start": "2029-12-31T23:59:59Z", "length": "2 hours"}},
    "a day": {"day": "2024-05-06"},
    "a day that is right": {"day": "2023-05-06"},
    "a span": {"span": "2h"},
    "bytes that are right": {"bytes": "YWJj"},
    "bytes": {"bytes": "YWJjZA=="},
    "bytes with zeros": {"bytes": "AAAA"},
    "bytes in a map": {"byteMap": {"a": "YWJj", "b": "YWI="}},
    "a sum that is too large": {"twoVariables": [9223372036854775807, -1, 1]},
    "quantities with two points": {"badQuantity": "1.2.3"},
    "patterns that are none": {"regular": "[a"},
    "a repetition of nothing": {"regular": "+a"},
    "a null that is not asked": {"nullable": {"a": None}},
    "a null that is seen": {"seesNull": {"a": None}},
    "an embedded object that is right": {"embedded": {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a"}}},
    "an embedded object": {"embedded": {"apiVersion": "v1", "kind": "Other", "metadata": {"name": "b"}}},
    "an embedded object without a name": {"embedded": {"apiVersion": "v1", "kind": "Thing", "metadata": {}}},
    "a choice": {"ternary": {"mode": "two", "n": 1}},
    "a rule with a comment": {"commented": 1},
    "a rule with strings": {"quoted": "x"},
    "times in a list": {"timesBelow": [{"at": "2031-01-01T00:00:00Z"}, {"name": "x"}]},
    "times in a list that are right": {
        "timesBelow": [{"at": "2021-01-01T00:00:00Z", "name": "x"}, {"at": None, "name": "y"}]
    },
    "loops in loops": {"nested": [{"a": [{"b": 0}]}]},
    "loops in loops that are right": {"nested": [{"a": [{"b": 1}]}, {"a": []}]},
    "loops in loops without a field": {"nested": [{}]},
    "what is made in a rule": {"constructed": 1},
    "what is made in a rule that is right": {"constructed": 2},
    "texts that cannot be converted": {"integer": "x", "float": "x", "bool": "x", "length": "1 week", "moment": "now"},
    "texts that are converted": {"integer": "4", "float": "4", "bool": "true", "length": "2s", "regular": "a"},
    "a text that is no pattern": {"regular": "a("},
    "an optional value that is none": {"none": ""},
    "a rule of the root": {"other": "root"},
    "transition rules without an old value": {"immutable": "a", "growing": 1},
    "an optional old value that is right": {"maybeOld": 1},
    "an optional old value": {"maybeOld": 2},
    "a wrong type keeps rules from being asked": {"text": 1, "number": 1},
    "a missing value keeps rules from being asked": {"keyed": [{"port": 1}], "number": 1},
    "a wrong bound does not keep rules from being asked": {"plain": 6, "number": 1},
    "a duplicate does not keep rules from being asked": {"keyed": [{"name": "a"}, {"name": "a"}], "number": 1},
    "too long keeps rules from being asked": {"text": "b" * 41},
}

THING = {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a"}}
A, B = {"name": "a", "port": 5}, {"name": "b", "port": 6}
UPDATED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "what is immutable stays": ({"immutable": "a"}, {"immutable": "a", "other": "x"}),
    "what is immutable changes": ({"immutable": "a"}, {"immutable": "b"}),
    "what is immutable goes": ({"immutable": "a"}, {}),
    "what is immutable comes": ({}, {"immutable": "a"}),
    "what may grow grows": ({"growing": 1}, {"growing": 2}),
    "what may grow shrinks": ({"growing": 2}, {"growing": 1}),
    "one of two rules": ({"mixedTransition": {"a": 2, "b": 7}}, {"mixedTransition": {"a": 1, "b": 7}}),
    "an unchanged value breaks a rule": ({"mixedTransition": {"a": 2, "b": 7}}, {"mixedTransition": {"a": 2, "b": 7}}),
    "an optional old value grows": ({"maybeOld": 3}, {"maybeOld": 4}),
    "an optional old value shrinks": ({"maybeOld": 3}, {"maybeOld": 2}),
    "an optional old value is not there": ({}, {"maybeOld": 2}),
    "an item with a key shrinks": ({"keyed": [A, B]}, {"keyed": [B, {**A, "port": 4}]}),
    "an item with a key is new": ({"keyed": [A]}, {"keyed": [{"name": "c", "port": 1}, A]}),
    "an item with a key stays wrong": ({"keyed": [{**A, "port": 200}]}, {"keyed": [{**A, "port": 200}, B]}),
    "an item with a key becomes wrong": ({"keyed": [A]}, {"keyed": [{**A, "port": 200}]}),
    "a list with keys is sorted": ({"keyedEqual": [A, B]}, {"keyedEqual": [B, A]}),
    "a list with keys changes": ({"keyedEqual": [A, B]}, {"keyedEqual": [B, {**A, "port": 7}]}),
    "a list with keys shrinks": ({"keyedEqual": [A, B]}, {"keyedEqual": [B]}),
    "a set is sorted": ({"setEqual": ["a", "b"]}, {"setEqual": ["b", "a"]}),
    "a set changes": ({"setEqual": ["a", "b"]}, {"setEqual": ["b", "c"]}),
    "a value of a map shrinks": ({"mapTransition": {"a": 2, "b": 3}}, {"mapTransition": {"a": 1, "b": 4, "c": 0}}),
    "a wrong value stays": ({"ratcheted": 5}, {"ratcheted": 5, "other": "x"}),
    "a wrong value changes": ({"ratcheted": 5}, {"ratcheted": 6}),
    "a wrong list stays": ({"ratchetedList": [5]}, {"ratchetedList": [5], "other": "x"}),
    "a wrong list grows": ({"ratchetedList": [5]}, {"ratchetedList": [5, 1]}),
    "a failing rule of an unchanged value": ({"missing": {"b": 1}}, {"missing": {"b": 1}, "other": "x"}),
    "a rule of the root with a wrong part that stays": ({"other": "root"}, {"other": "root", "flag": False}),
    "a time goes back": ({"oldTime": "2024-01-01T00:00:00Z"}, {"oldTime": "2023-12-31T23:59:59Z"}),
    "an open object changes in what is not known": ({"freeEqual": {"n": 1, "m": 1}}, {"freeEqual": {"n": 1, "m": 2}}),
    "an open object does not change": ({"freeEqual": {"n": 1, "m": {"x": 1}}}, {"freeEqual": {"n": 1, "m": {"x": 1}}}),
    "an embedded object changes in its labels": (
        {"podEqual": {**THING, "metadata": {"name": "a", "labels": {"x": "1"}}}},
        {"podEqual": {**THING, "metadata": {"name": "a", "labels": {"x": "2"}}}},
    ),
    "an embedded object does not change": (
        {"podEqual": {**THING, "more": 1}},
        {"podEqual": {**THING, "more": 1}, "other": "x"},
    ),
    "lists below are sorted": (
        {"deepEqual": {"ports": [A, B], "tags": {"x": ["a", "b"]}}},
        {"deepEqual": {"ports": [B, A], "tags": {"x": ["b", "a"]}}},
    ),
    "lists below change": (
        {"deepEqual": {"ports": [A, B], "tags": {"x": ["a", "b"]}}},
        {"deepEqual": {"ports": [B, A], "tags": {"x": ["b", "c"]}}},
    ),
    "a list loses an item": ({"shrinking": ["a", "b"]}, {"shrinking": ["a"]}),
    "a list gets an item": ({"shrinking": ["a", "b"]}, {"shrinking": ["new", "a", "b"]}),
    "a time is written otherwise": ({"oldTime": "2024-01-01T00:00:00Z"}, {"oldTime": "2024-01-01T01:00:00+01:00"}),
}

FAULTY: dict[str, dict[str, Any]] = {
    "is right": ruled(obj(a=NUMBER), "self.a > 1"),
    "no syntax": ruled(NUMBER, "self >"),
    "an unknown name": ruled(NUMBER, "other > 1"),
    "an unknown function": ruled(NUMBER, "nope(self)"),
    "an unknown field": ruled(obj(a=NUMBER), "self.b > 1"),
    "an unknown field of a loop's variable": ruled(listed(obj(a=NUMBER)), "self.all(x, x.b > 1)"),
    "an unknown field that is only asked for": ruled(obj(a=NUMBER), "has(self.b)"),
    "a field that is hidden": ruled(obj(a={"x-kubernetes-preserve-unknown-fields": True}), "self.a == 1"),
    "a field of an open object": ruled(
        {**obj(a=NUMBER), "x-kubernetes-preserve-unknown-fields": True}, "self.other == 1"
    ),
    "a field of metadata": ruled(NUMBER, "self.metadata.name == 'x'"),
    "types that differ": ruled(NUMBER, "self == 'a'"),
    "no null": ruled(obj(a={"type": "string", "nullable": True}), "self.a != null"),
    "a member that is none": ruled({**TEXT}, "quantity(self).sign() == 1"),
    "types that cannot be added": ruled(NUMBER, "self + 1.5 > 2.0"),
    "a string function of a number": ruled(NUMBER, "self.startsWith('a')"),
    "no bool": ruled(NUMBER, "self + 1"),
    "no bool but a string": ruled(TEXT, "self"),
    "a loop over a number": ruled(NUMBER, "self.all(x, x)"),
    "a message with no syntax": ruled(NUMBER, {"rule": "self > 1", "messageExpression": "'a' +"}),
    "a message that is no string": ruled(NUMBER, {"rule": "self > 1", "messageExpression": "self"}),
    "a rule and a message": ruled(NUMBER, {"rule": "self > 'a'", "messageExpression": "self"}),
    "an old value in a list": listed(ruled(NUMBER, "self == oldSelf")),
    "an old value in a list with keys": listed(
        {**PORT, "properties": {"name": TEXT, "port": ruled(NUMBER, "self == oldSelf")}}, **KEYED
    ),
    "an old value below a list": listed(obj(a=ruled(NUMBER, "self == oldSelf"))),
    "an optional old value that is not used": ruled(NUMBER, {"rule": "self > 1", "optionalOldSelf": True}),
    "an old value that is optional and not asked so": ruled(NUMBER, "oldSelf.hasValue()"),
    "no duration": ruled(TEXT, "duration('1 parsec') > duration('1h') && self == ''"),
    "no time": ruled(TEXT, "timestamp('yesterday') > timestamp('2024-01-01T00:00:00Z') && self == ''"),
    "no pattern": ruled(TEXT, "self.matches('a(')"),
    "no pattern to search for": ruled(TEXT, "self.find('a(') == ''"),
    "mixed items": ruled(TEXT, "self in ['a', 1]"),
    "mixed values": ruled(TEXT, "{'a': 1, 'b': 'c'}.size() == 1 && self == ''"),
    "mixed items that are formatted": ruled(TEXT, "'%s %d'.format([self, 1]) != ''"),
    "the reverse of a string": ruled(TEXT, "self.reverse() == 'x'"),
    "an optional field that is not there": ruled(obj(a=NUMBER), "self.?b.hasValue()"),
    "an optional field of a string": ruled(TEXT, "self.?b.hasValue()"),
    "types of a choice": ruled(obj(a=NUMBER, b=NUMBER), "(self.a > 1 ? self.a : self.b) == 'x'"),
    "an item of a list": ruled(listed(NUMBER), "self[0] == 'x'"),
    "sums of numbers": ruled(listed(NUMBER), "self.map(x, x + 1)[0] + 1 == 2 && -self[0] < 0"),
    "a second variable": ruled(mapped(NUMBER), "self.all(k, v, k == v)"),
    "a field of a list": ruled(listed(obj(a=NUMBER)), "self[0].b == 1"),
    "a field of a map's value": ruled(mapped(obj(a=NUMBER)), "self.x.b == 1"),
    "times that are added": ruled(
        {"type": "string", "format": "date-time"}, "self + duration('1h') > timestamp('2024-01-01T00:00:00Z')"
    ),
    "cel.bind": ruled(NUMBER, "cel.bind(x, self, x > 1)"),
    "the math library": ruled(NUMBER, "math.greatest(self, 1) > 1"),
}
