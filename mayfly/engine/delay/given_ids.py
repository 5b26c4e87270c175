"""MsgIds that the staging queue shows of messages to which their senders have given one (D3).

Such a MsgId is new, though another message may have been given the same; it stays the same with
another delivery time, and it is found without an index of its own. So it tells the key that the
message had first and what the index of given MsgIds has of it: ``AMQD``, 3 bytes of a number that
rises, 4 of the index, a mark, 8 of key, 4 of the index.
"""

from __future__ import annotations

from mayfly.engine.core import Core
from mayfly.engine.queues import PERSISTENT, VOLATILE
from mayfly.store.keys import STAGING_LOW
from mayfly.store.units import StoredMessage

_PREFIX, _MARK = b"AMQD", b"\x02"
_UNIQUE_BYTES = 3


def given_id(key: int, msg_hash: int, sequence: int) -> bytes:
    """Return a new MsgId for the staging queue, unique by a number of the sequence."""
    unique = (sequence % 2 ** (8 * _UNIQUE_BYTES)).to_bytes(_UNIQUE_BYTES, "big")
    place, indexed = (
        (key - STAGING_LOW).to_bytes(8, "big"),
        msg_hash.to_bytes(8, "big", signed=True),
    )
    return b"".join((_PREFIX, unique, indexed[:4], _MARK, place, indexed[4:]))


def of_given_id(core: Core, shown_id: bytes) -> StoredMessage | None:
    """Return the message that the staging queue shows with such a MsgId, None without one."""
    assert core.engine_lock.is_held()
    if shown_id[:4] != _PREFIX or shown_id[11:12] != _MARK:
        return None
    key = STAGING_LOW + int.from_bytes(shown_id[12:20], "big")
    for persistence in (VOLATILE, PERSISTENT):
        row = core.messages(persistence).row(key)
        if row is not None and row.shown_id == shown_id:
            return row
    return _moved(core, shown_id)


def _moved(core: Core, shown_id: bytes) -> StoredMessage | None:
    """Return one that has another delivery time, and so another key."""
    msg_hash = int.from_bytes(shown_id[7:11] + shown_id[20:], "big", signed=True)
    staging = core.registry.staging()
    if staging is None:
        return None
    for persistence, count in enumerate(staging.present):
        messages = core.messages(persistence)
        for row in messages.by_msg_hash(msg_hash, staging.low, staging.high, count):
            if row.shown_id == shown_id:
                return row
    return None
