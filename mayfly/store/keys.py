"""How one 64-bit key orders a message on its queue, and how its ids are indexed.

An ordinary queue owns the positive keys ``number << 48 .. (number + 1) << 48``: inside, 4 bits of
``9 - priority`` and 44 bits of sequence, so key order is get order. The staging queue owns all
negative keys: 42 bits of delivery time in ms and 21 bits of order inside that millisecond.
"""

from __future__ import annotations

from hashlib import blake2b

from mayfly.mqi.selectors import MQ_MSG_ID_LENGTH

SEQUENCE_BITS = 44
PRIORITY_BITS = 4
QUEUE_BITS = 15
MAX_PRIORITY = 9
STAGING_ORDER_BITS = 21
#: The number of SYSTEM.DDELAY.LOCAL.QUEUE; ordinary queues are numbered from 1.
STAGING_NUMBER = 0
LARGEST_QUEUE_NUMBER = 2**QUEUE_BITS - 1
STAGING_LOW = -(2**63)
_ZERO_ID = bytes(MQ_MSG_ID_LENGTH)
#: Ids made by a queue manager begin so; their last 8 bytes are unique already.
GENERATED_PREFIX = b"AMQ "


def queue_range(number: int) -> tuple[int, int]:
    """Return the half-open range of keys that belong to a queue."""
    if number == STAGING_NUMBER:
        return STAGING_LOW, 0
    shift = SEQUENCE_BITS + PRIORITY_BITS
    return number << shift, (number + 1) << shift


def order_key(number: int, priority: int, sequence: int) -> int:
    """Return the key of a message on an ordinary queue: higher priority first, then sequence."""
    return (((number << PRIORITY_BITS) | (MAX_PRIORITY - priority)) << SEQUENCE_BITS) | sequence


def priority_starts(number: int) -> list[int]:
    """Return the lowest key of each priority of a queue, highest priority first."""
    return [order_key(number, priority, 0) for priority in range(MAX_PRIORITY, -1, -1)]


def staging_key(due_ms: int, order: int) -> int:
    """Return the key of a staged message: delivery time first, then order within it."""
    return STAGING_LOW + ((due_ms << STAGING_ORDER_BITS) | order)


def due_ms_of(key: int) -> int:
    """Return the delivery time that a staging key carries."""
    return (key - STAGING_LOW) >> STAGING_ORDER_BITS


def queue_number_of(key: int) -> int:
    """Return the number of the queue a key belongs to."""
    return STAGING_NUMBER if key < 0 else key >> (SEQUENCE_BITS + PRIORITY_BITS)


def generated_id(manager_name: str, instance: int, sequence: int) -> bytes:
    """Return a new MsgId: ``AMQ ``, 12 characters of the name, 20 bits of instance, sequence."""
    unique = ((instance << SEQUENCE_BITS) | sequence).to_bytes(8, "big")
    return GENERATED_PREFIX + manager_name.encode()[:12].ljust(12) + unique


def id_hash(identifier: bytes) -> int:
    """Return the 8-byte index value of a MsgId or CorrelId.

    Generated ids are indexed by their unique part, which rises, so that the index grows at its end;
    a hash of a random place halves the rate of puts.
    """
    if identifier.startswith(GENERATED_PREFIX):
        return int.from_bytes(identifier[16:24], "big", signed=True)
    return int.from_bytes(blake2b(identifier, digest_size=8).digest(), "big", signed=True)


def optional_id_hash(identifier: bytes) -> int | None:
    """Return the index value of a CorrelId, None for all zeros."""
    return None if identifier == _ZERO_ID else id_hash(identifier)
