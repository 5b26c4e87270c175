"""A client and its conversations: one that gets, one that puts, and one for each transaction."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from itertools import count
from typing import Final, NamedTuple

from mayfly.admin.security.admission import Admitted, Applicant
from mayfly.channel import ClientConnection
from mayfly.client.connection import Connection
from mayfly.client.connection.topics import is_temporary_topic
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.servers.amqp.addresses import (
    TOPIC,
    DeletedTopics,
    DynamicNode,
    NodeAddress,
    OwnNodes,
    check_no_queue,
)
from mayfly.servers.amqp.errors import NOT_FOUND, UNKNOWN_TRANSACTION, AmqpError, amqp_error
from mayfly.servers.amqp.service import AmqpService
from mayfly.servers.clients import ChannelClient
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Settlement

_LOG = logging.getLogger("mayfly.amqp")
#: APPLTAG, and MQMD.PutApplName.
_APPLICATION_LENGTH: Final = 28
#: Reason codes of an open that finds no queue of a name.
_NAMES_NO_QUEUE = frozenset((rc.MQRC_UNKNOWN_OBJECT_NAME, rc.MQRC_OBJECT_NAME_ERROR))
_PUT = c.MQOO_OUTPUT | c.MQOO_FAIL_IF_QUIESCING
#: The most conversations of ended transactions that are kept for reuse.
_IDLE_KEPT = 8
#: The longest wait for running verbs at the end of a client; after a store failure none ends.
_LONGEST_WAIT_SECONDS: Final = 30.0
#: The most open targets of one conversation; the default of MAXHANDS is 256.
MAX_OPEN: Final = 64


class AmqpClient:
    """A client that admission has accepted, with its terms."""

    def __init__(
        self, service: AmqpService, number: int, applicant: Applicant, admitted: Admitted
    ) -> None:
        self._service, self._number = service, number
        self.applicant, self._admitted = applicant, admitted
        self._place: ChannelClient | None = None
        self._conversations: ClientConversations | None = None
        self._connected_ms = 0

    def begin(self, container: str) -> ClientConversations:
        """Open the first conversation, whose application is the client's container id.

        Raises MQRC_CHANNEL_NOT_AVAILABLE above MAXINST or MAXINSTC, and the MQError of a refused
        connect.
        """
        service, admitted = self._service, self._admitted
        place = ChannelClient(
            self.applicant.queue_manager, self.applicant.channel, self.applicant.address
        )
        service.instances.enter(place, admitted)
        self._place = place
        named = replace(self.applicant, application=container[:_APPLICATION_LENGTH] or "AMQP")
        found = ClientConversations(
            lambda: service.connect(named.queue_manager, admitted, named),
            service.executor,
            service.nodes,
        )
        self.applicant, self._connected_ms = named, found.main.now_ms()
        self._conversations = found
        return found

    def leave(self) -> None:
        """End the conversations: unsettled messages return with their backout count raised."""
        if self._conversations is not None:
            self._conversations.end()
        if self._place is not None:
            self._service.instances.leave(self._place)

    def status(
        self, message_count: int, sent_bytes: int, received_bytes: int
    ) -> list[ClientConnection]:
        """Return the status of its conversations; the first one counts all messages."""
        if self._conversations is None:
            return []
        applicant = self.applicant
        return [
            ClientConnection(
                number,
                self._number,
                applicant.queue_manager,
                applicant.channel,
                self._admitted.user,
                applicant.address,
                applicant.application,
                applicant.has_tls,
                self._connected_ms,
                0 if place else message_count,
                self._service.limits.idle_timeout_ms,
                sent_bytes,
                received_bytes,
            )
            for place, number in enumerate(self._conversations.numbers())
        ]


class OpenTarget(NamedTuple):
    """A queue or topic that is open for puts.

    A temporary queue accepts no persistent messages. A ``temporary_topic`` may be deleted before
    its handle is closed.
    """

    handle: int
    is_temporary: bool = False
    temporary_topic: str = ""


class SettlementAtEnd(NamedTuple):
    """A delivery that is settled when its transaction is committed.

    ``on_refused`` is called on any thread with the error of a dead letter that no queue accepts.
    """

    number: int
    settlement: Settlement
    reason: int
    on_refused: Callable[[MQError], object]

    def backed_out(self) -> SettlementAtEnd:
        """Return the same delivery, to be backed out instead."""
        return self._replace(settlement=Settlement.BACKED_OUT, reason=0)


class ClientConversations:
    """Opens conversations as needed; those of ended transactions are reused."""

    def __init__(
        self, connect: Callable[[], Connection], executor: Executor, nodes: DeletedTopics
    ) -> None:
        """Open the first conversation; raises the MQError of ``connect``."""
        self._connect, self._executor = connect, executor
        self.main = connect()
        #: The owner of all its conversations: ``no-local`` leaves out what any of them publishes.
        self._owner: str | int = self.main.number
        self.main.call(ask.BelongTo(self._owner))
        self.nodes = OwnNodes(nodes)
        #: The one that puts outside of transactions, opened by its first put.
        self._putting: Connection | None = None
        self._transactions: dict[bytes, Connection] = {}
        #: Outcomes that deliveries have when their transaction is committed, by its id.
        self._at_end: dict[bytes, list[SettlementAtEnd]] = {}
        self._idle: list[Connection] = []
        self._is_ended = False
        #: How many verbs are under way whose outcome :meth:`end` waits for.
        self._awaited_count = 0
        self._lock = threading.Lock()
        #: Is set when none is under way; :meth:`end` makes it where it has to wait.
        self._is_over: threading.Event | None = None
        self._numbers = count(1)
        self._targets: dict[tuple[int, NodeAddress], OpenTarget] = {}

    def claim(self, client_id: str) -> None:
        """Reserve a client id, which becomes the owner of all conversations.

        Raises MQRC_OBJECT_IN_USE while another client has it.
        """
        self.main.call(ask.ClaimClientId(client_id))
        self._owner = client_id

    def putting(self) -> Connection:
        """Return the conversation that puts outside of transactions."""
        if self._putting is None:
            self._putting = self._connect()
            self._putting.call(ask.BelongTo(self._owner))
        return self._putting

    def declare(self) -> bytes:
        """Begin a transaction; return its id."""
        connection = self._idle.pop() if self._idle else self._connect()
        connection.call(ask.BelongTo(self._owner))
        name = next(self._numbers).to_bytes(4, "big")
        self._transactions[name] = connection
        return name

    @property
    def has_transactions(self) -> bool:
        """Whether a transaction is open."""
        return bool(self._transactions)

    def of_transaction(self, name: bytes) -> Connection:
        """Return the conversation of a transaction; raises amqp:transaction:unknown-id."""
        found = self._transactions.get(name)
        if found is None:
            raise AmqpError(UNKNOWN_TRANSACTION, f"transaction {name.hex()} is not open here")
        return found

    def discharge(
        self, name: bytes, *, fail: bool, on_done: Callable[[MQError | None], None]
    ) -> None:
        """End a transaction; ``on_done`` is called on any thread with None or an error.

        The deliveries of :meth:`settle_at_end` are settled then; after a rollback they are backed
        out. A commit is durable when ``on_done`` is called. Raises amqp:transaction:unknown-id.
        """
        connection = self.of_transaction(name)
        del self._transactions[name]
        at_end = self._at_end.pop(name, [])
        report = self.awaited(on_done)

        def done(outcome: MQError | None) -> None:
            self._reuse(connection)
            is_committed = outcome is None and not fail
            for each in at_end:
                self._settle(each if is_committed else each.backed_out())
            report(outcome)

        if not fail:
            connection.begin(ask.Commit(), done)
            return

        def back_out() -> None:
            outcome: MQError | None = mq_error(rc.MQRC_CONNECTION_BROKEN, "the store has failed")
            try:
                connection.call(ask.Backout())
                outcome = None
            except MQError as error:
                outcome = error
            finally:
                done(outcome)

        self._executor.submit(back_out)

    def settle_at_end(self, name: bytes, delivery: SettlementAtEnd) -> None:
        """Settle a delivery when its transaction is discharged."""
        self._at_end.setdefault(name, []).append(delivery)

    def _settle(self, delivery: SettlementAtEnd) -> None:
        """Settle a delivery; one that cannot become a dead letter is backed out."""
        number, settlement, reason, on_refused = delivery

        def noted(outcome: MQError | None) -> None:
            if outcome is None:
                return
            if settlement is Settlement.DEAD_LETTERED:
                # No queue accepts the dead letter: the message is backed out.
                on_refused(outcome)
                self._settle(delivery.backed_out())
            else:
                _LOG.warning("settling a message at the end of its transaction: %s", outcome)

        self.main.begin(ask.Settle([number], settlement, reason=reason), self.awaited(noted))

    def awaited(self, on_done: Callable[[MQError | None], object]) -> Callable[..., None]:
        """Wrap the callback of a verb, so that :meth:`end` waits for the verb."""
        with self._lock:
            self._awaited_count += 1

        def done(outcome: MQError | None) -> None:
            try:
                on_done(outcome)
            finally:
                with self._lock:
                    self._awaited_count -= 1
                    if self._is_over is not None and not self._awaited_count:
                        self._is_over.set()

        return done

    def attach_target(self, address: NodeAddress) -> None:
        """Open the queue or topic of a new link; raises AmqpError."""
        putting = self.putting()
        known = self._targets.get((putting.number, address))
        if known is not None and known.is_temporary:
            # The handle of another link may be that of a deleted queue.
            self.forget_target(address)
        self.target(putting, address)

    def target(self, connection: Connection, address: NodeAddress) -> OpenTarget:
        """Return the open queue or topic of an address in a conversation; raises AmqpError."""
        key = connection.number, address
        known = self._targets.pop(key, None) or self._opened(connection, address)
        # Reinserted at the end, so that the first is the least recently used.
        self._targets[key] = known
        if known.temporary_topic:
            self.nodes.all.check_topic(known.temporary_topic)
        return known

    def _opened(self, connection: Connection, address: NodeAddress) -> OpenTarget:
        """Open a queue or topic; the least recently used one makes place if necessary."""
        of_connection = [key for key in self._targets if key[0] == connection.number]
        if len(of_connection) >= MAX_OPEN:
            close_quietly(connection, self._targets.pop(of_connection[0]).handle)
        return open_target(connection, address)

    def forget_target(self, address: NodeAddress) -> None:
        """Close the handles of an address, whose link has ended."""
        for connection in self._all():
            target = self._targets.pop((connection.number, address), None)
            if target is not None:
                close_quietly(connection, target.handle)

    def node_closed(self, node: DynamicNode | None, *, is_closed: bool) -> None:
        """Delete the dynamic node of a closed link if it ends with the link; an error is logged."""
        if node is None or not is_closed or not node.ends_with_link or not self.main.is_open:
            return
        try:
            self.nodes.delete(self.main, node)
        except MQError as error:
            _LOG.info("deleting %s: %s", node.address.name, error)

    def end(self, then: Callable[[], object] = lambda: None) -> None:
        """Back out and close all conversations, on another thread that may wait for the disk.

        Running verbs end first, so that puts, outcomes and discharges of the client take effect.
        ``then`` is called on that thread, or at once when the conversations have ended before.
        """
        if self._is_ended:
            then()
            return
        self._is_ended = True
        self.nodes.end()
        self._executor.submit(self._end).add_done_callback(lambda _closed: then())

    def _end(self) -> None:
        """Wait for running verbs, 30 s at most, and close all conversations."""
        with self._lock:
            if self._awaited_count:
                self._is_over = threading.Event()
        if self._is_over is not None:
            self._is_over.wait(_LONGEST_WAIT_SECONDS)
        ending = self._all()
        self._putting, self._transactions, self._idle = None, {}, []
        _close_all(ending)

    def numbers(self) -> list[int]:
        """Return the connection numbers of all conversations."""
        return [connection.number for connection in self._all()]

    def _all(self) -> list[Connection]:
        putting = [] if self._putting is None else [self._putting]
        return [self.main, *putting, *self._transactions.values(), *self._idle]

    def _reuse(self, connection: Connection) -> None:
        """Keep the conversation of an ended transaction for the next one, or close it."""
        if connection.is_open and len(self._idle) < _IDLE_KEPT:
            self._idle.append(connection)
        else:
            self._executor.submit(_close_all, [connection])


def open_target(connection: Connection, address: NodeAddress) -> OpenTarget:
    """Open a queue or a topic for puts; raises AmqpError.

    A name without a kind is that of a queue, or if there is none of a topic.
    """
    try:
        if address.kind == TOPIC:
            return _topic(connection, address)
        opened = connection.call(ask.Open(address.name, _PUT, manager=address.manager))
        return OpenTarget(opened.handle, opened.definition_type == c.MQQDT_TEMPORARY_DYNAMIC)
    except MQError as error:
        if address.kind:
            raise not_found(address, error) from None
        refused = error
    check_is_topic(connection, address, refused)
    try:
        return _topic(connection, address)
    except MQError:
        raise not_found(address, refused) from None


def _topic(connection: Connection, address: NodeAddress) -> OpenTarget:
    name = address.name
    opened = connection.call(ask.Open("", _PUT, kind=c.MQOT_TOPIC, topic=name))
    return OpenTarget(opened.handle, temporary_topic=name if is_temporary_topic(name) else "")


def check_is_topic(connection: Connection, address: NodeAddress, refused: MQError) -> None:
    """Raise AmqpError unless a name that is no queue's may be that of a topic.

    A name that is a queue's in upper case is refused, because ``orders`` beside a queue ORDERS is
    most likely an error. So is the name of a temporary queue, which was deleted.
    """
    if refused.reason not in _NAMES_NO_QUEUE:
        raise amqp_error(refused)
    check_no_queue(address.name)
    name = address.name.upper()
    if name == address.name:
        return
    try:
        handle = connection.call(ask.Open(name, c.MQOO_INQUIRE)).handle
    except MQError:
        return
    connection.call(ask.CloseObject(handle))
    raise not_found(address, refused)


def not_found(address: NodeAddress, error: MQError) -> AmqpError:
    """Return the error of an address, with a hint when only upper case is missing."""
    refusal = amqp_error(error)
    if refusal.condition == NOT_FOUND and address.name != address.name.upper():
        hint = f"; names of queues are exact: is {address.name.upper()} meant?"
        return AmqpError(refusal.condition, refusal.description + hint)
    return refusal


def close_quietly(connection: Connection, handle: int) -> None:
    """Close an object of an ended link; an error is logged."""
    try:
        if connection.is_open:
            connection.call(ask.CloseObject(handle))
    except MQError as error:
        _LOG.info("closing handle %d: %s", handle, error)


def _close_all(connections: list[Connection]) -> None:
    """Close conversations without a commit; errors are logged."""
    for connection in connections:
        try:
            connection.close(commit=False)
        except Exception as error:  # noqa: BLE001 - the others are closed as well
            _LOG.warning("closing a conversation of %s: %s", connection.name, error)
