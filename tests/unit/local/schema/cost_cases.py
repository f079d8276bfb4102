"""Rules by what they may cost, each with the schema that it stands in: which of them the real server refuses.

`tests/cluster/test_local_rules.py` asks the real server about each; the unit test holds the embedded one to the answer.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
SHORT: Schema = {"type": "string", "maxLength": 64}
NUMBER: Schema = {"type": "integer"}


def items(of: Schema, most: int | None = None, **more: Any) -> Schema:
    """A list."""
    return {"type": "array", "items": of, **({} if most is None else {"maxItems": most}), **more}


def mapping(of: Schema, most: int | None = None) -> Schema:
    """An object with fields of any name."""
    return {"type": "object", "additionalProperties": of, **({} if most is None else {"maxProperties": most})}


def struct(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    """An object with named fields."""
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def ruled(schema: Schema, *rules: str) -> Schema:
    """A schema with rules."""
    return {**schema, "x-kubernetes-validations": [{"rule": rule} for rule in rules]}


SQUARE = ruled(items(NUMBER, 1200), "self.all(x, self.all(y, x == y))")

CASES: dict[str, tuple[Schema, bool]] = {
    "a number compared": (ruled(NUMBER, "self > 0"), True),
    "two texts compared": (ruled(struct(a=TEXT, b=TEXT), "self.a == self.b"), True),
    "a text matched": (ruled(TEXT, "self.matches('^[a-z]+$')"), True),
    "a text matched by a long pattern": (ruled(TEXT, f"self.matches('{'[a-z]' * 40}')"), False),
    "a text contained in a text": (ruled(struct(a=TEXT, b=TEXT), "self.a.contains(self.b)"), False),
    "a short text contained in a short text": (ruled(struct(a=SHORT, b=SHORT), "self.a.contains(self.b)"), True),
    "a text that begins with another": (ruled(struct(a=TEXT, b=TEXT), "self.a.startsWith(self.b)"), True),
    "every number": (ruled(items(NUMBER), "self.all(x, x > 0)"), True),
    "every number, of few": (ruled(items(NUMBER, 100), "self.all(x, x > 0)"), True),
    "every text matched": (ruled(items(TEXT), "self.all(x, x.matches('^[a-z]+$'))"), False),
    "every text matched, of few": (ruled(items(TEXT, 5), "self.all(x, x.matches('^[a-z]+$'))"), True),
    "every short text matched": (ruled(items(SHORT), "self.all(x, x.matches('^[a-z]+$'))"), False),
    "every short text matched, of few": (ruled(items(SHORT, 100), "self.all(x, x.matches('^[a-z]+$'))"), True),
    "every number with every other": (ruled(items(NUMBER), "self.all(x, self.all(y, x == y))"), False),
    "every number with every other, of few": (ruled(items(NUMBER, 100), "self.all(x, self.all(y, x == y))"), True),
    "every number with every other, of many": (ruled(items(NUMBER, 5000), "self.all(x, self.all(y, x == y))"), False),
    "three loops over few": (ruled(items(NUMBER, 50), "self.all(x, self.all(y, self.all(z, x + y > z)))"), True),
    "three loops over many": (ruled(items(NUMBER, 500), "self.all(x, self.all(y, self.all(z, x + y > z)))"), False),
    "unique numbers by counting": (
        ruled(items(NUMBER, 1000), "self.all(x, self.filter(y, y == x).size() == 1)"),
        False,
    ),
    "a number in a list": (ruled(struct(n=NUMBER, l=items(NUMBER)), "self.n in self.l"), True),
    "every number in another list": (
        ruled(struct(a=items(NUMBER, 5000), b=items(NUMBER, 5000)), "self.a.all(x, x in self.b)"),
        False,
    ),
    "every number in another short list": (
        ruled(struct(a=items(NUMBER, 100), b=items(NUMBER, 100)), "self.a.all(x, x in self.b)"),
        True,
    ),
    "a rule on each item of a list": (items(ruled(NUMBER, "self > 0")), True),
    "a dear rule on each item of a list": (items(ruled(TEXT, "self.matches('^[a-z]+$')")), False),
    "a dear rule on each item of a short list": (items(ruled(TEXT, "self.matches('^[a-z]+$')"), 5), True),
    "a rule on each item of lists in a list": (items(items(ruled(SHORT, "self.startsWith('a')"))), True),
    "a matching rule on each item of lists in a list": (items(items(ruled(SHORT, "self.matches('^[a-z]+$')"))), False),
    "every key of a map": (ruled(mapping(NUMBER), "self.all(k, self[k] > 0)"), True),
    "every key of a small map": (ruled(mapping(NUMBER, 10), "self.all(k, self[k] > 0)"), True),
    "each value of a map matched": (mapping(ruled(TEXT, "self.matches('^[a-z]+$')")), False),
    "each value of a small map matched": (mapping(ruled(SHORT, "self.matches('^[a-z]+$')"), 20), True),
    "texts of a list joined": (ruled(items(TEXT), "self.join('').size() < 100"), False),
    "few short texts joined": (ruled(items(SHORT, 10), "self.join('').size() < 100"), True),
    "a text split": (ruled(TEXT, "self.split(',').size() < 5"), True),
    "a text split and matched": (ruled(TEXT, "self.split(',').all(x, x.matches('a+'))"), False),
    "a text in lower case": (ruled(TEXT, "self.lowerAscii() == self"), True),
    "objects of a list": (ruled(items(struct(("name",), name=TEXT)), "self.all(x, x.name.size() > 0)"), True),
    "names in a list that are alike": (
        ruled(items(struct(("name",), name=SHORT), 1000), "self.all(x, self.exists_one(y, x.name == y.name))"),
        False,
    ),
    "few names in a list that are alike": (
        ruled(items(struct(("name",), name=SHORT), 50), "self.all(x, self.exists_one(y, x.name == y.name))"),
        True,
    ),
    "either of two": (ruled(struct(a=TEXT, b=TEXT), "has(self.a) || has(self.b)"), True),
    "one or the other": (ruled(struct(a=NUMBER, b=NUMBER), "has(self.a) ? self.b > 0 : self.b < 0"), True),
    "many rules that are dear together": (
        {"type": "object", "properties": {f"l{number}": SQUARE for number in range(20)}},
        False,
    ),
    "an old value compared": (ruled(TEXT, "self == oldSelf"), True),
    "a list that grows only": (ruled(items(NUMBER, 500), "oldSelf.all(x, x in self)"), True),
}
"""A schema with rules, and whether the real server takes it."""


def root(schema: Schema) -> Schema:
    """The schema of a kind with this in its spec."""
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": {"v": schema}}}}
