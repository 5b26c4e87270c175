"""The coordinator of transactions: it declares them and discharges them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from proton import Delivery, Described, Link, Session, Terminus

from mayfly.mqi.errors import MQError
from mayfly.servers.amqp import codec, transactions, transfers
from mayfly.servers.amqp.codec import plain
from mayfly.servers.amqp.conversations import Conversations
from mayfly.servers.amqp.errors import (
    DECODE_ERROR,
    NOT_IMPLEMENTED,
    ROLLED_BACK,
    AmqpError,
    of_mq,
)
from mayfly.servers.amqp.host import LinkHost
from mayfly.servers.amqp.transfers import Raw

_CREDIT: Final = 100


class Coordinator:
    """The link on which a client declares and discharges its transactions."""

    def __init__(self, host: LinkHost, link: Link, conversations: Conversations) -> None:
        """Accept the link."""
        self.key = transfers.raw_of(link)
        self._host, self._conversations = host, conversations
        link.target.type = Terminus.COORDINATOR
        link.target.capabilities.copy(link.remote_target.capabilities)
        link.source.copy(link.remote_source)
        link.rcv_settle_mode = link.remote_rcv_settle_mode
        self._settles_first = link.remote_rcv_settle_mode != Link.RCV_SECOND
        self._open: set[bytes] = set()
        #: How many transactions are being committed or backed out.
        self._ending_count = 0
        self._is_over = False
        link.open()
        link.flow(_CREDIT)

    def flow(self) -> None:
        """A sending client gives no credit."""

    @property
    def link(self) -> Link:
        """Return the link with all that proton's class knows of it; none is kept."""
        return Link.wrap(self.key)

    def session_is(self, session: Session) -> bool:
        """Return True if the link belongs to a session."""
        return bool(self.link.session == session)

    def delivery(self, transfer: Raw) -> None:
        """Carry out one declare or discharge."""
        delivery = transfers.wrapped(transfer)
        if delivery.settled and not delivery.readable:
            delivery.settle()
            if not self._settles_first:
                # The next request has room now.
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
            if code == transactions.DECLARE:
                self._declare(delivery)
            else:
                self._discharge(delivery, fields)
        except AmqpError as error:
            self._refuse(delivery, error)
        except MQError as error:
            self._refuse(delivery, of_mq(error))

    def quiesce(self) -> bool:
        """Return True when every discharge has been answered."""
        return not self._ending_count

    def end(self, *, is_closed: bool) -> None:
        """Back out transactions declared here and not discharged, as the specification wants."""
        self._is_over = True
        for name in list(self._open):
            self._open.discard(name)
            self._discharge_then(name, lambda _outcome: None, fail=True)

    def lost(self) -> None:
        """The conversations end with the connection."""

    def _declare(self, delivery: Delivery) -> None:
        name = self._conversations.declare()
        self._open.add(name)
        transactions.answer(delivery, transactions.DECLARED, [name])
        self._settle(delivery)

    def _discharge(self, delivery: Delivery, fields: list[Any]) -> None:
        if not fields or not isinstance(fields[0], bytes):
            raise AmqpError(DECODE_ERROR, "discharge: txn-id is mandatory")
        name = fields[0]
        fail = bool(fields[1]) if len(fields) > 1 else False
        # The pointer alone: the last thread to know proton's object would free it.
        raw = transfers.raw_delivery_of(delivery)
        self._discharge_then(name, partial(self._discharged, raw), fail=fail)
        self._open.discard(name)

    def _discharge_then(
        self, name: bytes, on_done: Callable[[MQError | None], object], *, fail: bool
    ) -> None:
        def done(outcome: MQError | None) -> None:
            self._ending_count -= 1
            on_done(outcome)

        self._conversations.discharge(
            name, fail=fail, on_done=lambda outcome: self._host.calls.soon(partial(done, outcome))
        )
        self._ending_count += 1

    def _discharged(self, transfer: Raw, outcome: MQError | None) -> None:
        if self._is_over:
            return
        delivery = transfers.wrapped(transfer)
        if outcome is None:
            delivery.update(Delivery.ACCEPTED)
            self._settle(delivery)
        else:
            self._refuse(delivery, AmqpError(ROLLED_BACK, str(outcome)))

    def _refuse(self, delivery: Delivery, error: AmqpError) -> None:
        delivery.local.condition = error.as_condition()
        delivery.update(Delivery.REJECTED)
        self._settle(delivery)

    def _settle(self, delivery: Delivery) -> None:
        """Settle a request, or leave it until its client has."""
        if self._settles_first or delivery.settled:
            delivery.settle()


def _request(raw: bytes) -> tuple[int, list[Any]]:
    sections = codec.decoded(raw)
    value = sections[-1].value if sections and sections[-1].code == codec.VALUE else None
    if isinstance(value, codec.Described):
        code = transactions.code_of(Described(plain(value.descriptor), None))
        fields = plain(value.value)
        if code in (transactions.DECLARE, transactions.DISCHARGE):
            return code, fields if isinstance(fields, list) else []
    raise AmqpError(NOT_IMPLEMENTED, "a coordinator takes declare and discharge")
