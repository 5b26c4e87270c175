"""The type of an attribute of objects: a row in the tables of attributes."""

from __future__ import annotations

from typing import NamedTuple

from mayfly.verbs.facts import Value


class Attribute(NamedTuple):
    """One attribute of objects: its MQSC keyword, its values and its selector in MQINQ.

    A number is from ``low`` to ``high``, both allowed, or one of ``words``, which stand for
    numbers; with words and no range only those are allowed. A text has at most ``length``
    bytes in UTF-8; with ``length`` 48 it is an object name unless ``takes_any_text``. A text with
    ``choices`` is one of these words. A text that ``is_list`` is several such texts as a line of
    CSV, with ``'`` as quote. ``selector`` is an MQIA_* or MQCA_* or similar constant, None without
    one. ``unit`` is empty for a count. ``field`` is its name in a Definition, empty for an
    attribute that is kept without effect. ``objects`` are the kinds or types that have it, empty
    for all of the table.
    """

    keyword: str
    field: str
    objects: tuple[str, ...]
    default: Value
    selector: int | None
    low: int
    high: int
    words: tuple[tuple[str, int], ...]
    length: int
    unit: str = ""
    choices: tuple[str, ...] = ()
    is_list: bool = False
    takes_any_text: bool = False

    @property
    def is_text(self) -> bool:
        """True if the value is a text, False if it is a number."""
        return self.length > 0

    @property
    def is_flag(self) -> bool:
        """True if MQSC writes the attribute without a value, as ``TRIGGER`` or ``NOTRIGGER``."""
        return self.keyword in dict(self.words)
