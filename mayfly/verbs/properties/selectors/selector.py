"""Selectors: compiled once from their text, then tested with each message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.verbs.properties.selectors.conditions import Evaluate, Node, Resolve, constant
from mayfly.verbs.properties.selectors.fields import SelectorFields
from mayfly.verbs.properties.selectors.names import (
    MQMD,
    correlation_bytes,
    id_bytes,
    is_property,
)

#: MQ_SELECTOR_LENGTH, in characters.
LENGTH_LIMIT = 10_240
_ID_BYTES = 24
#: A selector that reads more names has their values remembered.
_FEW_READS = 8
#: The selectors that were compiled last, by text. ``a+a+...`` takes most memory: 202 bytes for each
#: character, measured.
_kept: dict[str, Selector] = {}
_KEPT_BYTES: Final = 16 * 1024 * 1024
_BYTES, _BYTES_PER_CHARACTER = 2_048, 256


@dataclass(frozen=True, slots=True, eq=False)
class Selector:
    """A compiled selector.

    ``needs`` are the names it reads. ``msg_id`` and ``correl_id`` are ids (24 bytes) that every
    selected message has, or None if the selector requires no id. An index on them then finds all
    messages that may be selected.
    """

    text: str
    #: The condition itself: True, False or, unknown, None; for loops that save a call.
    evaluate: Evaluate
    needs: frozenset[str]
    msg_id: bytes | None
    correl_id: bytes | None
    #: The MQRFH2 of every selected message contains a text with this end; None if unknown.
    text_end: bytes | None
    #: How often it looks at each character of a message, at the most.
    work: int
    #: Whether it reads few names, each once, so that their values need not be remembered.
    is_short: bool

    def matches(self, resolve: Resolve) -> bool:
        """Return True if a message is selected; False also when the condition is unknown (NULL).

        ``resolve`` returns the value of a name for the message, None without one: bool, int of 64
        bits, float, str or bytes, exactly of these types.
        """
        return self.evaluate(resolve) is True

    def selects(self, fields: SelectorFields) -> bool:
        """Return True if the message with these fields is selected; faster than :meth:`matches`.

        False also when the condition is unknown (NULL).
        """
        if self.text_end is not None and not fields.may_hold(self.text_end):
            return False
        return self.evaluate(fields.value if self.is_short else fields.remembered) is True

    def work_on(self, fields: SelectorFields) -> int:
        """Return the number of characters that :meth:`selects` compares at the most.

        It grows with the length of the message that ``fields`` read.
        """
        return self.work * fields.size


def compile_selector(text: str) -> Selector:
    """Compile a selector text, or return it from a cache of limited size.

    The text must not be empty, since JMS has no empty selector. Raises MQRC_SELECTOR_SYNTAX_ERROR
    with the position and what was expected there, MQRC_SELECTION_STRING_ERROR (2519) for more than
    10,240 characters, and MQRC_SELECTOR_ALWAYS_FALSE for a text without names that is not true.
    """
    found = _kept.get(text)
    if found is None:
        found = _compiled(text)
        _make_space(text)
        _kept[text] = found
    return found


def _make_space(text: str) -> None:
    """Remove the oldest selectors from the cache until that of ``text`` fits.

    No lock is taken: selectors that another thread adds meanwhile are counted at the next call.
    """
    texts = list(_kept)
    total = _bytes_of(text) + sum(map(_bytes_of, texts))
    for oldest in texts:
        if total <= _KEPT_BYTES:
            break
        _kept.pop(oldest, None)
        total -= _bytes_of(oldest)


def _bytes_of(text: str) -> int:
    """Return an upper bound for the memory of a text's selector, in bytes."""
    return _BYTES + _BYTES_PER_CHARACTER * len(text)


def _compiled(text: str) -> Selector:
    """Compile a selector text without the cache; raises the errors of :func:`compile_selector`."""
    if len(text) > LENGTH_LIMIT:
        raise mq_error(
            rc.MQRC_SELECTION_STRING_ERROR, f"{len(text)} characters, more than {LENGTH_LIMIT}"
        )
    # Imported here: the parser's library is slow to load, and most programs have no selector.
    from mayfly.verbs.properties.selectors.language import parse

    root = parse(text)
    if not root.names and constant(root) is not True:
        raise mq_error(rc.MQRC_SELECTOR_ALWAYS_FALSE, text)
    return Selector(
        text,
        root.evaluate,
        root.names,
        _msg_id(root),
        _correl_id(root),
        _text_end(root),
        root.work,
        len(root.names) == root.reads <= _FEW_READS,
    )


def _msg_id(root: Node) -> bytes | None:
    """Return the MsgId that every selected message has, None if the selector requires none.

    ``root`` is the condition of the whole selector.
    """
    wanted = root.equal_to.get("JMSMessageID")
    if not isinstance(wanted, str):
        return _id(root.equal_to.get(f"{MQMD}MsgId"))
    return _id(id_bytes(wanted))


def _correl_id(root: Node) -> bytes | None:
    """Return the CorrelId that every selected message has, None if the selector requires none.

    ``root`` is the condition of the whole selector.
    """
    wanted = root.equal_to.get("JMSCorrelationID")
    if not isinstance(wanted, str):
        return _id(root.equal_to.get(f"{MQMD}CorrelId"))
    return _id(correlation_bytes(wanted))


def _text_end(root: Node) -> bytes | None:
    """Return the end of an XML element that every selected message contains: ``>red</colour``.

    Returns None if the selector requires no text property.
    """
    for name, wanted in root.equal_to.items():
        # An empty text is left out: it may be written as <name/>.
        if isinstance(wanted, str) and wanted and is_property(name):
            return f">{wanted}</{name}".encode("utf-8", "surrogatepass")
    return None


def _id(wanted: object) -> bytes | None:
    """Return ``wanted`` if it is an id of 24 bytes, else None; None also for zeros.

    Zeros mean any id in a look-up.
    """
    is_id = isinstance(wanted, bytes) and len(wanted) == _ID_BYTES and bool(wanted.strip(b"\0"))
    return wanted if is_id else None  # type: ignore[return-value]  # bytes where is_id
