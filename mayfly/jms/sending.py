"""One send: a message goes to a queue or topic on the terms of its producer and destination."""

from __future__ import annotations

from typing import NamedTuple

from mayfly.jms import constants as k
from mayfly.jms.destinations import Destination, Queue, Topic
from mayfly.jms.errors import InvalidDestinationException, MessageFormatException, refuse
from mayfly.jms.messages import Message
from mayfly.jms.roles import OwningSession
from mayfly.jms.settings import Settings
from mayfly.jms.writing import EncodedMessage, Special, Terms, outgoing, special_of
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.properties.selectors.names import id_text
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import PutResult
from mayfly.verbs.requests import Opened

_PERSISTENCES = {
    k.NON_PERSISTENT: c.MQPER_NOT_PERSISTENT,
    k.PERSISTENT: c.MQPER_PERSISTENT,
    k.AS_QUEUE_DEFINITION: c.MQPER_PERSISTENCE_AS_Q_DEF,
}

#: The result of a put, and the terms that the message was sent on.
Sent = tuple[PutResult, Terms]
#: The terms for a temporary queue, which holds no persistent message.
_VOLATILE = {"persistence": c.MQPER_NOT_PERSISTENT, "delivery_mode": k.NON_PERSISTENT}


def send(
    session: OwningSession,
    destination: Queue | Topic,
    message: object,
    settings: Settings,
    opened: Opened | None,
) -> None:
    """Send a message and fill in its headers; ``opened`` is a producer's own queue.

    Raises MQError and JMSException; the message is as it was and nothing is sent then.
    """
    if not isinstance(message, Message):
        raise MessageFormatException(f"{message!r} is no message")
    special = special_of(message.typed_properties)
    if settings.delay_ms:
        _check_delayed(special)
    with session.lock:
        session.check_open()
        if session.transacted:
            session.listening.check_thread("send")
            session.begin_work()
        life_ms = _life_ms(destination, settings)
        going = _Sending(session, destination, message, settings, special, life_ms)
        if isinstance(destination, Topic):
            sent = going.publish(destination)
        elif opened is not None:
            sent = going.put(opened)
        else:
            sent = going.put_by_name(destination)
        session.has_work = session.has_work or session.transacted
    _fill_in(message, destination, settings, sent)


def destination_to_use(destination: object) -> Queue | Topic:
    """Return a destination; raises InvalidDestinationException for what is none."""
    if isinstance(destination, (Queue, Topic)):
        return destination
    what = "another kind" if isinstance(destination, Destination) else "no destination"
    raise InvalidDestinationException(f"{destination!r} is {what}", rc.MQRC_UNKNOWN_OBJECT_NAME)


def queue_to_use(destination: object) -> Queue:
    """Return a destination as a queue; raises InvalidDestinationException for what is none."""
    found = destination_to_use(destination)
    if isinstance(found, Topic):
        refuse(rc.MQRC_OBJECT_TYPE_ERROR, f"{destination} is no queue")
    return found


def _check_delayed(special: Special) -> None:
    """Raise MQRC_OPTIONS_ERROR where a delay is forbidden: retained (D8).

    One in a group is refused by the queue manager (D9).
    """
    if special.is_retained:
        refuse(rc.MQRC_OPTIONS_ERROR, f"{k.JMS_IBM_RETAIN} with a delivery delay")


