"""The transport of kombu, the messaging library under Celery (docs/TASKS.md).

An import makes the URLs known: ``mq://host:1414/QM1?channel=APP`` and ``mqs://``, as of
``mayfly.connect``, and ``mayfly://QM1`` for a queue manager by its name.

==================  ============================================================================
kombu               queue manager
==================  ============================================================================
queue               a queue under the name of ``task_ids.mq_name_of``, defined where it is missing
exclusive queue     a temporary dynamic queue, which ends with the connection that declared it
exchange, binding   topic strings below ``kombu/``, and subscriptions whose queue is the bound one
unacked message     a delivery that the queue manager holds
headers eta         the delivery delay
headers expires     the time to live
header id           the MsgId; correlation_id the CorrelId
priority 0 to 9     priority, 9 comes first
delivery_mode 2     persistent
==================  ============================================================================
"""

from __future__ import annotations

import base64
import logging
import socket
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias
from urllib.parse import quote, unquote

from amqp.protocol import queue_declare_ok_t
from kombu.exceptions import ChannelError
from kombu.message import Message as KombuMessage
from kombu.transport import TRANSPORT_ALIASES, base
from kombu.utils.json import dumps, loads

import mayfly
from mayfly.client.arguments import subscribed
from mayfly.client.client import connected
from mayfly.client.connection import Administration, Connection, Schedule, Settlement
from mayfly.client.connection.interface import UnderWay
from mayfly.client.connection.routes import ConnectOptions
from mayfly.integrations.queues import define_queue, mq_name_of, ms_from_now, msg_id_of
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import ConnectionBroken, MQError, mq_error
from mayfly.verbs import requests as ask
from mayfly.verbs.checks import MAX_BYTES
from mayfly.verbs.messages import Delivery
from mayfly.verbs.messages import Message as MQMessage
from mayfly.verbs.schedule import Receipt, ScheduleFilter

_LOG: Final = logging.getLogger("mayfly.kombu")
_MODEL_QUEUE: Final = "SYSTEM.DEFAULT.MODEL.QUEUE"
_TOPIC_ROOT: Final = "kombu"
_GET_OPTIONS: Final = c.MQGMO_PROPERTIES_FORCE_MQRFH2
#: The most messages that one call takes where prefetch has no limit.
_MOST_AT_ONCE: Final = 100
_MAX_PRIORITY: Final = 9
_NOT_FOUND: Final = 404
_TRANSIENT: Final = 1
_LONG_AGO: Final = datetime.fromtimestamp(0, UTC).isoformat()
#: The prefetch count of channels that set none.
_NO_LIMIT: Final = 0
_AUTHORITY_SEPARATOR: Final = "@"

_Wire: TypeAlias = dict[str, Any]
_OnMessage: TypeAlias = Callable[[KombuMessage], object]


# URLs


class _Place(NamedTuple):
    """Where a broker URL leads: a name or URL for ``mayfly.connect``, and who connects."""

    target: str
    user: str | None
    password: str | None


