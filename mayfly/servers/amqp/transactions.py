"""AMQP transactions: the coordinator that begins and ends them, and the states that name them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from proton import Delivery, Described, Link, Terminus, ulong

from mayfly.mqi.errors import LostAnswer, MQError
from mayfly.servers.amqp import codec, links
from mayfly.servers.amqp.codec import (
    DECODE_ERROR,
    NOT_IMPLEMENTED,
    ROLLED_BACK,
    AmqpError,
    amqp_error,
    plain,
)
from mayfly.servers.amqp.conversations import ClientConversations, OnEnd
from mayfly.servers.amqp.links import LinkEndpoint, LinkHost, Raw

DECLARED: Final = 0x33
TRANSACTIONAL_STATE: Final = 0x34
ACCEPTED, REJECTED = 0x24, 0x25
DECLARE, DISCHARGE = 0x31, 0x32
#: Outcomes within a transactional state, by their codes.
_OUTCOMES: Final = {
    ACCEPTED: Delivery.ACCEPTED,
    REJECTED: Delivery.REJECTED,
    0x26: Delivery.RELEASED,
    0x27: Delivery.MODIFIED,
}
#: Descriptors by name and as numbers.
NAMES: Final = {
    "amqp:accepted:list": ACCEPTED,
    "amqp:rejected:list": REJECTED,
    "amqp:released:list": 0x26,
    "amqp:modified:list": 0x27,
    "amqp:declare:list": DECLARE,
    "amqp:discharge:list": DISCHARGE,
}
_CREDIT: Final = 100


class Coordinator(LinkEndpoint):
    """The link on which a client declares (begins) and discharges (ends) its transactions."""

    def __init__(self, host: LinkHost, link: Link, conversations: ClientConversations) -> None:
        """Open the link and give credit for 100 requests."""
        super().__init__(host, link, conversations)
        link.target.type = Terminus.COORDINATOR
        link.target.capabilities.copy(link.remote_target.capabilities)
        link.source.copy(link.remote_source)
        link.rcv_settle_mode = link.remote_rcv_settle_mode
        self._settles_first = link.remote_rcv_settle_mode != Link.RCV_SECOND
        self._open: set[bytes] = set()
        #: How many transactions are being committed or backed out.
        self._ending_count = 0
        link.open()
        link.flow(_CREDIT)

    def delivery(self, transfer: Raw) -> None:
        """Handle one declare or discharge request; a wrong request is rejected with an error.

        A declare is answered at once, a discharge when its transaction has ended.
        """
        delivery = links.wrapped(transfer)
        if delivery.settled and not delivery.readable:
            delivery.settle()
            if not self._settles_first:
                # The client may send the next request.
                self.link.flow(1)
            return
        if delivery.partial or not delivery.readable:
            return
        raw = self.link.recv(delivery.pending) or b""
        self.link.advance()
        if self._settles_first or delivery.settled:
            self.link.flow(1)
        try:
            code, fields = _request(bytes(raw))
            if code == DECLARE:
                self._declare(delivery)
            else:
                self._discharge(delivery, fields)
        except (AmqpError, MQError) as error:
            self._refuse(delivery, amqp_error(error))

    def quiesce(self) -> bool:
        """Return True if every discharge was answered."""
        return not self._ending_count

    def end(self, *, is_closed: bool) -> None:
        """Begin to back out the transactions declared on this link that are not discharged.

        So the specification demands, whether the link is closed (``is_closed``) or only detached.
        """
        self._is_over = True
        for name in self._open:
            self._discharge_then(name, lambda _outcome: None, fail=True)
        self._open.clear()

    def lost(self) -> None:
        """Do nothing: the end of the connection backs the transactions out."""

    def _declare(self, delivery: Delivery) -> None:
        """Begin a transaction, and answer with its id."""
        name = self._conversations.declare()
        self._open.add(name)
        _answer(delivery, DECLARED, [name])
        self._settle(delivery)

    def _discharge(self, delivery: Delivery, fields: list[Any]) -> None:
        """Begin to commit or back out the transaction that a discharge names.

        Raises AmqpError for a missing or unknown transaction id.
        """
        if not fields or not isinstance(fields[0], bytes):
            raise AmqpError(DECODE_ERROR, "discharge: txn-id is mandatory")
        name = fields[0]
        fail = bool(fields[1]) if len(fields) > 1 else False
        # Only the pointer is kept: the last thread with proton's object would free it.
        raw = links.raw_of(delivery)
        self._discharge_then(name, partial(self._discharged, raw), fail=fail)
        self._open.discard(name)

    def _discharge_then(self, name: bytes, on_done: OnEnd, *, fail: bool) -> None:
        """Begin to end a transaction: backout if ``fail``, otherwise commit.

        ``on_done`` is called in the event loop with None or an error. Raises AmqpError for an
        unknown transaction id.
        """

        def done(outcome: MQError | None) -> None:
            """Count the transaction as ended, and report its outcome."""
            self._ending_count -= 1
            on_done(outcome)

        self._conversations.discharge(
            name, fail=fail, on_done=lambda outcome: self._host.calls.soon(partial(done, outcome))
        )
        self._ending_count += 1

    def _discharged(self, transfer: Raw, outcome: MQError | None) -> None:
        """Answer a discharge: accepted, or rejected (amqp:transaction:rollback) after an error.

        After a LostAnswer it may be committed: the link is closed, and the discharge has no
        outcome. Does nothing if the link has ended.
        """
        if self._is_over:
            return
        if isinstance(outcome, LostAnswer):
            self._host.close_link(self, amqp_error(outcome))
            return
        delivery = links.wrapped(transfer)
        if outcome is None:
            delivery.update(Delivery.ACCEPTED)
            self._settle(delivery)
        else:
            self._refuse(delivery, AmqpError(ROLLED_BACK, str(outcome)))

    def _refuse(self, delivery: Delivery, error: AmqpError) -> None:
        """Reject a client's request (declare or discharge) with this error, and settle it."""
        delivery.local.condition = error.as_condition()
        delivery.update(Delivery.REJECTED)
        self._settle(delivery)

    def _settle(self, delivery: Delivery) -> None:
        """Settle a request now, unless its client must settle first (rcv-settle-mode second)."""
        if self._settles_first or delivery.settled:
            delivery.settle()


