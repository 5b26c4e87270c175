"""What an attribute of an object is, and the kinds of objects there are."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from mayfly.mqi import constants as c

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
QUEUE_KINDS: Final = (QLOCAL, QALIAS, QREMOTE, QMODEL)

Value: TypeAlias = int | str


class Attribute(NamedTuple):
    """One attribute: its MQSC keyword, the objects that have it, its values and its selector.

    A number lies within ``low`` .. ``high`` or is one of ``words``, which stand for numbers; an
    attribute with words and no range takes only those. A text is at most ``length`` long; with
    ``length`` 48 it is an object name. ``selector`` is the MQIA_/MQCA_ value for MQINQ.
    """

    keyword: str
    objects: tuple[str, ...]
    default: Value
    selector: int | None = None
    low: int = 0
    high: int = -1
    words: tuple[tuple[str, int], ...] = ()
    length: int = 0

    @property
    def is_text(self) -> bool:
        """Whether the value is text."""
        return self.length > 0

    @property
    def is_flag(self) -> bool:
        """Whether MQSC writes it without a value, as KEYWORD or NOKEYWORD."""
        return self.keyword in _FLAGS


_FLAGS = ("SHARE", "HARDENBO", "TRIGGER")
YES_NO = (("NO", c.MQPER_NOT_PERSISTENT), ("YES", c.MQPER_PERSISTENT))
LARGEST = 999_999_999
LONGEST_MESSAGE_BYTES = 104_857_600
