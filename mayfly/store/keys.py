"""Keys of messages, 64 bits that order a message on its queue, and the index values of ids.

An ordinary queue owns the positive keys ``number << 48 .. (number + 1) << 48``. Inside are 4 bits
of ``9 - priority`` and 44 bits of sequence: key order is get order. The staging queue owns all
negative keys: 42 bits of delivery time in ms and 21 bits of order inside that millisecond.

A MsgId that the queue manager generates contains the key of its message, so such a MsgId needs no
index. MsgIds and CorrelIds of programs are indexed by 8 bytes, their hash.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from hashlib import blake2b

from mayfly.mqi.constants import MQ_MSG_ID_LENGTH

SEQUENCE_BITS = 44
PRIORITY_BITS = 4
#: Bits of the position of a message on its queue.
_PLACE_BITS = PRIORITY_BITS + SEQUENCE_BITS
_PLACE = (1 << _PLACE_BITS) - 1
#: A generated MsgId ends with these bytes of the position, behind the instance.
_PLACE_BYTES = _PLACE_BITS // 8
_PLACE_AT = MQ_MSG_ID_LENGTH - _PLACE_BYTES
_INSTANCE_AT = 16
QUEUE_BITS = 15
MAX_PRIORITY = 9
STAGING_ORDER_BITS = 21
#: The number of SYSTEM.DDELAY.LOCAL.QUEUE; ordinary queues are numbered from 1.
STAGING_NUMBER = 0
LARGEST_QUEUE_NUMBER = 2**QUEUE_BITS - 1
STAGING_LOW = -(2**63)
_ZERO_ID = bytes(MQ_MSG_ID_LENGTH)
#: The start of ids made by a queue manager; their last 8 bytes are unique already.
GENERATED_PREFIX = b"AMQ "
#: The id of a delayed message has this byte, which no name contains, before its staging key.
_DELAYED_MARK, _MARK_AT, _KEY_AT, _KEY_END = b"\x01", 11, 12, 20
#: Turns ``AMQ `` into ``AMQD``.
_STAGING_BITS = 0x64


def queue_range(number: int) -> tuple[int, int]:
    """Return the range ``low <= k < high`` of the message keys of the queue with this number."""
    if number == STAGING_NUMBER:
        return STAGING_LOW, 0
    shift = SEQUENCE_BITS + PRIORITY_BITS
    return number << shift, (number + 1) << shift


def order_key(number: int, priority: int, sequence: int) -> int:
    """Return a message's key on an ordinary queue: by priority, highest first, then sequence.

    ``number`` is that of the queue.
    """
    return (((number << PRIORITY_BITS) | (MAX_PRIORITY - priority)) << SEQUENCE_BITS) | sequence


def priority_starts(number: int) -> list[int]:
    """Return the lowest key of each priority of the queue with this number, highest first."""
    return [order_key(number, priority, 0) for priority in range(MAX_PRIORITY, -1, -1)]


def next_priority(key: int) -> int | None:
    """Return the lowest key of the next lower priority on the queue of a key.

    None for the lowest priority, and on the staging queue, which has no priorities.
    """
    order = key >> SEQUENCE_BITS
    if key < 0 or order & ((1 << PRIORITY_BITS) - 1) == MAX_PRIORITY:
        return None
    return (order + 1) << SEQUENCE_BITS


def staging_key(due_ms: int, order: int) -> int:
    """Return a staged message's key: by delivery time (epoch ms), then by ``order``."""
    return STAGING_LOW + ((due_ms << STAGING_ORDER_BITS) | order)


def due_ms_of(key: int) -> int:
    """Return the delivery time (epoch ms) in a staging key."""
    return (key - STAGING_LOW) >> STAGING_ORDER_BITS


def due_times_of(keys: Iterable[int]) -> list[int]:
    """Return the delivery times (epoch ms) in staging keys."""
    # Of a flood, without a call for each: 0.05 µs instead of 0.1.
    return [(key - STAGING_LOW) >> STAGING_ORDER_BITS for key in keys]


def queue_number_of(key: int) -> int:
    """Return the number of the queue that a key belongs to."""
    return STAGING_NUMBER if key < 0 else key >> (SEQUENCE_BITS + PRIORITY_BITS)


def start_of_ids(manager_name: str, instance: int) -> bytes:
    """Return the first 18 bytes of new MsgIds: ``AMQ ``, name (12 bytes), instance (2 bytes).

    ``instance`` is a random number for this opening of the store.
    """
    name = manager_name.encode()[:12].ljust(12)
    return GENERATED_PREFIX + name + instance.to_bytes(_PLACE_AT - _INSTANCE_AT, "big")


