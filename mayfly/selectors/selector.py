"""A selector: a text compiled once, then asked for each message."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.selectors.fields import MessageFields
from mayfly.selectors.identifiers import correlation_bytes, id_bytes
from mayfly.selectors.names import MQMD, WITHOUT_BODY, is_property
from mayfly.selectors.nodes import Evaluate, Node, Resolve, constant

#: MQ_SELECTOR_LENGTH, in characters.
LENGTH_LIMIT = 10_240
_ID_BYTES = 24


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
        return self.evaluate(fields.value) is True


@lru_cache(maxsize=1024)
def compile_selector(text: str) -> Selector:
    """Return the selector of a text that is not empty; an empty one is no selector in JMS.

    Raises MQRC_SELECTOR_SYNTAX_ERROR with the position and what was expected there,
    MQRC_SELECTION_STRING_ERROR (2519) for more than 10,240 characters, and
    MQRC_SELECTOR_ALWAYS_FALSE for a text without names that is not true.
    """
    if len(text) > LENGTH_LIMIT:
        raise mq_error(
            rc.MQRC_SELECTION_STRING_ERROR, f"{len(text)} characters, more than {LENGTH_LIMIT}"
        )
    # Imported here: the parser's library is slow to load, and most programs have no selector.
    from mayfly.selectors.grammar import parse

    whole = parse(text)
    if not whole.names and constant(whole) is not True:
        raise mq_error(rc.MQRC_SELECTOR_ALWAYS_FALSE, text)
    return Selector(
        text, whole.evaluate, whole.names, _msg_id(whole), _correl_id(whole), _ending(whole)
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
