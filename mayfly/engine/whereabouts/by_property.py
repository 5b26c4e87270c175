"""Finds messages that are here by the value of a property, in bounded steps."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest
from typing import Any, NamedTuple

from mayfly.engine.core import Core
from mayfly.engine.delay.schedule_query import property_text
from mayfly.engine.queues import PERSISTENT, VOLATILE
from mayfly.engine.remote.wrapping import embedded_or_none
from mayfly.engine.whereabouts.present import homes
from mayfly.lifetime.dead_letters import is_letter, read_letter
from mayfly.mqi.descriptor import Descriptor, unpack_descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.properties import read_properties
from mayfly.mqi.structures import DLH
from mayfly.store.messages import Messages
from mayfly.verbs.stories import PropertyQuestion

#: Rows looked at in one turn of the lock, and in one question; with properties 20 µs each.
_STEP_ROWS, _MOST_ROWS = 1_000, 1_000_000
_DEAD_HEADER_BYTES = DLH.length(1)
_LOWEST_KEY = -(2**63)
_MISSING: Any = object()
_LAST_OF_STEP = f"""
SELECT max(k), count(*) FROM (SELECT k FROM message WHERE k > ? ORDER BY k LIMIT {_STEP_ROWS})"""
#: Only data that begin with an MQRFH2, or with a header that one may stand behind, have properties.
#: The last two are an MQDLH and an MQRFH2 in EBCDIC.
_WITH_HEADER = """
SELECT put_ms, msg_id, descriptor, body FROM whole_message
WHERE k > ? AND k <= ? AND put_ms >= ? AND put_ms < ?
    AND substr(body, 1, 4) IN (CAST('RFH ' AS BLOB), CAST('XQH ' AS BLOB), CAST('DLH ' AS BLOB),
        X'C4D3C840', X'D9C6C840')"""

#: Messages that such a question never finds, as a sentence.
LEFT_OUT = (
    "Messages that have ended are not among them: the ledger keeps no properties. Nor are those of "
    "units of work that are not committed, and those that consumers have claimed."
)


class Matches(NamedTuple):
    """Time of the put by MsgId of the messages that were found; ``is_cut``: there may be more."""

    put_ms: dict[bytes, int]
    is_cut: bool


def matches(core: Core, question: PropertyQuestion) -> Matches:
    """Return the MsgIds of messages with a property that are here; call it without the lock."""
    found: dict[bytes, int] = {}
    is_cut, looked_at = False, 0
    for home in homes(core):
        for persistence in (VOLATILE, PERSISTENT):
            for count, rows in _steps(core, home.messages(persistence), question):
                for put_ms, msg_id, packed, body in rows:
                    descriptor = unpack_descriptor(packed)
                    known, properties = _read(msg_id, descriptor, body)
                    value = properties.get(question.name, _MISSING)
                    if value is not _MISSING and property_text(value) == question.value:
                        found[known] = max(put_ms, found.get(known, put_ms))
                if len(found) > question.limit:
                    is_cut = True
                    latest = nlargest(question.limit, found.items(), key=lambda item: item[1])
                    found = dict(latest)
                looked_at += count
                if looked_at >= _MOST_ROWS:
                    return Matches(found, is_cut=True)
    return Matches(found, is_cut)


def _steps(
    core: Core, messages: Messages, question: PropertyQuestion
) -> Iterator[tuple[int, list[tuple[Any, ...]]]]:
    """Yield how many messages a step has looked at, and those among them with a header."""
    after = _LOWEST_KEY
    while True:
        with core.engine_lock:
            core.check_running()
            last, count = messages.fetch(_LAST_OF_STEP, (after,))[0]
            if last is None:
                return
            rows = messages.fetch(_WITH_HEADER, (after, last, *question.put_range))
        yield count, rows
        after = last


def _read(msg_id: bytes, descriptor: Descriptor, body: bytes) -> tuple[bytes, dict[str, object]]:
    """Return the MsgId as the sender knows it and the properties, none of damaged data."""
    embedded = embedded_or_none(body, descriptor)
    if embedded is not None:
        msg_id, descriptor, body = embedded.msg_id, embedded.descriptor, embedded.body
    try:
        if is_letter(descriptor):
            descriptor = read_letter(descriptor, body).original
            body = body[_DEAD_HEADER_BYTES:]
        form = descriptor.format, descriptor.encoding, descriptor.coded_char_set_id
        return msg_id, read_properties(*form, body)
    except MQError:
        return msg_id, {}
