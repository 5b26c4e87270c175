"""Receiving clients: the source of a link, and the messages that the client gets and settles.

A source is a queue, a browsed queue, or a subscription. Each message is held until the client
settles it.
"""

from __future__ import annotations

import logging
import threading
from asyncio import TimerHandle
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final, NamedTuple

from proton import Condition, Link, Terminus
from proton import Delivery as Transfer

from mayfly.client.connection import Connection, UnderWay
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import CannotBeGiven, MQError
from mayfly.servers.amqp import addresses, links, transactions
from mayfly.servers.amqp.addresses import (
    QUEUE,
    TOPIC,
    DynamicNode,
    NodeAddress,
    OwnNodes,
    capabilities_of,
    filters_of,
)
from mayfly.servers.amqp.codec import AmqpError, amqp_error
from mayfly.servers.amqp.conversations import (
    ClientConversations,
    OnEnd,
    SettlementAtEnd,
    check_is_topic,
    close_quietly,
    not_found,
)
from mayfly.servers.amqp.links import LinkEndpoint, LinkHost, Raw
from mayfly.servers.amqp.outgoing import outgoing, shown_as_bytes
from mayfly.servers.amqp.service import Call
from mayfly.servers.amqp.transactions import DeliveryOutcome
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Delivery, Message, Settlement
from mayfly.verbs.topic_strings import is_temporary_topic, quoted_client_id

_LOG = logging.getLogger("mayfly.amqp")
#: All properties are read here, whatever PROPCTL of the queue says.
_NO_WAIT: Final = c.MQGMO_FAIL_IF_QUIESCING | c.MQGMO_PROPERTIES_FORCE_MQRFH2
_WAIT: Final = _NO_WAIT | c.MQGMO_WAIT
_BROWSE: Final = _NO_WAIT | c.MQGMO_BROWSE_NEXT
#: The interval at which some links poll: browsing ones, and those whose first message is set aside.
_RETRY_SECONDS: Final = 0.25
#: The least interval for each message that a poll sets aside.
_RETRY_SECONDS_EACH: Final = 0.001
#: Bytes of one session that may wait for the client to read them.
_OUTGOING_BYTES: Final = 4 * 1024 * 1024
#: The most messages and bytes of a link in one pass of the loop; then other links have a turn.
_PASS_MESSAGES: Final = 100
_PASS_BYTES: Final = 1024 * 1024
_SETTLED_MODE = Link.SND_SETTLED
_OPEN_TO_GET: Final = c.MQOO_INPUT_AS_Q_DEF | c.MQOO_INQUIRE | c.MQOO_FAIL_IF_QUIESCING
_OPEN_TO_BROWSE: Final = c.MQOO_BROWSE | c.MQOO_FAIL_IF_QUIESCING
#: Ends the name of a subscription in the name of a link; ``global``, ``volatile`` or a number
#: follows, so that several links may share one.
_DELIMITER = "|"
_GLOBAL = "global"
#: The longest wait of a link that ends for a message which another thread brings it just now.
_ARRIVAL_SECONDS: Final = 1.0
#: The reason code in the dead letter of a rejected message.
REJECTED_REASON: Final = rc.MQRC_BACKOUT_THRESHOLD_REACHED
#: The most messages that are settled together.
_MAX_SETTLED: Final = 500
_FIRST_PAUSE_MS: Final = SECOND_MS
_LONGEST_PAUSE_MS: Final = 60 * SECOND_MS
#: Failures are logged together, once in this time.
_LOG_INTERVAL_MS: Final = 60 * SECOND_MS
#: The most postponed messages; the oldest is forgotten, and tried again at once.
_MAX_MESSAGES: Final = 10_000


