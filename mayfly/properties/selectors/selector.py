"""A selector: a text compiled once, then asked for each message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.properties.selectors.conditions import Evaluate, Node, Resolve, constant
from mayfly.properties.selectors.fields import MessageFields
from mayfly.properties.selectors.names import (
    MQMD,
    WITHOUT_BODY,
    correlation_bytes,
    id_bytes,
    is_property,
)

#: MQ_SELECTOR_LENGTH, in characters.
LENGTH_LIMIT = 10_240
_ID_BYTES = 24
#: So many names are read one by one; the values of more are remembered.
_FEW_READS = 8
#: The selectors that were compiled last, by their texts. ``a+a+...`` is the text that takes most:
#: 202 bytes for each of its characters, measured.
_kept: dict[str, Selector] = {}
_KEPT_BYTES: Final = 16 * 1024 * 1024
_BYTES, _BYTES_PER_CHARACTER = 2_048, 256


@dataclass(frozen=True, slots=True, eq=False)
class Selector:
    """A compiled selector.

    ``needs`` are the names it reads. ``msg_id`` and ``correl_id``, 24 bytes, are the ids that every
    selected message has, or None where the selector names none. With an index on them, only those
    messages have to be asked.
    """

    text: str
    #: The condition itself: True, False or, unknown, None; for loops that save a call.
    evaluate: Evaluate
    needs: frozenset[str]
    msg_id: bytes | None
    correl_id: bytes | None
    #: End of a text property in the MQRFH2 of every message that it selects, None if unknown.
    ending: bytes | None
    #: How often it looks at each character of a message, at the most.
    work: int
    #: Whether it reads so few names, each once, that none is to be remembered.
    is_short: bool

    @property
    def needs_body(self) -> bool:
        """Whether it reads names that may stand in an MQRFH2 at the start of the body."""
        return not self.needs <= WITHOUT_BODY

    def matches(self, resolve: Resolve) -> bool:
        """Return True if a message is selected; unknown is not.

        ``resolve`` gives the value of a name for the message, None when it has none: bool, int of
        64 bits, float, str or bytes, exactly of these types.
        """
        return self.evaluate(resolve) is True

    def selects(self, fields: MessageFields) -> bool:
        """Return the same for a message with its fields; faster for most that are not selected."""
        if self.ending is not None and not fields.may_hold(self.ending):
            return False
        return self.evaluate(fields.value if self.is_short else fields.remembered) is True

    def work_on(self, fields: MessageFields) -> int:
        """Return how many characters :meth:`selects` compares at the most; it is no time."""
        return self.work * fields.size


def compile_selector(text: str) -> Selector:
    """Return the selector of a text that is not empty; an empty one is no selector in JMS.

    Selectors are kept, as far as their bytes have room: the same text is compiled once.

    Raises MQRC_SELECTOR_SYNTAX_ERROR with the position and what was expected there,
    MQRC_SELECTION_STRING_ERROR (2519) for more than 10,240 characters, and
    MQRC_SELECTOR_ALWAYS_FALSE for a text without names that is not true.
    """
    found = _kept.get(text)
    if found is None:
        found = _compiled(text)
        _make_room(text)
        _kept[text] = found
    return found


def _make_room(text: str) -> None:
    """Forget the selectors that were compiled first until a new one has room.

    There is no lock: selectors that another thread enters meanwhile are counted the next time.
    """
    texts = list(_kept)
    total = _bytes_of(text) + sum(map(_bytes_of, texts))
    for oldest in texts:
        if total <= _KEPT_BYTES:
            break
        _kept.pop(oldest, None)
        total -= _bytes_of(oldest)


def _bytes_of(text: str) -> int:
    """Return how many bytes the selector of a text takes, at the most."""
    return _BYTES + _BYTES_PER_CHARACTER * len(text)


def _compiled(text: str) -> Selector:
    if len(text) > LENGTH_LIMIT:
        raise mq_error(
            rc.MQRC_SELECTION_STRING_ERROR, f"{len(text)} characters, more than {LENGTH_LIMIT}"
        )
    # Imported here: the parser's library is slow to load, and most programs have no selector.
    from mayfly.properties.selectors.language import parse

    whole = parse(text)
    if not whole.names and constant(whole) is not True:
        raise mq_error(rc.MQRC_SELECTOR_ALWAYS_FALSE, text)
    return Selector(
        text,
        whole.evaluate,
        whole.names,
        _msg_id(whole),
        _correl_id(whole),
        _ending(whole),
        whole.work,
        len(whole.names) == whole.reads <= _FEW_READS,
    )


def _msg_id(whole: Node) -> bytes | None:
    wanted = whole.equal_to.get("JMSMessageID")
    if not isinstance(wanted, str):
        return _id(whole.equal_to.get(f"{MQMD}MsgId"))
    return _id(id_bytes(wanted))


def _correl_id(whole: Node) -> bytes | None:
    wanted = whole.equal_to.get("JMSCorrelationID")
    if not isinstance(wanted, str):
        return _id(whole.equal_to.get(f"{MQMD}CorrelId"))
    return _id(correlation_bytes(wanted))


def _ending(whole: Node) -> bytes | None:
    for name, wanted in whole.equal_to.items():
        # An empty text is left out: it may be written as <name/>.
        if isinstance(wanted, str) and wanted and is_property(name):
            return f">{wanted}</{name}".encode("utf-8", "surrogatepass")
    return None


def _id(wanted: object) -> bytes | None:
    """Return an id that can be looked up; zeros mean any id where ids are looked up."""
    is_id = isinstance(wanted, bytes) and len(wanted) == _ID_BYTES and bool(wanted.strip(b"\0"))
    return wanted if is_id else None  # type: ignore[return-value]  # bytes where is_id