class _Sending(NamedTuple):
    """One message on its way to one destination."""

    session: OwningSession
    destination: Queue | Topic
    message: Message
    settings: Settings
    special: Special
    #: 0 is for ever.
    life_ms: int

    def publish(self, topic: Topic) -> Sent:
        """Publish to a topic."""
        going, terms = self._encoded(self.session.mq.now_ms())
        sent = self.session.mq.put1(
            "",
            going.body,
            going.descriptor,
            self._options(is_topic=True),
            kind=c.MQOT_TOPIC,
            topic=topic.topic_name,
            correl_id=going.correl_id,
            time_to_live_ms=self.life_ms or None,
            delay_ms=self.settings.delay_ms,
        )
        return sent, terms

    def put_by_name(self, queue: Queue) -> Sent:
        """Put to a queue that is open for this one message, or for the unit of work.

        Outside of one MQPUT1 does it, unless more must be known of the queue before.
        """
        session = self.session
        if not (session.transacted or self.special.is_retained or self._is_paired):
            try:
                return self._put1(queue)
            except MQError as error:
                if error.reason != rc.MQRC_PERSISTENT_NOT_ALLOWED:
                    raise
        opened = session.output(queue)
        try:
            return self.put(opened)
        finally:
            session.release_output(queue, opened)

    def put(self, opened: Opened) -> Sent:
        """Put to an open queue, or to the topic that it is the alias of."""
        mq, is_topic = self.session.mq, opened.kind == c.MQOT_TOPIC
        begin_ms = now_ms = mq.now_ms()
        if self._is_paired and not is_topic and mq.call(ask.AskLivesFromRelease(opened.handle)):
            begin_ms += self.settings.delay_ms
        is_temporary = opened.definition_type == c.MQQDT_TEMPORARY_DYNAMIC
        going, terms = self._encoded(now_ms, begin_ms, is_temporary=is_temporary)
        result = mq.put(
            opened.handle,
            going.body,
            going.descriptor,
            self._options(is_topic=is_topic),
            correl_id=going.correl_id,
            time_to_live_ms=self.life_ms or None,
            delay_ms=self.settings.delay_ms,
        )
        # None is for asynchronous puts only.
        assert result is not None
        return result, terms

    @property
    def _is_paired(self) -> bool:
        """Whether it has both a delay and a life, so that it matters from when the life runs."""
        return bool(self.settings.delay_ms and self.life_ms)

    def _put1(self, queue: Queue) -> Sent:
        mq = self.session.mq
        going, terms = self._encoded(mq.now_ms())
        sent = mq.put1(
            queue.queue_name,
            going.body,
            going.descriptor,
            c.MQPMO_NO_SYNCPOINT,
            manager=queue.queue_manager,
            correl_id=going.correl_id,
            time_to_live_ms=self.life_ms or None,
            delay_ms=self.settings.delay_ms,
        )
        return sent, terms

    def _encoded(
        self, now_ms: int, begin_ms: int | None = None, *, is_temporary: bool = False
    ) -> tuple[EncodedMessage, Terms]:
        begin_ms = now_ms if begin_ms is None else begin_ms
        terms = self._terms(now_ms, begin_ms)
        if is_temporary:
            # JMS sends persistent messages unless told otherwise.
            terms = terms._replace(**_VOLATILE)
        return outgoing(self.message, self.destination, terms, self.special), terms

    def _terms(self, now_ms: int, begin_ms: int) -> Terms:
        """Return the terms of the message, whose life begins at a moment."""
        destination, settings = self.destination, self.settings
        said = destination.persistence
        mode = settings.delivery_mode if said < 0 else said
        priority = settings.priority if destination.priority < 0 else destination.priority
        as_defined = destination.priority == k.AS_QUEUE_DEFINITION
        return Terms(
            mode,
            priority,
            _PERSISTENCES[k.AS_QUEUE_DEFINITION if said == k.AS_QUEUE_DEFINITION else mode],
            k.AS_QUEUE_DEFINITION if as_defined else priority,
            0 if settings.disables_timestamp else now_ms,
            begin_ms + self.life_ms if self.life_ms else 0,
        )

    def _options(self, *, is_topic: bool) -> int:
        options = c.MQPMO_SYNCPOINT if self.session.transacted else c.MQPMO_NO_SYNCPOINT
        return options | (c.MQPMO_RETAIN if is_topic and self.special.is_retained else 0)


def _life_ms(destination: Destination, settings: Settings) -> int:
    return settings.time_to_live_ms if destination.expiry_ms < 0 else destination.expiry_ms


def _fill_in(message: Message, destination: Destination, settings: Settings, sent: Sent) -> None:
    result, terms = sent
    window = result.window
    message.jms_message_id = None if settings.disables_id else id_text(result.msg_id)
    message.jms_timestamp = terms.timestamp_ms
    message.jms_destination = destination
    message.jms_delivery_mode = k.PERSISTENT if result.descriptor.persistence else k.NON_PERSISTENT
    message.jms_priority = result.descriptor.priority
    message.jms_expiration = 0 if window.expire_at_ms is None else window.expire_at_ms
    message.jms_delivery_time = window.deliver_at_ms