def generated_id(start: bytes, key: int) -> bytes:
    """Return a new MsgId: ``start`` of 18 bytes, then the last 48 bits of the key.

    These bits contain the sequence number, which is unique; it may be passed when no key exists.
    """
    return start + (key & _PLACE).to_bytes(_PLACE_BYTES, "big")


def key_of_generated_id(identifier: bytes, number: int) -> int | None:
    """Return the key that a generated MsgId contains, for a message on the queue with this number.

    None for an id without a key. Another message may have the id, so compare the ids.
    """
    if number == STAGING_NUMBER or not identifier.startswith(GENERATED_PREFIX):
        return None
    if identifier[_MARK_AT:_KEY_AT] == _DELAYED_MARK:
        return None
    return number << _PLACE_BITS | int.from_bytes(identifier[_PLACE_AT:], "big")


def may_hold_key(msg_hash: int, key: int) -> bool:
    """Return True if a MsgId may be one that was made from the message key ``key``.

    ``msg_hash`` is the value of the MsgId in the index of messages. A MsgId that Mayfly makes has
    the key as its last bits. False is certain; for a staged message it is always True.
    """
    return key < 0 or not (msg_hash ^ key) & _PLACE


def delayed_id(manager_name: str, key: int, instance: int, sequence: int) -> bytes:
    """Return a new MsgId for a delayed message; it contains the staging key, so it needs no index.

    It is ``AMQ ``, 7 characters of the name, a mark, 8 bytes of key, 12 bits of ``instance`` (a
    random number for this opening of the store), 20 bits of ``sequence``.
    """
    unique = (instance % 2**12 << 20) | sequence % 2**20
    name = manager_name.encode()[:7].ljust(7)
    place = (key - STAGING_LOW).to_bytes(8, "big")
    return GENERATED_PREFIX + name + _DELAYED_MARK + place + unique.to_bytes(4, "big")


def key_of_delayed_id(identifier: bytes) -> int | None:
    """Return the staging key that a generated MsgId contains, None for any other id."""
    if identifier[_MARK_AT:_KEY_AT] != _DELAYED_MARK:
        return None
    if not identifier.startswith(GENERATED_PREFIX):
        return None
    return STAGING_LOW + int.from_bytes(identifier[_KEY_AT:_KEY_END], "big")


def staging_id(msg_id: bytes) -> bytes:
    """Return the MsgId that the staging queue shows for a MsgId, or the original back (D3).

    ``b'AMQ ...'`` -> ``b'AMQD...'`` and the reverse; other ids change in the same bits.
    """
    changed = bytearray(msg_id)
    changed[3] ^= _STAGING_BITS
    return bytes(changed)


def key_of_token(token: bytes) -> int:
    """Return the key in a MsgToken; a message with that key need not exist."""
    return int.from_bytes(token[:8], "big", signed=True)


def id_hash(identifier: bytes) -> int:
    """Return the 8-byte index value of a MsgId or CorrelId.

    For a generated id it is its unique part, which rises, so that the index grows at its end;
    random places would halve the rate of puts. For the id of a delayed message it is the key.
    """
    if identifier.startswith(GENERATED_PREFIX):
        if identifier[_MARK_AT:_KEY_AT] == _DELAYED_MARK:
            return STAGING_LOW + int.from_bytes(identifier[_KEY_AT:_KEY_END], "big")
        return int.from_bytes(identifier[16:24], "big", signed=True)
    return int.from_bytes(blake2b(identifier, digest_size=8).digest(), "big", signed=True)


def optional_id_hash(identifier: bytes) -> int | None:
    """Return the index value of a CorrelId, None when it is all zeros."""
    return None if identifier == _ZERO_ID else id_hash(identifier)


def packed_keys(keys: Iterable[int]) -> bytes:
    """Return keys as bytes for a database column, 8 bytes each, lowest byte first."""
    return _little_endian(array("q", keys)).tobytes()


def unpacked_keys(packed: bytes) -> array[int]:
    """Return the keys that :func:`packed_keys` has made into bytes."""
    keys = array("q")
    keys.frombytes(packed)
    return _little_endian(keys)


def _little_endian(keys: array[int]) -> array[int]:
    """Swap the bytes of keys in place on a big-endian machine, and return the same array."""
    if sys.byteorder == "big":
        keys.byteswap()
    return keys