class ReceivingClient(LinkEndpoint):
    """A link on which a client receives from a queue or a subscription."""

    def __init__(self, host: LinkHost, link: Link, conversations: ClientConversations) -> None:
        """Open the source that the link names; raises AmqpError or MQError."""
        super().__init__(host, link, conversations)
        self._name = link.name
        self._source = _opened_source(conversations, link, link.connection.remote_container or "")
        self._connection: Connection = conversations.main
        self._getting: UnderWay | None = None
        #: The outcome of that get, from the thread that brings it until the loop takes it.
        self._arrived: deque[Delivery | MQError] = deque()
        #: Set when an outcome arrives for a link that has ended.
        self._arrival = threading.Event()
        #: Deliveries of messages that are set aside, held while those behind them are looked for.
        self._set_aside: list[int] = []
        self._calls, self._budget = host.calls, host.service.budget
        fail = partial(host.close_link, self)
        self._unsettled = Unsettled(host, conversations, self._source.address, self._ask, fail)
        self._tags = count(1)
        self._is_waiting = self._is_stalled = self._is_quiescing = False
        #: The one timer by which the link looks again.
        self._timer: TimerHandle | None = None
        link.target.copy(link.remote_target)
        link.snd_settle_mode = link.remote_snd_settle_mode
        link.rcv_settle_mode = link.remote_rcv_settle_mode
        self._is_settled_first = link.remote_snd_settle_mode == _SETTLED_MODE
        link.open()

    # Messages for the client.

    def flow(self) -> None:
        """React to changed credit: send available messages, wait for more, or browse.

        With drain, unused credit is returned to the client.
        """
        if self._is_over or self._is_quiescing:
            return
        if self._source.is_browse:
            self._browse()
            return
        getting = self._getting
        if getting is not None and self._is_waiting and self._has_to_stop():
            if not getting.cancel():
                # A message is on its way, so the get cannot be cancelled: its arrival continues.
                return
            self._getting = None
        self._ask()

    def _has_to_stop(self) -> bool:
        """Return True if a waiting get must be cancelled, for no credit or for drain."""
        return links.credit(self.key) <= 0 or links.is_draining(self.key)

    def _ask(self) -> None:
        """Send available messages within credit and capacity, and begin to wait for more.

        Does nothing while a get is running.
        """
        if self._getting is not None or self._is_over:
            return
        if len(self._set_aside) >= self._host.service.limits.unsettled:
            # The messages behind these must wait until these are returned.
            self._retry_later(self._return_set_aside())
            return
        capacity = self._capacity()
        if capacity > 1 and not self._take_available(capacity):
            return
        capacity = self._capacity()
        if capacity > 0:
            self._begin_to_get()
        elif self._budget.is_used_up or links.unsent_bytes(self.key) > _OUTGOING_BYTES:
            self._stall()

    def _take_available(self, capacity: int) -> bool:
        """Send available messages, at most ``capacity``.

        In one pass of the event loop at most 100 messages or 1 MiB are sent. Return False if more
        may be available; sending then continues in the next pass. An error is left to the waiting
        get, which reports it.
        """
        try:
            found = self._connection.call(
                ask.TakeHeld(
                    self._source.handle, _NO_WAIT, min(capacity, _PASS_MESSAGES), _PASS_BYTES
                )
            )
        except MQError:
            # A waiting get reports the error, and continues when the queue can be got from.
            return True
        if sum(map(self._sort, found)):
            self._return_set_aside()
        if len(found) < min(capacity, _PASS_MESSAGES):
            return True
        # Other links have their turn.
        self._calls.soon(self._ask)
        return False

    def _begin_to_get(self) -> None:
        """Begin a get of one message.

        It waits, unless the client drains or messages are set aside.
        """
        self._is_waiting = not (links.is_draining(self.key) or self._set_aside)
        options = _WAIT if self._is_waiting else _NO_WAIT
        self._getting = self._connection.begin(
            ask.GetAny([self._source.handle], options, tells_refusals=self._is_waiting),
            self._arrive,
            self._refused,
        )

    def _arrive(self, outcome: Delivery | MQError) -> None:
        """Take the outcome of a get on any thread; the loop continues with it."""
        self._arrived.append(outcome)
        if self._is_over:
            self._arrival.set()
        self._calls.soon(self._got)

    def _capacity(self) -> int:
        """Return how many messages may be sent now; 0 or less means none.

        Credit, unsettled messages, unsent bytes and the memory budget limit it.
        """
        if self._is_quiescing or self._budget.is_used_up:
            return 0
        if links.unsent_bytes(self.key) > _OUTGOING_BYTES:
            return 0
        capacity = self._host.service.limits.unsettled - len(self._unsettled)
        return min(links.credit(self.key), capacity)

    def _got(self) -> None:
        """Send the message of a get that has ended, or handle its error.

        A message that arrives after its credit was withdrawn returns to the queue. Then sends
        further messages that are available. Does nothing if the end of the link has taken the
        outcome already.
        """
        if not self._arrived:
            return
        outcome = self._arrived.popleft()
        self._getting = None
        if isinstance(outcome, MQError):
            self._without_message(outcome)
            return
        if self._is_over or self._is_quiescing or links.credit(self.key) <= 0:
            # The client has withdrawn its credit meanwhile.
            self._unsettled.give_back([outcome.number])
            return
        if self._sort(outcome):
            self._return_set_aside()
        self._ask()

    def _sort(self, held: Delivery) -> bool:
        """Send a message, or move a poison message away; return False if it is set aside instead.

        A poison message was backed out BOTHRESH times. A message is set aside if it waits after a
        failed move, or if this client does not want it again. It then stays locked until
        :meth:`_return_set_aside`, so that the messages after it can be sent.
        """
        message = held.result.message
        if not self._unsettled.postponed.has(message.msg_id):
            if self._is_poisonous(held):
                self._unsettled.set_aside(held, rc.MQRC_BACKOUT_THRESHOLD_REACHED)
                return True
            if message.msg_id not in self._unsettled.unwanted:
                self._send(message, held)
                return True
        # Another link may accept it; this one continues with those behind.
        self._set_aside.append(held.number)
        return False

    def _is_poisonous(self, held: Delivery) -> bool:
        """Return True if a message was backed out BOTHRESH times; BOTHRESH(0) means no limit."""
        backout_count = held.result.message.backout_count
        if not backout_count:
            # Its queue need not be asked.
            return False
        rule = self._connection.call(ask.AskBackoutRule(held.handle))
        return 0 < rule.threshold <= backout_count

    def _return_set_aside(self) -> int:
        """Return the messages set aside to their queue; the result is their number.

        Their backout counts do not change.
        """
        numbers, self._set_aside = self._set_aside, []
        self._unsettled.give_back(numbers)
        return len(numbers)

    def _without_message(self, error: MQError) -> None:
        """React to a get that ended without a message: wait, finish a drain, or end the link."""
        count = self._return_set_aside()
        if error.reason == rc.MQRC_NO_MSG_AVAILABLE:
            if links.is_draining(self.key):
                links.drained(self.key)
            elif count:
                self._retry_later(count)
            elif not self._is_over:
                self._ask()
        elif not self._is_over and error.reason != rc.MQRC_HCONN_ERROR:
            self._host.close_link(self, amqp_error(error))

    def _refused(self, _handle: int, error: MQError) -> None:
        """Log that the queue is inhibited for gets; the get waits until it is not."""
        _LOG.info("link %s waits: %s", self._name, error)

    def _stall(self) -> None:
        """Let sending continue once the client has read or memory is free; return at once.

        An outcome that the client sends also lets sending continue, but may never come.
        """
        if not self._is_stalled:
            self._is_stalled = True
            if self._budget.is_used_up:
                self._host.when_memory_is_free(self._continue_and_pump)
            else:
                self._calls.when_sent(self._continue)

    def _continue(self) -> None:
        """Continue to send after a wait for the client or for memory."""
        self._is_stalled = False
        self.flow()

    def _continue_and_pump(self) -> None:
        """Continue to send, and write the bytes to the socket."""
        self._continue()
        self._host.pump()

    def _retry_later(self, count: int = 0) -> None:
        """Try to send again after 250 ms, or 1 ms for each of ``count`` messages if that is longer.

        Does nothing if a retry is due already.
        """
        if self._timer is None:
            seconds = max(_RETRY_SECONDS, count * _RETRY_SECONDS_EACH)
            self._timer = self._host.service.loop.call_later(seconds, self._retry)

    def _retry(self) -> None:
        """Try to send again, unless the link has ended or has no credit."""
        self._timer = None
        if not self._is_over and links.credit(self.key) > 0:
            self.flow()
            self._host.pump()

    def _send(self, message: Message, held: Delivery | None) -> None:
        """Send a message to the client; ``held`` is None for a browsed one.

        A message that AMQP cannot represent is moved away, or sent as bytes if it is browsed.
        """
        manager = self._connection.name
        added = self._host.service.annotations.of(manager, message.msg_id)
        address = self._source.address
        try:
            raw = outgoing(message, destination=address, manager=manager, added=added)
        except CannotBeGiven as error:
            _LOG.warning("message %s has no form in AMQP: %s", message.msg_id.hex(), error)
            if held is not None and held.number:
                self._unsettled.set_aside(held, error.reason)
                return
            raw = shown_as_bytes(message, error, destination=address)
        self._host.message_count += 1
        transfer = links.send(self.key, b"%d" % next(self._tags), raw)
        if held is None or not held.number:
            links.settle(transfer)
        elif self._is_settled_first:
            links.settle(transfer)
            self._unsettled.take(held.number)
        else:
            self._unsettled.sent(transfer, held)

    # Browsing.

    def _browse(self) -> None:
        """Send copies of messages while the link has credit; the messages stay on the queue.

        If no further message is on the queue, a drain is finished, or the browse is tried again
        later. Any other error closes the link.
        """
        while not self._is_over and self._capacity() > 0:
            try:
                result = self._connection.get(self._source.handle, _BROWSE)
            except MQError as error:
                if error.reason != rc.MQRC_NO_MSG_AVAILABLE:
                    self._host.close_link(self, amqp_error(error))
                elif links.is_draining(self.key):
                    links.drained(self.key)
                else:
                    self._retry_later()
                return
            self._send(result.message, None)
        if not self._is_over and links.credit(self.key) > 0:
            self._stall()

    def delivery(self, delivery: Raw) -> None:
        """Apply the outcome that the client has sent for a message."""
        self._unsettled.update(delivery)

    # The end.

    def quiesce(self) -> bool:
        """Send no more messages.

        Return True if no get is running, and the client has settled all messages that it holds.
        """
        self._is_quiescing = True
        getting = self._getting
        if getting is not None and getting.cancel():
            self._getting = None
        return self._getting is None and self._unsettled.is_empty

    def end(self, *, is_closed: bool) -> None:
        """Return unsettled messages to the queue, and close the source; errors are logged.

        With ``is_closed`` a durable subscription and a temporary queue or topic of the link are
        deleted. If the link is only detached they stay.
        """
        if self._stop():
            self._return_arriving()
        self._return_set_aside()
        self._unsettled.end()
        source, connection = self._source, self._connection
        # First, because removing a subscription deletes its queue.
        close_quietly(connection, source.handle)
        if source.subscription:
            try:
                connection.call(ask.CloseSubscription(source.subscription, remove=is_closed))
            except MQError as error:
                _LOG.info("closing the subscription of link %s: %s", self._name, error)
                if is_closed and source.durable_name:
                    self._keep_subscription(error)
        self._conversations.node_closed(source.node, is_closed=is_closed)

    def _keep_subscription(self, refused: MQError) -> None:
        """Close, without removing, a durable subscription whose removal was refused.

        The client gets the error ``refused`` with the end of the link.
        """
        refusal = amqp_error(refused)
        self.link.condition = Condition(refusal.condition, refusal.description)
        try:
            self._connection.call(ask.CloseSubscription(self._source.subscription))
        except MQError as error:
            _LOG.info("closing the subscription of link %s: %s", self._name, error)

    def lost(self) -> None:
        """End with the connection, whose end backs out the unsettled messages."""
        self._stop()
        self._unsettled.lost()

    def _stop(self) -> bool:
        """Cancel the timer and the running get of a link that ends.

        Return True if the get can no longer be cancelled: its outcome has come, or is coming.
        """
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        getting, self._getting = self._getting, None
        return getting is not None and not getting.cancel()

    def _return_arriving(self) -> None:
        """Return the message of a get that could not be cancelled; wait for it if necessary.

        Another thread has taken it for this link and brings it now. Until it is back on its queue,
        the next frame could not replace the subscription: MQRC_SUBSCRIPTION_IN_USE.
        """
        if self._arrived or self._arrival.wait(_ARRIVAL_SECONDS):
            self._got()


