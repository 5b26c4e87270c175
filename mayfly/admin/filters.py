"""Which objects an inquiry is about: a condition on one value, as data."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Final, NamedTuple

from mayfly.admin.model import Record, object_type
from mayfly.admin.values import named
from mayfly.engine.face.administration import matches
from mayfly.verbs.facts import Value

_ORDERINGS: dict[str, Callable[[Value, Value], bool]] = {
    "LT": operator.lt,
    "LE": operator.le,
    "EQ": operator.eq,
    "NE": operator.ne,
    "GE": operator.ge,
    "GT": operator.gt,
}
#: The operators by which numbers and texts are compared, those of words, and those of patterns.
ORDERINGS: Final = tuple(_ORDERINGS)
UNORDERED: Final = ("EQ", "NE")
LIKE, NOT_LIKE = "LK", "NL"


class Filter(NamedTuple):
    """A condition on the value of a keyword; an object without the keyword never passes.

    A number that has a name, as NOLIMIT is one, is neither less nor more than other numbers; for EQ
    and NE ``value`` is the number or its name.
    """

    keyword: str
    operator: str
    value: Value

    def passes(self, record: Record) -> bool:
        """Return whether an object fulfils the condition."""
        found = record.values.get(self.keyword)
        if found is None:
            return False
        row = object_type(record.kind).row(self.keyword)
        found = named(row, found)
        wanted = named(row, self.value) if self.operator in UNORDERED else self.value
        if self.operator in (LIKE, NOT_LIKE):
            return matches(str(found), str(wanted)) == (self.operator == LIKE)
        if isinstance(found, str) != isinstance(wanted, str):
            return self.operator == "NE"
        return _ORDERINGS[self.operator](found, wanted)
