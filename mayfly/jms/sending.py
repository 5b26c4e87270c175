"""The send of one message: the settings of its producer, their rules, and the put.

The rules are those of delivery delay, time to live, priority and delivery mode. The settings of a
destination take precedence over those of the producer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from mayfly.client.connection import Connection as QueueConnection
from mayfly.jms import constants as k
from mayfly.jms.destinations import Destination, Queue, Topic
from mayfly.jms.errors import MessageFormatException, refuse
from mayfly.jms.mapping import (
    DescriptorFields,
    EncodedMessage,
    SendTerms,
    descriptor_fields_of,
    outgoing,
)
from mayfly.jms.messages import Message
from mayfly.jms.roles import OwningSession
from mayfly.lifetime.window import DELAY_COMMAND_LEVEL, LATEST_DUE_MS, LONGEST_LIFE_MS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.properties.selectors.names import id_text
from mayfly.store.keys import MAX_PRIORITY
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import PutResult
from mayfly.verbs.requests import Opened


@dataclass
class SendSettings:
    """The settings of a producer; times are in ms, and ``time_to_live_ms`` 0 is unlimited.

    A setter that raises changes nothing.
    """

    mq: QueueConnection
    #: The queue of the producer; MQHO_NONE if each send names one, None for a topic.
    handle: int | None = c.MQHO_NONE
    delivery_mode: int = k.PERSISTENT
    priority: int = k.DEFAULT_PRIORITY
    time_to_live_ms: int = 0
    delay_ms: int = 0
    disables_id: bool = False
    disables_timestamp: bool = False

    def set_delivery_mode(self, delivery_mode: int) -> None:
        """Set PERSISTENT or NON_PERSISTENT.

        Raises JMSException with MQRC_PERSISTENCE_ERROR for another value.
        """
        if type(delivery_mode) is not int or delivery_mode not in (k.NON_PERSISTENT, k.PERSISTENT):
            refuse(rc.MQRC_PERSISTENCE_ERROR, f"delivery mode {delivery_mode!r}")
        self.delivery_mode = delivery_mode

    def set_priority(self, priority: int) -> None:
        """Set the priority, 0 to 9.

        Raises JMSException with MQRC_PRIORITY_ERROR for another value.
        """
        if type(priority) is not int or not 0 <= priority <= MAX_PRIORITY:
            text = f"priority {priority!r} is not within 0 .. {MAX_PRIORITY}"
            refuse(rc.MQRC_PRIORITY_ERROR, text)
        self.priority = priority

    def set_time_to_live(self, time_to_live_ms: int) -> None:
        """Set the time to live in ms, 0 for unlimited.

        Raises JMSException with MQRC_EXPIRY_ERROR for a wrong value, and for one shorter than the
        delay, unless expiry may count from the delivery, as on a queue with TTLFROM(RELEASE).
        """
        if type(time_to_live_ms) is not int or not 0 <= time_to_live_ms <= LONGEST_LIFE_MS:
            text = f"time to live {time_to_live_ms!r} is not within 0 .. {LONGEST_LIFE_MS} ms"
            refuse(rc.MQRC_EXPIRY_ERROR, text)
        self._check_ttl_covers_delay(time_to_live_ms, self.delay_ms)
        self.time_to_live_ms = time_to_live_ms

    def set_delivery_delay(self, delay_ms: int) -> None:
        """Set the delivery delay in ms.

        The errors are JMSException. MQRC_FUNCTION_NOT_SUPPORTED: a delay other than 0, and a queue
        manager below command level 800. MQRC_EXPIRY_ERROR: the delay is longer than the time to
        live, unless expiry may count from the delivery, as on a queue with TTLFROM(RELEASE).
        MQRC_OPTIONS_ERROR: no whole number, negative, or a delivery time after the year 2109.
        """
        mq = self.mq
        if type(delay_ms) is not int:
            refuse(rc.MQRC_OPTIONS_ERROR, f"delivery delay {delay_ms!r} is no number of ms")
        level = mq.call(ask.AskCommandLevel()) if delay_ms else DELAY_COMMAND_LEVEL
        if level < DELAY_COMMAND_LEVEL:
            needed = f"delivery delay needs command level {DELAY_COMMAND_LEVEL}"
            refuse(rc.MQRC_FUNCTION_NOT_SUPPORTED, f"{needed}; {mq.name} has {level}")
        if delay_ms < 0 or mq.now_ms() + delay_ms > LATEST_DUE_MS:
            refuse(rc.MQRC_OPTIONS_ERROR, f"delivery delay {delay_ms} is negative or too long")
        self._check_ttl_covers_delay(self.time_to_live_ms, delay_ms)
        self.delay_ms = delay_ms

    def set_disable_message_id(self, value: bool) -> None:
        """Choose whether sent messages show no JMSMessageID; they still have a MsgId."""
        self.disables_id = value

    def set_disable_message_timestamp(self, value: bool) -> None:
        """Choose whether messages carry no JMSTimestamp."""
        self.disables_timestamp = value

    def with_terms(self, terms: Mapping[str, Any]) -> SendSettings:
        """Return a copy of the settings for one send, with some values replaced by ``terms``.

        Its keys are ``delivery_mode``, ``priority`` and ``time_to_live`` (ms). Raises JMSException
        for a wrong value.
        """
        settings = replace(self)
        settings.set_time_to_live(terms.get("time_to_live", self.time_to_live_ms))
        settings.set_delivery_mode(terms.get("delivery_mode", self.delivery_mode))
        settings.set_priority(terms.get("priority", self.priority))
        return settings

    def _check_ttl_covers_delay(self, time_to_live_ms: int, delay_ms: int) -> None:
        """Raise JMSException with MQRC_EXPIRY_ERROR if a message would expire before its delivery.

        Does nothing if expiry may count from the delivery, as on a queue with TTLFROM(RELEASE).
        """
        if time_to_live_ms and delay_ms > time_to_live_ms and self._ttl_must_cover_delay():
            text = f"time to live {time_to_live_ms} ms is less than delivery delay {delay_ms} ms"
            refuse(rc.MQRC_EXPIRY_ERROR, text)

    def _ttl_must_cover_delay(self) -> bool:
        """Return True if expiry counts from the send: the time to live includes the delay.

        False if the queue has TTLFROM(RELEASE), where expiry counts from the delivery. If each send
        names a queue, False if any queue has it; the send then checks its own queue.
        """
        return self.handle is None or not self.mq.call(ask.AskLivesFromRelease(self.handle))


class ReadOnlySettings:
    """A producer base class: its settings as read-only properties."""

    _settings: SendSettings

    @property
    def delivery_mode(self) -> int:
        """The delivery mode, PERSISTENT or NON_PERSISTENT; initially PERSISTENT."""
        return self._settings.delivery_mode

    @property
    def priority(self) -> int:
        """The priority, 0 to 9; initially 4."""
        return self._settings.priority

    @property
    def time_to_live(self) -> int:
        """The time to live of messages, in ms from the send; 0 for unlimited."""
        return self._settings.time_to_live_ms

    @property
    def delivery_delay(self) -> int:
        """The delivery delay of messages, in ms from the send; 0 for none."""
        return self._settings.delay_ms

    @property
    def disable_message_id(self) -> bool:
        """True if sent messages show no JMSMessageID; they still have a MsgId."""
        return self._settings.disables_id

    @property
    def disable_message_timestamp(self) -> bool:
        """True if messages carry no JMSTimestamp."""
        return self._settings.disables_timestamp


_PERSISTENCES = {
    k.NON_PERSISTENT: c.MQPER_NOT_PERSISTENT,
    k.PERSISTENT: c.MQPER_PERSISTENT,
    k.AS_QUEUE_DEFINITION: c.MQPER_PERSISTENCE_AS_Q_DEF,
}

#: The result of a put, and the terms that the message was sent on.
Sent = tuple[PutResult, SendTerms]


def send(
    session: OwningSession,
    destination: Queue | Topic,
    message: object,
    settings: SendSettings,
    opened: Opened | None,
) -> None:
    """Send a message, then set its JMS headers.

    ``opened`` is the open queue of the producer, None if the producer has none. In a transacted
    session the send is part of the unit of work. Raises MQError and JMSException; the message is
    then unchanged and nothing is sent.
    """
    if not isinstance(message, Message):
        raise MessageFormatException(f"{message!r} is no message")
    special = descriptor_fields_of(message.typed_properties)
    # D8; a delay of a message in a group is refused by the queue manager (D9).
    if settings.delay_ms and special.is_retained:
        refuse(rc.MQRC_OPTIONS_ERROR, f"{k.JMS_IBM_RETAIN} with a delivery delay")
    with session.lock:
        session.check_open()
        if session.transacted:
            session.listening.check_thread("send")
            session.begin_work()
        time_to_live_ms = destination.expiry_ms
        if time_to_live_ms < 0:
            time_to_live_ms = settings.time_to_live_ms
        sending = _Sending(session, destination, message, settings, special, time_to_live_ms)
        if isinstance(destination, Topic):
            sent = sending.publish(destination)
        elif opened is not None:
            sent = sending.put(opened)
        else:
            sent = sending.put_by_name(destination)
        session.has_work = session.has_work or session.transacted
    _fill_in(message, destination, settings, sent)


class _Sending(NamedTuple):
    """The send of one message to one destination, with its settings and time to live."""

    session: OwningSession
    destination: Queue | Topic
    message: Message
    settings: SendSettings
    special: DescriptorFields
    #: 0 is for ever.
    time_to_live_ms: int

    def publish(self, topic: Topic) -> Sent:
        """Publish the message to a topic; return the result and the terms of the send."""
        options = self._options(is_topic=True)
        return self._put1("", options, kind=c.MQOT_TOPIC, topic=topic.topic_name)

    def put_by_name(self, queue: Queue) -> Sent:
        """Put the message to a queue that is not open.

        Returns the result and the terms of the send. Outside a unit of work MQPUT1 is enough,
        unless an attribute of the queue is needed first. Otherwise the queue is opened for this
        message, or for the unit of work.
        """
        session = self.session
        if not (session.transacted or self.special.is_retained or self._has_delay_and_ttl):
            try:
                return self._put1(
                    queue.queue_name, c.MQPMO_NO_SYNCPOINT, manager=queue.queue_manager
                )
            except MQError as error:
                if error.reason != rc.MQRC_PERSISTENT_NOT_ALLOWED:
                    raise
        opened = session.output(queue)
        try:
            return self.put(opened)
        finally:
            session.release_output(queue, opened)

    def put(self, opened: Opened) -> Sent:
        """Put the message to an open queue, or to the topic of which the queue is an alias.

        Returns the result and the terms of the send.
        """
        mq, is_topic = self.session.mq, opened.kind == c.MQOT_TOPIC
        begin_ms = now_ms = mq.now_ms()
        if (
            self._has_delay_and_ttl
            and not is_topic
            and mq.call(ask.AskLivesFromRelease(opened.handle))
        ):
            begin_ms += self.settings.delay_ms
        is_temporary = opened.definition_type == c.MQQDT_TEMPORARY_DYNAMIC
        encoded, terms = self._encoded(now_ms, begin_ms, is_temporary=is_temporary)
        result = mq.put(
            opened.handle,
            encoded.body,
            encoded.descriptor,
            self._options(is_topic=is_topic),
            correl_id=encoded.correl_id,
            time_to_live_ms=self.time_to_live_ms or None,
            delay_ms=self.settings.delay_ms,
        )
        # None is for asynchronous puts only.
        assert result is not None
        return result, terms

    @property
    def _has_delay_and_ttl(self) -> bool:
        """True if the message has both a delay and a time to live.

        TTLFROM of the queue then decides when expiry begins to count.
        """
        return bool(self.settings.delay_ms and self.time_to_live_ms)

    def _put1(
        self, name: str, options: int, *, kind: int = c.MQOT_Q, manager: str = "", topic: str = ""
    ) -> Sent:
        """Put the message with MQPUT1 to a queue or topic, with MQPMO ``options``.

        Returns the result and the terms of the send.
        """
        mq = self.session.mq
        now_ms = mq.now_ms()
        encoded, terms = self._encoded(now_ms, now_ms)
        sent = mq.call(
            ask.Put1.of(
                name,
                encoded.body,
                encoded.descriptor,
                options,
                kind=kind,
                manager=manager,
                topic=topic,
                correl_id=encoded.correl_id,
                time_to_live_ms=self.time_to_live_ms or None,
                delay_ms=self.settings.delay_ms,
            )
        )
        return sent, terms

    def _encoded(
        self, now_ms: int, begin_ms: int, *, is_temporary: bool = False
    ) -> tuple[EncodedMessage, SendTerms]:
        """Return the message in the form in which it is put, and the terms of its send.

        ``now_ms`` is the time of the send; expiry counts from ``begin_ms``. With ``is_temporary``,
        for a temporary queue, the message is non-persistent.
        """
        destination, settings = self.destination, self.settings
        persistence_choice = destination.persistence
        mode = settings.delivery_mode if persistence_choice < 0 else persistence_choice
        persistence = _PERSISTENCES[
            persistence_choice if persistence_choice == k.AS_QUEUE_DEFINITION else mode
        ]
        if is_temporary:
            # The default of JMS is persistent, which a temporary queue does not hold.
            mode, persistence = k.NON_PERSISTENT, c.MQPER_NOT_PERSISTENT
        priority = settings.priority if destination.priority < 0 else destination.priority
        as_defined = destination.priority == k.AS_QUEUE_DEFINITION
        terms = SendTerms(
            mode,
            priority,
            persistence,
            k.AS_QUEUE_DEFINITION if as_defined else priority,
            0 if settings.disables_timestamp else now_ms,
            begin_ms + self.time_to_live_ms if self.time_to_live_ms else 0,
        )
        return outgoing(self.message, destination, terms, self.special), terms

    def _options(self, *, is_topic: bool) -> int:
        """Return the MQPMO options: syncpoint if the session is transacted, else no syncpoint.

        MQPMO_RETAIN is added for a topic if the message has JMS_IBM_Retain.
        """
        options = c.MQPMO_SYNCPOINT if self.session.transacted else c.MQPMO_NO_SYNCPOINT
        return options | (c.MQPMO_RETAIN if is_topic and self.special.is_retained else 0)


def _fill_in(
    message: Message, destination: Destination, settings: SendSettings, sent: Sent
) -> None:
    """Set the JMS headers of a sent message from the result of its put."""
    result, terms = sent
    window = result.window
    message.jms_message_id = None if settings.disables_id else id_text(result.msg_id)
    message.jms_timestamp = terms.timestamp_ms
    message.jms_destination = destination
    message.jms_delivery_mode = k.PERSISTENT if result.descriptor.persistence else k.NON_PERSISTENT
    message.jms_priority = result.descriptor.priority
    message.jms_expiration = 0 if window.expire_at_ms is None else window.expire_at_ms
    message.jms_delivery_time = window.deliver_at_ms