class LinkSource(NamedTuple):
    """The open source of a link: the handle for gets, and the objects that end with the link.

    ``subscription`` is 0 for a queue. ``durable_name`` is that of a durable subscription, ``node``
    a dynamic node that the link has made.
    """

    handle: int
    address: str
    is_browse: bool = False
    subscription: int = 0
    durable_name: str = ""
    node: DynamicNode | None = None


def _opened_source(conversations: ClientConversations, link: Link, container: str) -> LinkSource:
    """Open the source of a link, and fill in the answer's source; raises AmqpError or MQError.

    A dynamic source makes a temporary queue or topic. A source without an address means a durable
    subscription, named by the link. ``container`` is the client's container id, a part of the names
    of its subscriptions.
    """
    asked, answer = link.remote_source, link.source
    connection, nodes = conversations.main, conversations.nodes
    if asked.dynamic:
        node = nodes.make(connection, asked, answer)
        if node.address.kind == TOPIC:
            found = _subscribed(connection, link, node.address, container)
        else:
            found = _queue(connection, node.address, "", nodes, is_browse=False)
        return found._replace(node=node)
    answer.copy(asked)
    if not asked.address:
        return _known_subscription(connection, link, container)
    address = addresses.read(asked.address, capabilities_of(asked))
    selector, _no_local = filters_of(asked)
    if address.kind != TOPIC:
        is_browse = asked.distribution_mode == Terminus.DIST_MODE_COPY
        try:
            return _queue(connection, address, selector, nodes, is_browse=is_browse)
        except MQError as error:
            if address.kind == QUEUE:
                raise not_found(address, error) from None
            check_is_topic(connection, address, error)
    if is_temporary_topic(address.name):
        nodes.check_reader(address.name)
    return _subscribed(connection, link, address, container)


