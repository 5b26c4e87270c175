"""Conversations of an AMQP client: one that gets, one that puts, and one for each transaction."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from itertools import count
from typing import Final, NamedTuple, TypeAlias

from mayfly.admin.security.admission import Admitted, Applicant
from mayfly.channel import ClientConnection
from mayfly.client.connection import Connection
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
from mayfly.servers.amqp.codec import NOT_FOUND, UNKNOWN_TRANSACTION, AmqpError, amqp_error
from mayfly.servers.amqp.service import AmqpService
from mayfly.servers.clients import ChannelClient, close_all
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Settlement
from mayfly.verbs.topic_strings import is_temporary_topic

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
    """A client that admission has accepted, with its user and limits."""

    def __init__(
        self, service: AmqpService, number: int, applicant: Applicant, admitted: Admitted
    ) -> None:
        """Take a client that admission has accepted; nothing is opened yet.

        ``applicant`` is the program that asked to connect, ``admitted`` the user and limits that
        admission decided. ``number`` tells the sockets of all servers of the process apart.
        """
        self._service, self._number = service, number
        self.applicant, self._admitted = applicant, admitted
        self._place: ChannelClient | None = None
        self._conversations: ClientConversations | None = None
        self._connected_ms = 0

    def begin(self, container: str) -> ClientConversations:
        """Open the first conversation; the client's container id becomes its application name.

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
        """Begin to end all conversations of the client; does not wait.

        Unsettled messages return to their queues with their backout count raised. The client no
        longer counts as an instance of the channel.
        """
        if self._conversations is not None:
            self._conversations.end()
        if self._place is not None:
            self._service.instances.leave(self._place)

    def status(
        self, message_count: int, sent_bytes: int, received_bytes: int
    ) -> list[ClientConnection]:
        """Return the status of each conversation, in order; [] before the first is open.

        ``message_count``, ``sent_bytes`` and ``received_bytes`` are those of the client's socket.
        Only the first conversation shows the message count, so that a sum counts each message once.
        """
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


#: Takes the end of a verb: None, or the error with which it has failed.
OnEnd: TypeAlias = Callable[[MQError | None], object]


class OpenTarget(NamedTuple):
    """A queue or topic that is open for puts.

    A temporary queue accepts no persistent messages. ``temporary_topic`` is the topic string of a
    temporary topic, otherwise "": such a topic may be deleted while the handle is open.
    """

    handle: int
    is_temporary: bool = False
    temporary_topic: str = ""


class SettlementAtEnd(NamedTuple):
    """The outcome of one delivery that takes effect when its transaction is committed.

    ``number`` is the delivery's number. ``on_refused`` is called on any thread with the MQError if
    the message cannot be dead-lettered.
    """

    number: int
    settlement: Settlement
    reason: int
    on_refused: Callable[[MQError], object]

    def backed_out(self) -> SettlementAtEnd:
        """Return a copy whose outcome is to back the message out."""
        return self._replace(settlement=Settlement.BACKED_OUT, reason=0)


