"""The type of an attribute, and the kinds of objects."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final, NamedTuple, TypeVar

from mayfly.mqi import constants as c
from mayfly.verbs.facts import Value

QLOCAL: Final = "QLOCAL"
QALIAS: Final = "QALIAS"
QREMOTE: Final = "QREMOTE"
QMODEL: Final = "QMODEL"
QMGR: Final = "QMGR"
TOPIC: Final = "TOPIC"
SUB: Final = "SUB"
PROCESS: Final = "PROCESS"
#: A queue manager whose parent this one is, in a hierarchy of publish/subscribe.
CHILD: Final = "CHILD"
CHANNEL: Final = "CHANNEL"
#: Channels of clients have names of their own: one may be called as the channel it leads to.
CLNTCONN: Final = "CLNTCONN"
AUTHREC: Final = "AUTHREC"
AUTHINFO: Final = "AUTHINFO"
CHLAUTH: Final = "CHLAUTH"
QUEUE_KINDS: Final = (QLOCAL, QALIAS, QREMOTE, QMODEL)

_V = TypeVar("_V", int, str)

YES_NO = (("NO", c.MQPER_NOT_PERSISTENT), ("YES", c.MQPER_PERSISTENT))
LARGEST = 999_999_999
LONGEST_MESSAGE_BYTES = 104_857_600
#: Units of numbers.
MS, TENTHS, SECONDS = "milliseconds", "tenths of a second", "seconds"
BYTES, PERCENT = "bytes", "percent"
#: Where the metadata of a field hold its row, or the name under which it is stored.
ROW, STORED = "row", "stored"


class Attribute(NamedTuple):
    """One attribute: its MQSC keyword, the objects that have it, its values and its selector.

    A number lies within ``low`` .. ``high`` or is one of ``words``, which stand for numbers; an
    attribute with words and no range takes only those. A text is at most ``length`` long; with
    ``length`` 48 it is an object name. ``selector`` is the constant that names the attribute in
    MQINQ and in commands, MQIA_, MQCA_ or one of their kind. ``unit`` is empty for a count.
    ``field`` is the name of the attribute in a definition.
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

    @property
    def is_text(self) -> bool:
        """Whether the value is text."""
        return self.length > 0

    @property
    def is_flag(self) -> bool:
        """Whether MQSC writes it without a value, as KEYWORD or NOKEYWORD."""
        return self.keyword in dict(self.words)


def attribute(
    default: _V,
    selector: int | None = None,
    *,
    low: int = 0,
    high: int = -1,
    words: tuple[tuple[str, int], ...] = (),
    length: int = 0,
    unit: str = "",
    objects: tuple[str, ...] = (),
    keyword: str = "",
) -> _V:
    """Return one row of a table of attributes, a field of a dataclass; see :class:`Attribute`.

    The MQSC keyword is the name of the field in capitals unless ``keyword`` says otherwise; without
    ``objects`` all kinds of the table have the attribute.
    """
    row = Attribute(keyword, "", objects, default, selector, low, high, words, length, unit)
    return _field(default, {ROW: row})


def kept(default: _V, stored: str) -> _V:
    """Return a field that is stored with the attributes under a name, and that MQSC cannot set."""
    return _field(default, {STORED: stored})


def _field(default: _V, metadata: dict[str, Any]) -> _V:
    # For a type checker a field of a dataclass is its default.
    made: Any = field(default=default, metadata=metadata)
    return made  # type: ignore[no-any-return]  # see above