def _request(raw: bytes) -> tuple[int, list[Any]]:
    """Return the code, DECLARE or DISCHARGE, and the fields of a request to the coordinator.

    Raises AmqpError amqp:not-implemented for another request, amqp:decode-error for malformed
    bytes.
    """
    sections = codec.decoded(raw)
    value = sections[-1].value if sections and sections[-1].code == codec.VALUE else None
    if isinstance(value, codec.Described):
        code = _code_of(Described(plain(value.descriptor), None))
        fields = plain(value.value)
        if code in (DECLARE, DISCHARGE):
            return code, fields if isinstance(fields, list) else []
    raise AmqpError(NOT_IMPLEMENTED, "a coordinator takes declare and discharge")


def name_in(delivery: Delivery) -> bytes:
    """Return the transaction id in the state of a transfer or outcome.

    Raises AmqpError amqp:decode-error for a malformed state.
    """
    return _fields(delivery)[0]


class DeliveryOutcome(NamedTuple):
    """The outcome of a delivery; ``state`` is a ``Delivery`` constant, 0 for none.

    The other fields are those of *modified*.
    """

    state: int
    has_failed: bool = False
    is_undeliverable: bool = False
    annotations: Mapping[Any, Any] | None = None


def outcome_in(delivery: Delivery) -> DeliveryOutcome:
    """Return the outcome within a transactional state; its ``state`` is 0 without one.

    Raises AmqpError amqp:decode-error for a malformed state.
    """
    found = _fields(delivery)[1]
    if found is None:
        return DeliveryOutcome(0)
    given: Any = found.value if isinstance(found.value, list) else []
    has_failed, is_undeliverable, annotations = [*given, None, None, None][:3]
    state = _OUTCOMES.get(_code_of(found), 0)
    added = annotations if isinstance(annotations, dict) else None
    return DeliveryOutcome(state, bool(has_failed), bool(is_undeliverable), added)


def accept(delivery: Delivery, name: bytes) -> None:
    """Send the transactional state that a message is accepted in transaction ``name``."""
    _answer(delivery, TRANSACTIONAL_STATE, [name, Described(ulong(ACCEPTED), [])])


def _answer(delivery: Delivery, state: int, fields: Any) -> None:
    """Send a state with fields for a delivery; it stays unsettled."""
    delivery.local.data = fields
    delivery.update(state)


def _code_of(described: Described) -> int:
    """Return the descriptor of a value as a number, such as 0x24 for accepted; 0 if unknown."""
    descriptor = described.descriptor
    if isinstance(descriptor, int):
        return int(descriptor)
    return NAMES.get(str(descriptor), 0)


def _fields(delivery: Delivery) -> tuple[bytes, Described | None]:
    """Return transaction id and outcome of a transactional state; the outcome may be None.

    Raises AmqpError amqp:decode-error for a malformed state.
    """
    given: Any = delivery.remote.data
    if isinstance(given, list) and given and isinstance(given[0], (bytes, memoryview)):
        outcome = given[1] if len(given) > 1 else None
        if outcome is None or isinstance(outcome, Described):
            return bytes(given[0]), outcome
    raise AmqpError(DECODE_ERROR, "a transactional state names no transaction")