class ClientConversations:
    """The conversations (connections to the queue manager) of one client, opened when needed.

    Those of ended transactions are reused.
    """

    def __init__(
        self, connect: Callable[[], Connection], executor: Executor, nodes: DeletedTopics
    ) -> None:
        """Open the first conversation; raises the MQError of ``connect``.

        ``executor`` has the threads for calls that may block. ``nodes`` are the deleted temporary
        topics of all clients.
        """
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
        #: The callbacks of running verbs; :meth:`end` waits for their calls.
        self._awaited: set[OnEnd] = set()
        self._lock = threading.Lock()
        #: Is set when none is under way; :meth:`end` makes it where it has to wait.
        self._is_over: threading.Event | None = None
        self._numbers = count(1)
        self._targets: dict[tuple[int, NodeAddress], OpenTarget] = {}

    def claim(self, client_id: str) -> None:
        """Reserve a client id; all conversations of this client count as one client with it.

        Raises MQRC_OBJECT_IN_USE while another client has it.
        """
        self.main.call(ask.ClaimClientId(client_id))
        self._owner = client_id

    def putting(self) -> Connection:
        """Return the conversation that puts outside of transactions; opened on the first call."""
        if self._putting is None:
            self._putting = self._connect()
            self._putting.call(ask.BelongTo(self._owner))
        return self._putting

    def declare(self) -> bytes:
        """Begin a transaction with a conversation for it; return the transaction id of 4 bytes.

        Raises the MQError of a refused connect.
        """
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
        """Return the conversation of a transaction, by its id ``name``.

        Raises amqp:transaction:unknown-id if the transaction is not open.
        """
        found = self._transactions.get(name)
        if found is None:
            raise AmqpError(UNKNOWN_TRANSACTION, f"transaction {name.hex()} is not open here")
        return found

    def discharge(self, name: bytes, *, fail: bool, on_done: OnEnd) -> None:
        """Begin to commit a transaction, or to back it out if ``fail``; does not wait.

        ``on_done`` is called on any thread: with None at success, when a commit is durable,
        otherwise with an error. Before that, deliveries of :meth:`settle_at_end` begin to be
        settled: after a commit by their outcomes, otherwise as backed out. Raises
        amqp:transaction:unknown-id if the transaction is not open.
        """
        connection, at_end = self.of_transaction(name), self._at_end.get(name, [])

        def done(outcome: MQError | None) -> None:
            """Settle the noted deliveries, keep the conversation, and report the outcome."""
            self._reuse(connection)
            is_committed = outcome is None and not fail
            try:
                for each in at_end:
                    self._settle(each if is_committed else each.backed_out())
            finally:
                on_done(outcome)

        if fail:
            self._await(done, lambda called: self._executor.submit(_back_out, connection, called))
        else:
            self.begin(connection, ask.Commit(), done)
        # Only now: a transaction whose end cannot begin is backed out with its client.
        self._transactions.pop(name, None)
        self._at_end.pop(name, None)

    def settle_at_end(self, name: bytes, delivery: SettlementAtEnd) -> None:
        """Note a delivery of a transaction, to be settled when the transaction has ended.

        After a commit it gets its outcome, otherwise it is backed out.
        """
        self._at_end.setdefault(name, []).append(delivery)

    def _settle(self, delivery: SettlementAtEnd) -> None:
        """Begin to settle a delivery.

        A message that no queue takes as dead letter is backed out.
        """
        number, settlement, reason, on_refused = delivery

        def noted(outcome: MQError | None) -> None:
            """Log an error of the settlement.

            Back a message out that could not be dead-lettered.
            """
            if outcome is None:
                return
            if settlement is Settlement.DEAD_LETTERED:
                # No queue accepts the dead letter: the message is backed out.
                on_refused(outcome)
                self._settle(delivery.backed_out())
            else:
                _LOG.warning("settling a message at the end of its transaction: %s", outcome)

        self.begin(self.main, ask.Settle([number], settlement, reason=reason), noted)

    def begin(self, connection: Connection, request: ask.Request[None], on_done: OnEnd) -> None:
        """Begin a verb in one of the conversations, and return at once.

        ``on_done`` is called on any thread, with None or an error. :meth:`end` waits for this.
        """
        self._await(on_done, lambda called: connection.begin(request, called))

    def _await(self, on_done: OnEnd, start: Callable[[OnEnd], object]) -> None:
        """Start a verb that calls back, and let :meth:`end` wait until its callback was called.

        ``start`` gets that callback, which calls ``on_done``. A verb that ``start`` cannot start is
        not waited for; the error is raised.
        """

        def called(outcome: MQError | None) -> None:
            """Report the outcome, then note that the verb has ended."""
            try:
                on_done(outcome)
            finally:
                self._forget(called)

        with self._lock:
            self._awaited.add(called)
        try:
            start(called)
        except BaseException:
            self._forget(called)
            raise

    def _forget(self, called: OnEnd) -> None:
        """Wait no more for the callback of a verb; ignored if it was called before."""
        with self._lock:
            self._awaited.discard(called)
            if self._is_over is not None and not self._awaited:
                self._is_over.set()

    def attach_target(self, address: NodeAddress) -> None:
        """Open the queue or topic of a new link; raises AmqpError if that is not possible."""
        putting = self.putting()
        known = self._targets.get((putting.number, address))
        if known is not None and known.is_temporary:
            # The handle of another link may be that of a deleted queue.
            self.forget_target(address)
        self.target(putting, address)

    def target(self, connection: Connection, address: NodeAddress) -> OpenTarget:
        """Return the open queue or topic of an address in a conversation; open it if necessary.

        Raises AmqpError, for example amqp:not-found for a deleted temporary topic.
        """
        key = connection.number, address
        known = self._targets.pop(key, None) or self._opened(connection, address)
        # Reinserted at the end, so that the first is the least recently used.
        self._targets[key] = known
        if known.temporary_topic:
            self.nodes.all.check_topic(known.temporary_topic)
        return known

    def _opened(self, connection: Connection, address: NodeAddress) -> OpenTarget:
        """Open a queue or topic; with 64 open ones, close the least recently used one first."""
        of_connection = [key for key in self._targets if key[0] == connection.number]
        if len(of_connection) >= MAX_OPEN:
            close_quietly(connection, self._targets.pop(of_connection[0]).handle)
        return open_target(connection, address)

    def forget_target(self, address: NodeAddress) -> None:
        """Close the handles of an address in all conversations; errors are logged."""
        for connection in self._all():
            target = self._targets.pop((connection.number, address), None)
            if target is not None:
                close_quietly(connection, target.handle)

    def node_closed(self, node: DynamicNode | None, *, is_closed: bool) -> None:
        """Delete ``node``, the temporary queue or topic of a link that was closed.

        Does nothing if ``node`` is None or does not end with its link, if the link was only
        detached (``is_closed`` False), or if the connection is closed. An error is logged.
        """
        if node is None or not is_closed or not node.ends_with_link or not self.main.is_open:
            return
        try:
            self.nodes.delete(self.main, node)
        except MQError as error:
            _LOG.info("deleting %s: %s", node.address.name, error)

    def end(self, then: Callable[[], object] = lambda: None) -> None:
        """Back out and close all conversations on another thread; does not wait for it.

        That thread first waits at most 30 seconds for running verbs, so that puts, outcomes and
        discharges of the client take effect. It calls ``then`` last. A second call only calls
        ``then`` at once.
        """
        if self._is_ended:
            then()
            return
        self._is_ended = True
        self.nodes.end()
        self._executor.submit(self._end).add_done_callback(lambda _closed: then())

    def _end(self) -> None:
        """Wait at most 30 s for running verbs, then close all conversations without a commit."""
        with self._lock:
            if self._awaited:
                self._is_over = threading.Event()
        if self._is_over is not None:
            self._is_over.wait(_LONGEST_WAIT_SECONDS)
        ending = self._all()
        self._putting, self._transactions, self._idle = None, {}, []
        close_all(ending, _LOG)

    def numbers(self) -> list[int]:
        """Return the connection numbers of all conversations."""
        return [connection.number for connection in self._all()]

    def _all(self) -> list[Connection]:
        """Return all conversations, with those of transactions and the idle ones."""
        putting = [] if self._putting is None else [self._putting]
        return [self.main, *putting, *self._transactions.values(), *self._idle]

    def _reuse(self, connection: Connection) -> None:
        """Keep the conversation of an ended transaction for the next one.

        Close it if 8 are kept.
        """
        if connection.is_open and len(self._idle) < _IDLE_KEPT:
            self._idle.append(connection)
        else:
            self._executor.submit(close_all, [connection], _LOG)