def _queue(
    connection: Connection,
    address: NodeAddress,
    selector: str,
    nodes: OwnNodes,
    *,
    is_browse: bool,
) -> LinkSource:
    """Open a queue as a source, to get or to browse; raises AmqpError, MQError.

    ``nodes`` are the temporary queues and topics of this client. A temporary queue of another
    client is refused with amqp:resource-locked.
    """
    opened = connection.call(
        ask.Open(
            address.name,
            _OPEN_TO_BROWSE if is_browse else _OPEN_TO_GET,
            manager=address.manager,
            selector=selector or None,
        )
    )
    if not is_browse and opened.definition_type == c.MQQDT_TEMPORARY_DYNAMIC:
        try:
            nodes.check_reader(opened.queue)
        except AmqpError:
            connection.call(ask.CloseObject(opened.handle))
            raise
    return LinkSource(opened.handle, address.name, is_browse=is_browse)


def _subscribed(
    connection: Connection, link: Link, address: NodeAddress, container: str
) -> LinkSource:
    """Open a subscription to a topic as a source; raises AmqpError, MQError.

    The subscription is durable if the source never expires, and shared with capability ``shared``.
    ``container`` is the client's container id, a part of the subscription's name.
    """
    asked = link.remote_source
    capabilities = capabilities_of(asked)
    is_durable = asked.expiry_policy == Terminus.EXPIRE_NEVER
    is_shared = "shared" in capabilities
    selector, no_local = filters_of(asked)
    name = ""
    if is_durable or is_shared:
        name = _subscription_name(link.name, container, capabilities, is_durable=is_durable)
    joined = connection.call(
        ask.JoinSubscription(
            address.name,
            name=name,
            is_durable=is_durable,
            is_shared=is_shared,
            no_local=no_local,
            selector=selector,
        )
    )
    topic = f"topic://{address.name}"
    durable_name = name if is_durable else ""
    return LinkSource(joined.handle, topic, subscription=joined.number, durable_name=durable_name)