def _place_of(url: str) -> _Place:
    """Return the place of a broker URL; raises ValueError for a text that is none."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise ValueError(f"broker {url!r} is no URL: several hosts stand in one, mq://a,b:1414/QM1")
    # A user may come first; hosts may be several, which urlsplit refuses.
    authority, slash, path = rest.partition("/")
    account, at, hosts = authority.rpartition(_AUTHORITY_SEPARATOR)
    user, colon, password = account.partition(":")
    rest = f"{hosts}{slash}{path}"
    target = rest.strip("/") if scheme == "mayfly" else f"{scheme}://{rest}"
    return _Place(
        target, unquote(user) if at and user else None, unquote(password) if colon else None
    )


# Topics


def _level(word: str) -> str:
    """Return a word of a routing key as a level of a topic string, without wildcards."""
    return quote(word, safe="@:,= ")


def _topic_of(exchange: str, routing_key: str) -> str:
    """Return the topic string of an exchange and a routing key, whose words become levels."""
    words = routing_key.split(".") if routing_key else []
    return "/".join([_TOPIC_ROOT, *map(_level, [exchange, *words])])


def _pattern_of(exchange: str, exchange_type: str, routing_key: str) -> str:
    """Return the topic string to which a binding subscribes, with the wildcards of its exchange."""
    if exchange_type == "fanout":
        return f"{_topic_of(exchange, '')}/#"
    if exchange_type != "topic" or not routing_key:
        return _topic_of(exchange, routing_key)
    wildcards = {"*": "+", "#": "#"}
    words = [wildcards.get(word) or _level(word) for word in routing_key.split(".")]
    return "/".join([_topic_of(exchange, ""), *words])


def _subscription_name(queue: str, exchange: str, routing_key: str) -> str:
    """Return the name of the durable subscription that is a binding."""
    return "/".join([_TOPIC_ROOT, *map(_level, [queue, exchange, routing_key])])


# Messages


class _Put(NamedTuple):
    """A message of kombu as the arguments of a put."""

    body: bytes
    descriptor: Descriptor
    msg_id: bytes
    correl_id: bytes
    delay_ms: int
    time_to_live_ms: int | None


def _put_of(message: _Wire, queue: str) -> _Put:
    """Return the put of a message of kombu to a queue, whose name is empty for a publication.

    Raises ValueError for a wrong eta or expires.
    """
    headers, properties = dict(message["headers"]), dict(message["properties"])
    delay_ms, life_ms = 0, None
    if headers.get("eta"):
        # The queue manager waits: a worker would wait again, with the task in its memory.
        delay_ms = max(ms_from_now(headers["eta"], "eta"), 0)
        headers["eta"] = None
    if properties.get("expiration") is not None:
        life_ms = int(properties["expiration"])
    if headers.get("expires"):
        expires_ms = ms_from_now(headers["expires"], "expires")
        life_ms = expires_ms if life_ms is None else min(life_ms, expires_ms)
    if life_ms is not None and life_ms <= delay_ms:
        # It will be too late, which a put refuses: the worker that gets the task revokes it.
        life_ms = None
        if headers.get("expires"):
            headers["expires"] = _LONG_AGO
    reports = life_ms is not None and bool(
        queue and headers.get("task") and not headers.get("ignore_result")
    )
    descriptor = Descriptor(
        priority=min(max(int(properties.get("priority") or 0), 0), _MAX_PRIORITY),
        persistence=c.MQPER_NOT_PERSISTENT
        if properties.get("delivery_mode") == _TRANSIENT
        else c.MQPER_PERSISTENT,
        # Back to the queue of the task, whose workers know where its result belongs.
        report=c.MQRO_EXPIRATION_WITH_FULL_DATA if reports else c.MQRO_NONE,
        reply_to_q=mq_name_of(queue) if reports else "",
    )
    correlation_id = properties.get("correlation_id")
    return _Put(
        dumps({**message, "headers": headers, "properties": properties}).encode(),
        descriptor,
        msg_id_of(str(headers["id"])) if headers.get("id") else b"",
        msg_id_of(str(correlation_id)) if correlation_id else b"",
        delay_ms,
        life_ms,
    )


class _Unusable(Exception):
    """No consumer gets the message; ``reason`` is that of its dead letter."""

    def __init__(self, text: str, reason: int) -> None:
        """Take what is wrong, and the reason code."""
        super().__init__(text)
        self.reason = reason


def _wire_of(message: MQMessage, backout_threshold: int) -> _Wire:
    """Return the message of kombu in a message of a queue.

    Raises _Unusable if there is none, and for one that was backed out as often as BOTHRESH of its
    queue says; 0 is no threshold.
    """
    if 0 < backout_threshold <= message.backout_count:
        text = f"it was backed out {message.backout_count} times"
        raise _Unusable(text, rc.MQRC_BACKOUT_THRESHOLD_REACHED)
    try:
        wire: _Wire = loads(message.data)
        if message.descriptor.msg_type == c.MQMT_REPORT:
            # The task has expired on its queue: the worker says so by its result, REVOKED.
            wire["headers"]["expires"] = _LONG_AGO
        if wire.pop("body_encoding", None) == "base64":
            wire["body"] = base64.b64decode(wire["body"])
        wire["properties"]["delivery_info"]["redelivered"] = message.backout_count > 0
    except (ValueError, TypeError, KeyError, AttributeError, MQError) as error:
        raise _Unusable(f"it is no message of kombu: {error!r}", rc.MQRC_FORMAT_ERROR) from None
    return wire


# Channels


class _QueueConsumer:
    """A consumer: an open queue, and what is called with its messages."""

    def __init__(
        self, channel: KombuChannel, handle: int, backout_threshold: int, *, no_ack: bool
    ) -> None:
        """Take the channel, the handle of its queue and BOTHRESH; 0 is no threshold."""
        self.channel, self.handle, self.no_ack = channel, handle, no_ack
        self.backout_threshold = backout_threshold
        self.on_message: _OnMessage | None = None


class KombuChannel(base.StdChannel):
    """A channel of kombu: consumers that share a prefetch count, and what they have not settled.

    Its methods are those of AMQP 0-9-1 as kombu calls them. Errors are MQError, and ChannelError
    with code 404 for a queue that is not there.
    """

    Message = KombuMessage

    def __init__(self, connection: KombuConnection, channel_id: int) -> None:
        """Open a channel of a connection; the queue manager does not hear of it."""
        self.connection: KombuConnection | None = connection
        self.channel_id = channel_id
        self._prefetch_count = _NO_LIMIT
        self._consumers: dict[str, _QueueConsumer] = {}
        #: The deliveries that are not settled, in the order in which they came.
        self._unacked: dict[int, None] = {}

    @property
    def _open(self) -> KombuConnection:
        """The connection; raises MQRC_HCONN_ERROR when the channel is closed."""
        if self.connection is None:
            raise mq_error(rc.MQRC_HCONN_ERROR, f"channel {self.channel_id} is closed")
        return self.connection

    # Queues

    def queue_declare(
        self,
        queue: str = "",
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        **_rest: object,
    ) -> queue_declare_ok_t:
        """Make sure that a queue is there; return its name and its numbers of messages, consumers.

        One that is missing is defined, as a temporary dynamic queue if it is exclusive or
        auto-delete. Delayed messages do not count. Raises ChannelError 404 for a missing queue with
        ``passive``, and where the user may not define it.
        """
        with self._open.lock:
            return self._open.declare(
                queue,
                may_make=not passive,
                is_durable=durable,
                is_temporary=exclusive or auto_delete,
            )

    def queue_bind(
        self, queue: str, exchange: str = "", routing_key: str = "", **_rest: object
    ) -> None:
        """Bind a queue to an exchange; a binding that is there stays."""
        if exchange:
            with self._open.lock:
                self._open.bind(queue, exchange, routing_key or "")

    def queue_unbind(
        self, queue: str, exchange: str = "", routing_key: str = "", **_rest: object
    ) -> None:
        """Remove a binding; nothing happens if it is not there."""
        with self._open.lock:
            self._open.unbind(queue, exchange, routing_key or "")

    def queue_purge(self, queue: str, **_rest: object) -> int:
        """Remove the messages of a queue and those delayed for it; return how many they were."""
        with self._open.lock:
            return self._open.purge(queue)

    def queue_delete(
        self, queue: str, if_unused: bool = False, if_empty: bool = False, **_rest: object
    ) -> None:
        """Delete a queue with its messages; nothing happens if it is not there.

        ``if_unused`` and ``if_empty`` keep one that has consumers, or messages. Raises ChannelError
        if it cannot be deleted.
        """
        with self._open.lock:
            self._open.delete(queue, if_unused=if_unused, if_empty=if_empty)

    # Exchanges

    def exchange_declare(
        self,
        exchange: str = "",
        type: str = "direct",  # noqa: A002 - kombu's name
        **_rest: object,
    ) -> None:
        """Note the type of an exchange, which decides what its bindings mean.

        Raises ValueError for an unknown type.
        """
        if type not in KombuTransport.implements["exchange_type"]:
            raise ValueError(f"exchange {exchange!r}: type {type!r} is not known")
        self._open.exchange_types[exchange] = type

    def exchange_delete(self, exchange: str, **_rest: object) -> None:
        """Forget the type of an exchange; its bindings are those of queues."""
        self._open.exchange_types.pop(exchange, None)

    # Messages that go

    def prepare_message(
        self,
        body: str | bytes,
        priority: int | None = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        headers: Mapping[str, object] | None = None,
        properties: Mapping[str, object] | None = None,
    ) -> _Wire:
        """Return a message for :meth:`basic_publish`; ``body`` is serialized already."""
        more: _Wire = {"delivery_info": {}, **(properties or {})}
        if priority is not None:
            more["priority"] = priority
        made: _Wire = {
            "body": body,
            "content-type": content_type,
            "content-encoding": content_encoding,
            "headers": dict(headers or {}),
            "properties": more,
        }
        if isinstance(body, bytes):
            made |= {"body": base64.b64encode(body).decode(), "body_encoding": "base64"}
        return made

    def basic_publish(
        self, message: _Wire, exchange: str = "", routing_key: str = "", **_rest: object
    ) -> None:
        """Put a message; a persistent one is durable when this returns.

        Without an exchange the routing key names the queue. A reply to a queue that is gone is
        dropped, as in AMQP. Raises ChannelError 404 for a task whose queue is not there, ValueError
        for a wrong eta or expires, and the reason codes of MQPUT.
        """
        info = {**message["properties"].get("delivery_info", {})}
        info |= {"exchange": exchange, "routing_key": routing_key}
        message["properties"]["delivery_info"] = info
        prepared = _put_of(message, "" if exchange else routing_key)
        with self._open.lock:
            if exchange:
                self._open.publish(prepared, _topic_of(exchange, routing_key))
            else:
                is_task = bool(message["headers"].get("task"))
                self._open.put(prepared, routing_key, must_arrive=is_task)

    # Messages that come

    def basic_consume(
        self,
        queue: str,
        no_ack: bool = False,
        callback: _OnMessage | None = None,
        consumer_tag: str = "",
        **_rest: object,
    ) -> str:
        """Consume a queue, and return the consumer tag.

        ``drain_events`` calls ``callback`` with each message. With ``no_ack`` a message is settled
        when it is delivered. Raises ChannelError 404 for an unknown queue.
        """
        with self._open.lock:
            consumer = self._open.open_consumer(self, queue, no_ack=no_ack)
            consumer.on_message = callback
            tag = consumer_tag or f"mayfly{consumer.handle}"
            self._consumers[tag] = consumer
            self._open.refill()
        return tag

    def basic_cancel(self, consumer_tag: str, **_rest: object) -> None:
        """End a consumer; its messages that are not settled stay so."""
        consumer = self._consumers.pop(consumer_tag, None)
        if consumer is not None and self.connection is not None:
            with self._open.lock:
                self._open.close_consumer(consumer)

    def basic_get(self, queue: str, no_ack: bool = False, **_rest: object) -> KombuMessage | None:
        """Get one message that is there; None when there is none.

        With ``no_ack`` the message is settled already. Raises ChannelError 404 for an unknown
        queue.
        """
        with self._open.lock:
            consumer = self._open.open_consumer(self, queue, no_ack=no_ack)
            try:
                deliveries = self._open.take(consumer, 1)
                return self.received(deliveries[0], consumer) if deliveries else None
            finally:
                self._open.close_consumer(consumer)

    def received(self, delivery: Delivery, consumer: _QueueConsumer) -> KombuMessage | None:
        """Return the message of kombu in a delivery, which is unacknowledged from now on.

        None for one that is on the dead-letter queue now: it is no message of kombu, or was backed
        out BOTHRESH times. Without such a queue it stays held.
        """
        message, connection = delivery.result.message, self._open
        try:
            wire = _wire_of(message, consumer.backout_threshold)
        except _Unusable as error:
            _LOG.error(
                "%s: message %s is set aside: %s", message.queue, message.msg_id.hex(), error
            )
            try:
                connection.set_aside(delivery.number, error.reason)
            except ConnectionBroken:
                raise
            except MQError as refused:
                # It stays held, and comes back to its queue when the connection ends.
                _LOG.error("no dead-letter queue takes it: %s", refused)
            return None
        if consumer.no_ack:
            connection.settle([delivery.number], Settlement.TAKEN)
        else:
            self._unacked[delivery.number] = None
        properties = wire["properties"]
        return KombuMessage(
            body=wire["body"],
            delivery_tag=delivery.number,
            content_type=wire.get("content-type"),
            content_encoding=wire.get("content-encoding"),
            delivery_info=properties["delivery_info"],
            properties=properties,
            headers=wire["headers"],
            channel=self,
        )

    def message_to_python(self, message: KombuMessage) -> KombuMessage:
        """Return a message as it is: it was made by this channel."""
        return message

    # Settlement

    def basic_ack(self, delivery_tag: int, multiple: bool = False) -> None:
        """Acknowledge a message, with ``multiple`` all up to it; unknown ones are ignored."""
        self._settle(delivery_tag, Settlement.TAKEN, multiple=multiple)

    def basic_reject(self, delivery_tag: int, requeue: bool = False) -> None:
        """Reject a message: to the dead-letter queue, or back out with ``requeue``.

        BODELAY of its queue delays its redelivery. Without a dead-letter queue it is dropped, as in
        AMQP without a dead-letter exchange.
        """
        if requeue:
            self._settle(delivery_tag, Settlement.BACKED_OUT)
        elif self._unacked.pop(delivery_tag, delivery_tag) is None:
            with self._open.lock:
                self._open.reject(delivery_tag)
                self._open.refill()

    def basic_recover(self, requeue: bool = False) -> None:
        """Back out all messages that are not settled.

        Raises NotImplementedError unless ``requeue`` is True: messages go back to their queue.
        """
        if not requeue:
            raise NotImplementedError("recover(requeue=False): messages go back to their queue")
        self._settle(None, Settlement.BACKED_OUT)

    def basic_qos(
        self, prefetch_size: int = 0, prefetch_count: int = 0, apply_global: bool = False
    ) -> None:
        """Limit the messages that are held unacknowledged to ``prefetch_count``; 0 is no limit.

        ``prefetch_size`` and ``apply_global`` have no effect: bytes are not limited, and each
        channel has a limit of its own.
        """
        self._prefetch_count = prefetch_count
        with self._open.lock:
            self._open.refill()

    @property
    def room(self) -> int:
        """How many more messages the prefetch count allows, up to 100."""
        if self._prefetch_count == _NO_LIMIT:
            return _MOST_AT_ONCE
        return min(self._prefetch_count - len(self._unacked), _MOST_AT_ONCE)

    @property
    def consumers(self) -> list[_QueueConsumer]:
        """The consumers of the channel."""
        return list(self._consumers.values())

    def close(self) -> None:
        """End the consumers and back unsettled messages out; their BackoutCount stays.

        Does nothing on a channel that is closed already.
        """
        connection, self.connection = self.connection, None
        if connection is None:
            return
        with suppress(MQError), connection.lock:
            connection.channels.discard(self)
            consumers, self._consumers = self.consumers, {}
            unacked, self._unacked = list(self._unacked), {}
            for consumer in consumers:
                connection.close_consumer(consumer)
            if unacked:
                connection.settle(unacked, Settlement.RETURNED)

    def _settle(self, tag: int | None, settlement: Settlement, *, multiple: bool = False) -> None:
        """Settle one delivery; with ``multiple`` those up to it, with ``tag`` None all."""
        with self._open.lock:
            if multiple or tag is None:
                numbers = [each for each in self._unacked if tag is None or each <= tag]
            else:
                numbers = [tag] if tag in self._unacked else []
            for number in numbers:
                del self._unacked[number]
            if numbers:
                self._open.settle(numbers, settlement)
                self._open.refill()


# Connections


class _WaitingGet:
    """A get on the queues of several consumers."""

    def __init__(self, handles: list[int]) -> None:
        """Take the handles of the queues; the get has not begun."""
        self.handles = handles
        self.under_way: UnderWay | None = None
        #: Its outcome, which the thread of callbacks sets.
        self.outcome: Delivery | MQError | None = None


class KombuConnection:
    """A connection of kombu, whose channels share one conversation and one get for all queues.

    The get ends with a callback, which makes :attr:`reader` readable; nothing polls. Threads may
    acknowledge while another drains: :attr:`lock` guards the conversation.
    """

    def __init__(self, mq: Connection, client: object) -> None:
        """Use an open conversation; ``client`` is the ``kombu.Connection``."""
        self._mq, self.client = mq, client
        self.lock = mq.runtime.reentrant_lock("kombu")
        self.channels: set[KombuChannel] = set()
        self.exchange_types: dict[str, str] = {}
        self._channel_ids = count(1)
        #: Temporary queues, which live as long as the handle under which they were made.
        self._temporary: dict[str, int] = {}
        #: Bindings of temporary queues by queue, exchange and routing key: subscriptions.
        self._bound: dict[tuple[str, str, str], int] = {}
        #: Durable bindings that this connection has made sure of.
        self._known_bindings: set[tuple[str, str, str]] = set()
        self._get: _WaitingGet | None = None
        #: The queue of the last message.
        self._served_handle = 0
        #: Deliveries that were taken together with the outcome of the get.
        self._batch: deque[Delivery] = deque()
        self._has_told_loss = False
        #: The error of a settlement, for which nobody waits.
        self._settle_error: MQError | None = None
        #: Reader and writer, from the first get on.
        self._wakers: tuple[socket.socket, socket.socket] | None = None

    @property
    def connected(self) -> bool:
        """True until the connection is closed, or broken.

        With consumers it is true until a drain has told that it is broken: kombu replaces one that
        is not connected, without its consumers, so their program must hear of it first.
        """
        if not self._mq.is_open or self._has_told_loss:
            return False
        return not self._mq.is_broken or any(channel.consumers for channel in tuple(self.channels))

    @property
    def reader(self) -> socket.socket:
        """A socket that is readable when a message, or the end of the connection, is at hand."""
        return self._made_wakers()[0]

    def _made_wakers(self) -> tuple[socket.socket, socket.socket]:
        """Return reader and writer, made at the first need: programs that put have none."""
        if self._wakers is None:
            self._wakers = socket.socketpair()
            for waker in self._wakers:
                waker.setblocking(False)
        return self._wakers

    @property
    def schedule(self) -> Schedule:
        """The delayed messages of the queue manager."""
        return Schedule(self._mq.call)

    def channel(self) -> KombuChannel:
        """Return a new channel."""
        made = KombuChannel(self, next(self._channel_ids))
        with self.lock:
            self.channels.add(made)
        return made

    def close(self) -> None:
        """End the conversation; unsettled messages are backed out, and their BackoutCount stays."""
        for channel in list(self.channels):
            channel.close()
        with suppress(MQError), self.lock:
            outcome = None if self._get is None else self._get.outcome
            here = [*self._batch, *([outcome] if isinstance(outcome, Delivery) else [])]
            self._get, self._batch = None, deque()
            if here:
                numbers = [delivery.number for delivery in here]
                self._mq.call(ask.Settle(numbers, Settlement.RETURNED))
        self.drop()

    def drop(self) -> None:
        """End the conversation as it is; in a forked child only the copy of it ends."""
        with suppress(MQError):
            self._mq.close(commit=False)
        for waker in self._wakers or ():
            waker.close()

    # Queues

    def declare(
        self, queue: str, *, may_make: bool, is_durable: bool, is_temporary: bool
    ) -> queue_declare_ok_t:
        """Open a queue, or define it, and return its name and its counts of messages and consumers.

        A queue without a name is a new temporary queue. Raises ChannelError for an unknown queue
        unless ``may_make``, and for one that cannot be opened or defined.
        """
        name = mq_name_of(queue) if queue else "KOMBU.*"
        options = c.MQOO_OUTPUT | c.MQOO_INQUIRE
        try:
            if not queue:
                raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, "a queue without a name is new")
            opened = self._mq.call(ask.Open(name, options))
        except MQError as error:
            if error.reason != rc.MQRC_UNKNOWN_OBJECT_NAME or not may_make:
                raise _as_channel_error(error, queue) from error
            if is_temporary or not queue:
                opened = self._mq.call(ask.Open(_MODEL_QUEUE, options, dynamic_name=name))
                queue = queue or opened.made
                self._temporary[queue] = opened.handle
            else:
                try:
                    define_queue(self._mq, name, is_durable=is_durable)
                except MQError as missing:
                    raise _as_channel_error(missing, queue) from missing
                opened = self._mq.call(ask.Open(name, options))
        selectors = [c.MQIA_CURRENT_Q_DEPTH, c.MQIA_OPEN_INPUT_COUNT]
        messages, consumers = self._mq.call(ask.Inquire(opened.handle, selectors)).values
        if self._temporary.get(queue) != opened.handle:
            self._mq.call(ask.CloseObject(opened.handle))
        return queue_declare_ok_t(queue, messages or 0, consumers or 0)

    def delete(self, queue: str, *, if_unused: bool, if_empty: bool) -> None:
        """Delete a queue with its messages and bindings; does nothing for an unknown one.

        ``if_unused`` keeps a queue with consumers, ``if_empty`` one with messages. Raises
        ChannelError if the queue manager refuses.
        """
        try:
            found = self.declare(queue, may_make=False, is_durable=False, is_temporary=False)
        except ChannelError:
            return
        if (if_unused and found.consumer_count) or (if_empty and found.message_count):
            return
        for key in [key for key in self._bound if key[0] == queue]:
            self.unbind(*key)
        handle = self._temporary.pop(queue, None)
        if handle is not None:
            self._mq.call(ask.CloseObject(handle, c.MQCO_DELETE_PURGE))
            return
        for key in [key for key in self._known_bindings if key[0] == queue]:
            self.unbind(*key)
        done = Administration(self._mq.call).mqsc(f"DELETE QLOCAL('{mq_name_of(queue)}') PURGE")
        if not done.ok:
            raise ChannelError(f"queue {queue!r} cannot be deleted: {done.text}")

    def purge(self, queue: str) -> int:
        """Remove the messages of a queue, and those delayed for it; see ``queue_purge``."""
        name = mq_name_of(queue)
        cancelled = 0
        for cancelled in self.schedule.cancel_all(ScheduleFilter(name)):  # noqa: B007 - the last one
            pass
        handle = self._mq.call(ask.Open(name, c.MQOO_INPUT_SHARED)).handle
        try:
            found_count = 0
            while found := self._mq.call(
                ask.GetMany(handle, _GET_OPTIONS | c.MQGMO_NO_SYNCPOINT, _MOST_AT_ONCE, MAX_BYTES)
            ):
                found_count += len(found)
        finally:
            self._mq.call(ask.CloseObject(handle))
        return cancelled + found_count

    # Bindings

    def bind(self, queue: str, exchange: str, routing_key: str) -> None:
        """Subscribe a queue to the topic of an exchange; a subscription that is there stays."""
        key = queue, exchange, routing_key
        if key in self._bound or key in self._known_bindings:
            return
        kind = self.exchange_types.get(exchange, "direct")
        topic, name = _pattern_of(exchange, kind, routing_key), mq_name_of(queue)
        is_durable = queue not in self._temporary
        try:
            made = subscribed(
                self._mq,
                topic,
                queue=name,
                correl_id=None,
                name=_subscription_name(*key) if is_durable else "",
                durable=is_durable,
            )
        except MQError as error:
            if error.reason not in (rc.MQRC_SUB_ALREADY_EXISTS, rc.MQRC_SUBSCRIPTION_IN_USE):
                raise
            self._known_bindings.add(key)
            return
        # The handle would count as a consumer.
        self._mq.call(ask.CloseObject(made.handle))
        if is_durable:
            self._mq.call(ask.CloseSubscription(made.number))
            self._known_bindings.add(key)
        else:
            self._bound[key] = made.number

    def unbind(self, queue: str, exchange: str, routing_key: str) -> None:
        """Remove the subscription of a binding; nothing happens if it is not there."""
        key = queue, exchange, routing_key
        number = self._bound.pop(key, None)
        self._known_bindings.discard(key)
        if number is not None:
            self._mq.call(ask.CloseSubscription(number, remove=True))
            return
        try:
            self._mq.call(ask.RemoveSubscription(_subscription_name(*key)))
        except MQError as error:
            if error.reason != rc.MQRC_NO_SUBSCRIPTION:
                raise

    # Puts

    def put(self, message: _Put, queue: str, *, must_arrive: bool) -> None:
        """Put a message to a queue.

        An unknown queue raises ChannelError with ``must_arrive``; without it the message is
        dropped.
        """
        try:
            self._put1(message, name=mq_name_of(queue))
        except MQError as error:
            if error.reason != rc.MQRC_UNKNOWN_OBJECT_NAME:
                raise
            if must_arrive:
                raise _as_channel_error(error, queue) from error
            _LOG.debug("a reply is dropped: its queue %r is gone", queue)

    def publish(self, message: _Put, topic: str) -> None:
        """Publish a message to the queues that are bound to a topic, which may be none."""
        self._put1(message, kind=c.MQOT_TOPIC, topic=topic)

    def _put1(
        self, message: _Put, *, name: str = "", kind: int = c.MQOT_Q, topic: str = ""
    ) -> None:
        """Put one message; on a temporary queue it is not persistent."""
        try:
            self._mq.call(
                ask.Put1.of(
                    name,
                    message.body,
                    message.descriptor,
                    c.MQPMO_NO_SYNCPOINT,
                    kind=kind,
                    topic=topic,
                    msg_id=message.msg_id if kind == c.MQOT_Q else b"",
                    correl_id=message.correl_id,
                    delay_ms=message.delay_ms,
                    time_to_live_ms=message.time_to_live_ms,
                )
            )
        except MQError as error:
            if error.reason != rc.MQRC_PERSISTENT_NOT_ALLOWED:
                raise
            plain = message.descriptor._replace(persistence=c.MQPER_NOT_PERSISTENT)
            self._put1(message._replace(descriptor=plain), name=name, kind=kind, topic=topic)

    # Gets

    def open_consumer(self, channel: KombuChannel, queue: str, *, no_ack: bool) -> _QueueConsumer:
        """Open a queue for gets and return its consumer; ChannelError 404 if it is not there.

        With ``no_ack`` its messages are settled when they are delivered.
        """
        try:
            handle = self._mq.call(ask.Open(mq_name_of(queue), c.MQOO_INPUT_SHARED)).handle
        except MQError as error:
            raise _as_channel_error(error, queue) from error
        threshold = self._mq.call(ask.AskBackoutRule(handle)).threshold
        return _QueueConsumer(channel, handle, threshold, no_ack=no_ack)

    def close_consumer(self, consumer: _QueueConsumer) -> None:
        """Close the queue of a consumer; a get that includes it begins again without it."""
        if self._get is not None and consumer.handle in self._get.handles:
            self._stop_get(self._get)
        self._mq.call(ask.CloseObject(consumer.handle))
        self.refill()

    def take(self, consumer: _QueueConsumer, most: int) -> list[Delivery]:
        """Take up to ``most`` messages that are there, held until they are settled."""
        return self._mq.call(ask.TakeHeld(consumer.handle, _GET_OPTIONS, most, MAX_BYTES))

    def refill(self) -> None:
        """Let a get wait on the queues of all consumers whose channel has room for a message.

        Messages that have arrived are drained before: they take room. The caller has the lock.
        """
        running = self._get
        if self._batch or (running is not None and running.outcome is not None):
            return
        wanted = [
            consumer.handle
            for channel in self.channels
            if channel.room > 0
            for consumer in channel.consumers
        ]
        if running is not None and (
            set(wanted) == set(running.handles) or not self._stop_get(running)
        ):
            return
        if not wanted:
            return
        # A get prefers the first of its queues: the one that was served last goes last.
        wanted.sort(key=lambda handle: handle == self._served_handle)
        # There before the outcome, which wakes by them.
        self._made_wakers()
        begun = self._get = _WaitingGet(wanted)
        request = ask.GetAny(wanted, _GET_OPTIONS | c.MQGMO_WAIT, tells_refusals=True)
        begun.under_way = self._mq.begin(request, partial(self._arrive, begun), _log_refusal)

    def settle(self, numbers: list[int], settlement: Settlement) -> None:
        """Settle deliveries; an error of it ends the connection at the next drain."""
        self._mq.begin(ask.Settle(numbers, settlement), self._note_settled)

    def reject(self, number: int) -> None:
        """Move a delivery to the dead-letter queue; where none takes it, drop it with a warning."""
        try:
            self.set_aside(number, rc.MQRC_BACKOUT_THRESHOLD_REACHED)
        except ConnectionBroken:
            raise
        except MQError as error:
            _LOG.warning("a rejected message is dropped, no dead-letter queue takes it: %s", error)
            self.settle([number], Settlement.TAKEN)

    def set_aside(self, number: int, reason: int) -> None:
        """Move a delivery to the dead-letter queue; raises the reason for which that fails."""
        self._mq.call(ask.Settle([number], Settlement.DEAD_LETTERED, reason))

    @property
    def has_more(self) -> bool:
        """True while messages are at hand that came with the last one."""
        return bool(self._batch)

    def wait_for_call(self, timeout_seconds: float | None) -> Callable[[], object]:
        """Wait for one message, and return the call of its consumer.

        Raises TimeoutError when none comes in time; None is no limit. Raises MQRC_CONNECTION_BROKEN
        when messages cannot be got any more.
        """
        while (call := self._next_call()) is None:
            if self._mq.is_broken or not self._mq.is_open:
                raise self._lost("it is closed, or its queue manager is gone")
            self.reader.settimeout(timeout_seconds)
            try:
                self.reader.recv(_MOST_AT_ONCE)
            except (TimeoutError, BlockingIOError):
                raise TimeoutError("timed out") from None
        if self._batch:
            # A poller would sleep with these at hand.
            self._wake()
        return call

    def _next_call(self) -> Callable[[], object] | None:
        """Return the call of a consumer with its next message; None when there is none yet."""
        with self.lock:
            while (delivery := self._next_delivery()) is not None:
                call = self._call_of(delivery)
                self.refill()
                if call is not None:
                    return call
            self.refill()
            return None

    def _next_delivery(self) -> Delivery | None:
        """Return the next message that has come, with others of its queue; None if none has.

        Raises MQRC_CONNECTION_BROKEN for the error of a get or a settlement.
        """
        if self._batch:
            return self._batch.popleft()
        outcome = None if self._get is None else self._get.outcome
        if outcome is not None:
            self._get = None
        error = outcome if isinstance(outcome, MQError) else self._settle_error
        if error is not None:
            raise self._lost(str(error)) from error
        assert not isinstance(outcome, MQError)
        if outcome is not None:
            consumer = self._consumer_of(outcome.handle)
            # One place is for the message itself.
            if consumer is not None and consumer.channel.room > 1:
                self._batch.extend(self.take(consumer, consumer.channel.room - 1))
        return outcome

    def _lost(self, why: str) -> MQError:
        """Note that the program hears of the loss, and return the error that tells it."""
        self._has_told_loss = True
        return mq_error(rc.MQRC_CONNECTION_BROKEN, f"the connection of kombu has ended: {why}")

    def _call_of(self, delivery: Delivery) -> Callable[[], object] | None:
        """Return the call of the consumer of a delivery.

        None where the consumer has ended, and the message goes back, or the message is set aside.
        """
        consumer = self._consumer_of(delivery.handle)
        if consumer is None or consumer.on_message is None:
            self.settle([delivery.number], Settlement.RETURNED)
            return None
        self._served_handle = delivery.handle
        message = consumer.channel.received(delivery, consumer)
        return None if message is None else partial(consumer.on_message, message)

    def _consumer_of(self, handle: int) -> _QueueConsumer | None:
        """Return the consumer with an open queue, None if it has ended."""
        for channel in self.channels:
            for consumer in channel.consumers:
                if consumer.handle == handle:
                    return consumer
        return None

    def _stop_get(self, running: _WaitingGet) -> bool:
        """End a get that waits; return False when its outcome is on the way."""
        if running.under_way is None or not running.under_way.cancel():
            return False
        self._get = None
        return True

    def _arrive(self, get: _WaitingGet, outcome: Delivery | MQError) -> None:
        """Take the outcome of a get; called by the thread of callbacks, without a lock."""
        get.outcome = outcome
        self._wake()

    def _note_settled(self, outcome: MQError | None) -> None:
        """Keep the error of a settlement for the next drain."""
        if isinstance(outcome, MQError):
            self._settle_error = outcome
            self._wake()

    def _wake(self) -> None:
        """Make :attr:`reader` readable."""
        if self._wakers is not None:
            # A full one is readable; a closed one has no reader.
            with suppress(OSError):
                self._wakers[1].send(b"\0")


def _log_refusal(_handle: int, error: MQError) -> None:
    """Log that a queue cannot be got from; the get goes on with it when that is over."""
    _LOG.warning("a queue cannot be got from now: %s", error)


def _as_channel_error(error: MQError, queue: str) -> Exception:
    """Return ChannelError 404 for a queue that is not there, else the error itself."""
    if error.reason != rc.MQRC_UNKNOWN_OBJECT_NAME:
        return error
    missing: Exception = ChannelError(
        f"no queue {queue!r}: {error}", (50, 10), "queue_declare", _NOT_FOUND
    )
    return missing


class KombuTransport(base.Transport):
    """The transport of kombu for queue managers; kombu finds it by the scheme of a URL."""

    can_parse_url = True
    driver_type = driver_name = "mayfly"
    connection_errors: ClassVar[tuple[type[Exception], ...]] = (
        *base.Transport.connection_errors,
        ConnectionBroken,
    )
    recoverable_connection_errors = connection_errors
    channel_errors: ClassVar[tuple[type[Exception], ...]] = (
        *base.Transport.channel_errors,
        MQError,
    )
    recoverable_channel_errors: ClassVar[tuple[type[Exception], ...]] = (
        base.Transport.channel_errors
    )
    implements = base.Transport.implements.extend(
        asynchronous=True,
        exchange_type=frozenset(["direct", "topic", "fanout"]),
        heartbeats=False,
    )

    def driver_version(self) -> str:
        """Return the version of Mayfly."""
        return mayfly.__version__

    def establish_connection(self) -> KombuConnection:
        """Connect; raises ConnectionBroken where nobody answers, and the other errors of MQCONN."""
        place = _place_of(self.client.hostname)
        if self.client.ssl:
            raise ValueError("ssl: encryption stands in the URL, mqs://")
        given = self.client.password
        password = place.password or (given() if callable(given) else given)
        mq = connected(
            place.target,
            ConnectOptions(),
            user=place.user or self.client.userid,
            password=password,
            tls=None,
        )
        return KombuConnection(mq, self.client)

    def create_channel(self, connection: KombuConnection) -> KombuChannel:
        """Return a new channel of a connection."""
        return connection.channel()

    def close_channel(self, channel: KombuChannel) -> None:
        """Close a channel."""
        channel.close()

    def close_connection(self, connection: KombuConnection) -> None:
        """Close a connection with its channels."""
        connection.close()

    def verify_connection(self, connection: KombuConnection) -> bool:
        """Return True while a connection works."""
        return connection.connected

    def drain_events(self, connection: KombuConnection, **options: Any) -> None:
        """Wait for a message, and call its consumer and those of what has come with it.

        The option ``timeout`` is in seconds. Raises TimeoutError when none comes in time, and
        MQRC_CONNECTION_BROKEN.
        """
        connection.wait_for_call(options.get("timeout"))()
        while connection.has_more:
            try:
                call = connection.wait_for_call(0)
            except TimeoutError:
                # They were given back, or set aside.
                return
            call()

    def on_readable(self, connection: KombuConnection, loop: Any) -> None:
        """Call the consumer of a message that is there.

        For the next one the connection is readable again. Raises MQRC_CONNECTION_BROKEN, which ends
        the loop.
        """
        try:
            call = connection.wait_for_call(0)
        except TimeoutError:
            return
        call()

    def register_with_event_loop(self, connection: KombuConnection, loop: Any) -> None:
        """Let an event loop of kombu drain the connection whenever a message has come."""
        loop.add_reader(connection.reader, self.on_readable, connection, loop)

    def unregister_from_event_loop(self, connection: KombuConnection, loop: Any) -> None:
        """Let an event loop forget the connection."""
        with suppress(ValueError, OSError):
            loop.remove_reader(connection.reader)

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:
        """Return a broker URL, its password masked unless ``include_password``."""
        scheme, _, rest = uri.partition("://")
        authority, slash, path = rest.partition("/")
        account, at, hosts = authority.rpartition(_AUTHORITY_SEPARATOR)
        user, colon, _password = account.partition(":")
        if include_password or not colon:
            return uri
        return f"{scheme}://{user}:{mask}{at}{hosts}{slash}{path}"

    def _collect(self, connection: KombuConnection | None) -> None:
        """Free the resources of a connection without a word to the server; kombu calls this."""
        if connection is not None:
            connection.drop()


def cancel_task(connection: KombuConnection, task_id: str) -> bool:
    """Take a task that still waits for its eta off the schedule.

    Returns True if it is cancelled, now or before; False if it was delivered or is not known.
    ``connection`` is the ``connection`` of a ``kombu.Connection`` with this transport.
    """
    with connection.lock:
        receipt = connection.schedule.cancel(msg_id_of(task_id))
    return receipt == Receipt.CANCELLED


TRANSPORT_ALIASES.update(
    dict.fromkeys(("mayfly", "mq", "mqs"), f"{__name__}:{KombuTransport.__name__}")
)