def _back_out(connection: Connection, on_done: OnEnd) -> None:
    """Back the transaction of a conversation out, and report the outcome; the call may block."""
    outcome: MQError | None = mq_error(rc.MQRC_CONNECTION_BROKEN, "the store has failed")
    try:
        connection.call(ask.Backout())
        outcome = None
    except MQError as error:
        outcome = error
    finally:
        on_done(outcome)


def open_target(connection: Connection, address: NodeAddress) -> OpenTarget:
    """Open a queue or a topic for puts; raises AmqpError if that is not possible.

    An address without a kind names a queue or, if no such queue exists, a topic.
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
    """Open a topic for puts; raises MQError."""
    name = address.name
    opened = connection.call(ask.Open("", _PUT, kind=c.MQOT_TOPIC, topic=name))
    return OpenTarget(opened.handle, temporary_topic=name if is_temporary_topic(name) else "")


def check_is_topic(connection: Connection, address: NodeAddress, refused: MQError) -> None:
    """Raise AmqpError unless an address that names no queue may name a topic.

    ``refused`` is the error of opening the queue; one that does not mean an unknown queue is raised
    as AmqpError. A name such as ``orders`` beside a queue ORDERS is refused as a likely mistake,
    and so is the name of a temporary queue, which was deleted.
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
    """Return an error of opening an address as AmqpError.

    If the address is not found and not in upper case, the text hints at the upper-case name.
    """
    refusal = amqp_error(error)
    if refusal.condition == NOT_FOUND and address.name != address.name.upper():
        hint = f"; names of queues are exact: is {address.name.upper()} meant?"
        return AmqpError(refusal.condition, refusal.description + hint)
    return refusal


def close_quietly(connection: Connection, handle: int) -> None:
    """Close a handle whose link has ended; an MQError is logged, not raised."""
    try:
        if connection.is_open:
            connection.call(ask.CloseObject(handle))
    except MQError as error:
        _LOG.info("closing handle %d: %s", handle, error)