def _known_subscription(connection: Connection, link: Link, container: str) -> LinkSource:
    """Open an existing durable subscription by the name of the link, to inspect or end it.

    ``container`` is the client's container id, a part of the subscription's name. Raises
    MQRC_NO_SUBSCRIPTION, which becomes amqp:not-found, and the other codes of MQSUB.
    """
    capabilities = capabilities_of(link.remote_source)
    if link.name.partition(_DELIMITER)[2].startswith(_GLOBAL):
        # A client without an id says so in the name of the link, without a source.
        capabilities = (*capabilities, _GLOBAL)
    name = _subscription_name(link.name, container, capabilities, is_durable=True)
    found = connection.call(ask.Subscribe(c.MQSO_RESUME | c.MQSO_DURABLE, name=name))
    link.source.type = Terminus.SOURCE
    address = f"topic://{found.facts.topic}"
    link.source.address = address
    link.source.expiry_policy = Terminus.EXPIRE_NEVER
    link.source.durability = Terminus.DELIVERIES
    return LinkSource(found.handle, address, subscription=found.number, durable_name=name)


def _subscription_name(
    link_name: str, container: str, capabilities: tuple[str, ...], *, is_durable: bool
) -> str:
    """Return the full name of a subscription, such as ``AMQP:CLIENT1:news`` for link ``news|2``.

    ``container`` is the client's container id, ``CLIENT1`` here. With capability ``global`` the
    client's name is left out; ``AMQP.ND`` is for a subscription that is not durable.
    """
    name = link_name.partition(_DELIMITER)[0]
    client = "" if _GLOBAL in capabilities else quoted_client_id(container)
    return f"{'AMQP' if is_durable else 'AMQP.ND'}:{client}:{name}"


class _Pause(NamedTuple):
    """A pause before a message is tried again: its end in ms since 1970, and its length in ms."""

    until_ms: int
    length_ms: int


