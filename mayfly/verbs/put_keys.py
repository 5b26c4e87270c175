"""Keys of delayed messages: a put with a key is the only one that waits under it (D34).

The key becomes the MsgId, by a hash of queue and key, so the schedule finds the message by it.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQ_MSG_ID_LENGTH
from mayfly.mqi.errors import mq_error

#: Put options, beside those of the MQI: no other delayed message for the queue may have the MsgId;
#: one that does is replaced. No MQLONG has these bits.
UNIQUE: Final = 1 << 40
REPLACES: Final = 1 << 41
#: What happens when a message waits under the key, and the put options that say so.
IF_EXISTS: Final = {"refuse": UNIQUE, "replace": UNIQUE | REPLACES}
_PREFIX: Final = b"KEY "


def key_id(queue: str, key: str) -> bytes:
    """Return the MsgId, 24 bytes, of a message that is put to ``queue`` with ``key``."""
    text = f"{queue}\0{key}".encode()
    return _PREFIX + blake2b(text, digest_size=MQ_MSG_ID_LENGTH - len(_PREFIX)).digest()


def check_key(key: object, if_exists: str, msg_id: object) -> None:
    """Raise MQRC_OPTIONS_ERROR for a wrong key of a put; None, no key, is right.

    Wrong are an empty key, one that is no text, one beside a ``msg_id``, and an ``if_exists`` that
    is neither ``refuse`` nor ``replace``.
    """
    if if_exists not in IF_EXISTS:
        words = " or ".join(IF_EXISTS)
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"if_exists {if_exists!r} is not {words}")
    if key is not None and not (isinstance(key, str) and key):
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"key {key!r} is no text with a character")
    if key is not None and msg_id:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"key {key!r}: the message has a msg_id already")
