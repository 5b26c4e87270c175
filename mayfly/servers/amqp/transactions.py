"""Transactions in deliveries: the id that a transfer or an outcome carries, and the answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from proton import Delivery, Described, ulong

from mayfly.servers.amqp.errors import DECODE_ERROR, AmqpError

DECLARED: Final = 0x33
TRANSACTIONAL_STATE: Final = 0x34
_ACCEPTED = 0x24
DECLARE, DISCHARGE = 0x31, 0x32
#: Outcomes within a transactional state, by their codes.
OUTCOMES: Final = {
    0x24: Delivery.ACCEPTED,
    0x25: Delivery.REJECTED,
    0x26: Delivery.RELEASED,
    0x27: Delivery.MODIFIED,
}
_NAMES: Final = {
    "amqp:accepted:list": 0x24,
    "amqp:rejected:list": 0x25,
    "amqp:released:list": 0x26,
    "amqp:modified:list": 0x27,
    "amqp:declare:list": DECLARE,
    "amqp:discharge:list": DISCHARGE,
}


def name_in(delivery: Delivery) -> bytes:
    """Return the id of the transaction that a transfer or an outcome in one names.

    Raises AmqpError amqp:decode-error for a malformed state.
    """
    return _fields(delivery)[0]


class Outcome(NamedTuple):
    """The outcome within a transactional state: a ``Delivery`` constant, 0 for none.

    The others are fields of *modified*.
    """

    state: int
    has_failed: bool = False
    is_undeliverable: bool = False
    annotations: Mapping[Any, Any] | None = None


def outcome_in(delivery: Delivery) -> Outcome:
    """Return the outcome within a transactional state."""
    found = _fields(delivery)[1]
    if found is None:
        return Outcome(0)
    given: Any = found.value if isinstance(found.value, list) else []
    has_failed, is_undeliverable, annotations = [*given, None, None, None][:3]
    state = OUTCOMES.get(code_of(found), 0)
    added = annotations if isinstance(annotations, dict) else None
    return Outcome(state, bool(has_failed), bool(is_undeliverable), added)


def accept(delivery: Delivery, name: bytes) -> None:
    """Tell that a message is accepted in a transaction."""
    answer(delivery, TRANSACTIONAL_STATE, [name, Described(ulong(_ACCEPTED), [])])


def answer(delivery: Delivery, state: int, fields: Any) -> None:
    """Tell the state of a delivery; its fields are those of the specification."""
    delivery.local.data = fields
    delivery.update(state)


def code_of(described: Described) -> int:
    """Return the descriptor of a value as a number; 0 for one that is not known."""
    descriptor = described.descriptor
    if isinstance(descriptor, int):
        return int(descriptor)
    return _NAMES.get(str(descriptor), 0)


def _fields(delivery: Delivery) -> tuple[bytes, Described | None]:
    given: Any = delivery.remote.data
    if isinstance(given, list) and given and isinstance(given[0], (bytes, memoryview)):
        outcome = given[1] if len(given) > 1 else None
        if outcome is None or isinstance(outcome, Described):
            return bytes(given[0]), outcome
    raise AmqpError(DECODE_ERROR, "a transactional state names no transaction")