class Postponed:
    """Messages of one link that no queue accepts: each waits for a pause that grows.

    Moments are those of the queue manager's clock.
    """

    def __init__(
        self, source: str, soon: Callable[[Call], object], now_ms: Callable[[], int]
    ) -> None:
        """Take ``source``, the name of the messages' queue.

        ``soon`` runs a function in the event loop. ``now_ms`` returns the queue manager's time.
        """
        self._source, self._soon, self._now_ms = source, soon, now_ms
        self._pauses: dict[bytes, _Pause] = {}
        self._try_count = 0
        self._logged_ms: int | None = None
        self._is_log_due = False

    def has(self, msg_id: bytes) -> bool:
        """Return True while a message waits for its next try; False for an unknown message."""
        pause = self._pauses.get(msg_id) if self._pauses else None
        return pause is not None and pause.until_ms > self._now_ms()

    def note(self, msg_id: bytes, why: MQError) -> None:
        """Begin the next pause before a message is tried again: 1 s, then doubled, at most 60 s.

        The failures are logged together, once a minute; ``why`` is the error for the log.
        """
        pause, now_ms = self._pauses.pop(msg_id, None), self._now_ms()
        length_ms = _FIRST_PAUSE_MS if pause is None else pause.length_ms * 2
        length_ms = min(length_ms, _LONGEST_PAUSE_MS)
        if len(self._pauses) >= _MAX_MESSAGES:
            del self._pauses[next(iter(self._pauses))]
        self._pauses[msg_id] = _Pause(now_ms + length_ms, length_ms)
        self._try_count += 1
        was_logged = self._logged_ms is not None and now_ms - self._logged_ms < _LOG_INTERVAL_MS
        if not was_logged and not self._is_log_due:
            self._is_log_due = True
            # Later, so that the count includes the others of this pass.
            self._soon(lambda: self._log_failures(why))

    def forget(self, msg_id: bytes) -> None:
        """Forget that a message waits to be tried again; ignored if it does not wait."""
        self._pauses.pop(msg_id, None)

    def _log_failures(self, why: MQError) -> None:
        """Log how many messages wait to be tried again, how often they were tried, and why.

        It counts the tries since the last log.
        """
        self._is_log_due, self._logged_ms = False, self._now_ms()
        _LOG.warning(
            "%d messages of %s go nowhere, %d tries since this was told: %s; each is tried again, "
            "after pauses of up to %d s",
            len(self._pauses),
            self._source,
            self._try_count,
            why,
            _LONGEST_PAUSE_MS // SECOND_MS,
        )
        self._try_count = 0


class _Unacked(NamedTuple):
    """A message that the client holds: the number of its delivery, and its MsgId."""

    number: int
    msg_id: bytes
    #: Whether its end goes to the disk.
    is_durable: bool


class Unsettled:
    """The messages sent on one link that its client has not settled."""

    def __init__(
        self,
        host: LinkHost,
        conversations: ClientConversations,
        source: str,
        continue_sending: Callable[[], object],
        fail: Callable[[AmqpError], object],
    ) -> None:
        """Begin without messages; ``source`` is the name of the queue that they come from.

        ``continue_sending`` sends more messages after a settlement; ``fail`` ends the link with an
        error.
        """
        self._host, self._calls, self._conversations = host, host.calls, conversations
        self._continue_sending, self._fail = continue_sending, fail
        self._connection = conversations.main
        #: Messages that no queue accepts.
        self.postponed = Postponed(source, self._calls.soon, self._connection.now_ms)
        self._held: dict[Raw, _Unacked] = {}
        #: Accepted in this pass of the loop: they are settled together at its end.
        self._accepted: list[tuple[Raw | None, int]] = []
        #: Accepted and settled by the client, which waits for no answer.
        self._settled_by_client: list[int] = []
        #: Deliveries whose outcome is being applied, which then settles them.
        self._outcomes: set[Raw] = set()
        self._is_over = False
        #: Whether more messages are sent at the end of this pass.
        self._is_continuing = False
        #: MsgIds of messages that the client does not want again.
        self.unwanted: set[bytes] = set()

    def __len__(self) -> int:
        """Return how many messages the client holds without an outcome."""
        return len(self._held)

    @property
    def is_empty(self) -> bool:
        """Whether the client holds no message, and no outcome is being applied."""
        return not (self._held or self._outcomes or self._accepted or self._settled_by_client)

    def sent(self, transfer: Raw, held: Delivery) -> None:
        """Note a message that was sent and waits for its outcome.

        ``transfer`` is the AMQP delivery.
        """
        message = held.result.message
        self._held[transfer] = _Unacked(held.number, message.msg_id, message.persistent)

    def take(self, number: int) -> None:
        """Settle delivery ``number``, sent settled: it leaves its queue at the end of this pass."""
        self._accept(None, number)

    def give_back(self, numbers: list[int]) -> None:
        """Return messages to their places on the queue, with unchanged backout counts.

        ``numbers`` are delivery numbers; [] does nothing. An error is logged.
        """
        if numbers:
            self._settle(numbers, Settlement.RETURNED, then=_log_error)

    def set_aside(self, held: Delivery, reason: int) -> None:
        """Begin to move a message that no client can read to the backout or dead-letter queue.

        ``reason`` is the MQRC_* for the dead letter. If no queue accepts the message, it returns to
        its place, and is tried again after a pause.
        """
        done = partial(self._end_set_aside, held)
        self._settle([held.number], Settlement.SET_ASIDE, reason=reason, then=done)

    def _end_set_aside(self, held: Delivery, outcome: MQError | None) -> None:
        """Finish :meth:`set_aside`; after an error (``outcome``) return the message for a retry."""
        msg_id = held.result.message.msg_id
        if outcome is None:
            self.postponed.forget(msg_id)
        else:
            self.postponed.note(msg_id, outcome)
            self.give_back([held.number])

    def end(self) -> None:
        """Return all messages to their queue, because the link has ended.

        Their backout counts do not change. Messages that the client has accepted and settled leave
        the queue.
        """
        numbers = [held.number for held in self._held.values()]
        self.lost()
        self.give_back(numbers)

    def lost(self) -> None:
        """Forget all messages, because the connection has ended.

        Messages that the client has accepted and settled leave the queue. The end of the connection
        backs the others out.
        """
        self._is_over = True
        self._settle_for_clients()
        self._held.clear()

    def update(self, delivery: Raw) -> None:
        """Apply the outcome that the client has sent for a delivery.

        Ignored for a delivery that waits for no outcome, or without a new state. A transaction that
        is not open ends the link with an error.
        """
        held = self._held.get(delivery)
        if held is None:
            if links.is_settled(delivery) and delivery not in self._outcomes:
                links.settle(delivery)
            return
        if not links.is_updated(delivery):
            return
        state = links.remote_state(delivery)
        if state == Transfer.ACCEPTED:
            del self._held[delivery]
            if held.is_durable and links.is_settled(delivery):
                links.settle(delivery)
                self._note_settled_by_client(held.number)
                return
            self._outcomes.add(delivery)
            self._accept(delivery, held.number)
        elif state == transactions.TRANSACTIONAL_STATE:
            try:
                self._settle_in_transaction(delivery, held)
            except AmqpError as error:
                self._fail(error)
        elif links.is_settled(delivery) or (state and state != Transfer.RECEIVED):
            self._by_outcome(delivery, held, state)

    def _note_settled_by_client(self, number: int) -> None:
        """Note an accepted message whose client waits for no answer, to settle it with others.

        They are settled with the next sync of the store, or at once if there are 500.
        """
        if not self._settled_by_client:
            self._host.service.deferred_settlements.add(self._settle_for_clients)
        if not self._is_continuing:
            self._is_continuing = True
            self._calls.after_end(self._continue_if_open)
        self._settled_by_client.append(number)
        if len(self._settled_by_client) >= _MAX_SETTLED:
            self._settle_for_clients()

    def _continue_if_open(self) -> None:
        """Send more messages, unless the link has ended."""
        self._is_continuing = False
        if not self._is_over:
            self._continue_sending()

    def _settle_for_clients(self) -> None:
        """Settle all messages that clients have accepted and settled; does nothing without any."""
        over, self._settled_by_client = self._settled_by_client, []
        if over:
            self._settle(over, Settlement.TAKEN, then=self._continue)

    def _accept(self, delivery: Raw | None, number: int) -> None:
        """Note an accepted message, to settle it at the end of this pass of the event loop.

        ``delivery`` is None for a message that was sent settled.
        """
        if not self._accepted:
            self._calls.at_end(self._settle_accepted)
        self._accepted.append((delivery, number))

    def _settle_accepted(self) -> None:
        """Begin to settle, in one request, the messages accepted in this pass of the event loop."""
        accepted, self._accepted = self._accepted, []
        numbers = [number for _delivery, number in accepted]
        self._settle(numbers, Settlement.TAKEN, then=partial(self._end_accepted, accepted))

    def _end_accepted(
        self, accepted: list[tuple[Raw | None, int]], outcome: MQError | None
    ) -> None:
        """Tell the client that accepted messages are settled, or end the link after an error."""
        for delivery, _number in accepted:
            self._outcomes.discard(delivery)
            if delivery is not None and outcome is None and not self._is_over:
                links.answer(delivery, Transfer.ACCEPTED)
        self._continue(outcome)

    def _by_outcome(self, delivery: Raw, held: _Unacked, state: int) -> None:
        """Begin to apply an outcome other than accepted, such as rejected or released.

        ``held`` is the message of ``delivery``, and ``state`` the AMQP code of the outcome, 0 for
        none.
        """
        del self._held[delivery]
        self._outcomes.add(delivery)
        outcome = DeliveryOutcome(state)
        if state == Transfer.MODIFIED:
            remote = links.wrapped(delivery).remote
            outcome = DeliveryOutcome(
                state, remote.failed, remote.undeliverable, remote.annotations
            )
        settlement, reason = self._settlement_by(outcome, held)
        done = partial(self._end_outcome, delivery, held, settlement)
        self._settle([held.number], settlement, reason=reason, then=done)

    def _settlement_by(self, outcome: DeliveryOutcome, held: _Unacked) -> tuple[Settlement, int]:
        """Return the settlement for a client's outcome, and the MQRC_* for a dead letter (else 0).

        Rejected gives DEAD_LETTERED. Released gives RETURNED. Modified gives RETURNED, with
        delivery-failed BACKED_OUT. A delivery settled without an outcome gives BACKED_OUT.
        Annotations of *modified* are stored for later deliveries. With undeliverable-here this
        client is not sent the message again.
        """
        if outcome.is_undeliverable:
            self.unwanted.add(held.msg_id)
        if outcome.annotations:
            self._host.service.annotations.add(
                self._connection.name, held.msg_id, outcome.annotations
            )
        if outcome.state == Transfer.REJECTED:
            return Settlement.DEAD_LETTERED, REJECTED_REASON
        if outcome.state == Transfer.RELEASED:
            return Settlement.RETURNED, 0
        if outcome.state == Transfer.MODIFIED and not outcome.has_failed:
            return Settlement.RETURNED, 0
        return Settlement.BACKED_OUT, 0

    def _end_outcome(
        self, delivery: Raw, held: _Unacked, settlement: Settlement, outcome: MQError | None
    ) -> None:
        """Answer the client that its outcome is applied, or end the link after an error.

        ``outcome`` is None or the error of the settlement. A message that no queue takes as dead
        letter is backed out, and is sent again after a pause.
        """
        self._outcomes.discard(delivery)
        if outcome is not None and settlement is Settlement.DEAD_LETTERED:
            # No queue accepts the dead letter: the message is backed out.
            self.postponed.note(held.msg_id, outcome)
            self._settle([held.number], Settlement.BACKED_OUT, then=_log_error)
            outcome = None
        if outcome is None and not self._is_over:
            links.answer(delivery, links.remote_state(delivery))
        self._continue(outcome)

    def _settle_in_transaction(self, delivery: Raw, held: _Unacked) -> None:
        """Note an outcome that takes effect when its transaction is committed, and answer it.

        An accepted message leaves its queue within the transaction. Raises AmqpError if this fails,
        if the transaction is not open, or if the state is malformed.
        """
        wrapped = links.wrapped(delivery)
        name, outcome = transactions.name_in(wrapped), transactions.outcome_in(wrapped)
        connection = self._conversations.of_transaction(name)
        del self._held[delivery]
        if outcome.state == Transfer.ACCEPTED:
            try:
                self._connection.call(
                    ask.Settle([held.number], Settlement.TAKEN, within=connection.number)
                )
            except MQError as error:
                raise amqp_error(error) from error
        else:
            # It takes effect when the transaction is discharged.
            settlement, reason = self._settlement_by(outcome, held)
            refused = partial(self.postponed.note, held.msg_id)
            calls = self._calls
            self._conversations.settle_at_end(
                name,
                SettlementAtEnd(
                    held.number,
                    settlement,
                    reason,
                    lambda error: calls.soon(partial(refused, error)),
                ),
            )
        if not wrapped.settled:
            transactions.accept(wrapped, name)
        wrapped.settle()
        self._continue_sending()

    def _continue(self, outcome: MQError | None) -> None:
        """Send more messages, or end the link after an error; does nothing if it has ended."""
        if self._is_over:
            return
        if outcome is None:
            self._continue_sending()
        else:
            self._fail(amqp_error(outcome))

    def _settle(
        self,
        numbers: list[int],
        settlement: Settlement,
        *,
        reason: int = 0,
        then: OnEnd,
    ) -> None:
        """Begin to settle messages by delivery number; ``reason`` is the MQRC_* of a dead letter.

        ``then`` is called in the event loop with None or an error, unless the connection has ended.
        """
        calls = self._calls
        self._conversations.begin(
            self._connection,
            ask.Settle(list(numbers), settlement, reason=reason),
            lambda outcome: calls.soon(partial(then, outcome)),
        )


def _log_error(outcome: MQError | None) -> None:
    """Log the error of a settlement; does nothing for None."""
    if outcome is not None:
        _LOG.warning("settling a message: %s", outcome)
