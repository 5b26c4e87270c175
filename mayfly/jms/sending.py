"""One send: a message goes to a queue or topic on the terms of its producer and destination."""

from __future__ import annotations

from mayfly.engine import Handle, PutRequest, full_name
from mayfly.engine.face.jms import PublishResult, PutResult
from mayfly.jms import constants as k
from mayfly.jms.destinations import Destination, Queue, Topic
from mayfly.jms.errors import InvalidDestinationException, MessageFormatException, refuse
from mayfly.jms.messages import Message
from mayfly.jms.roles import OwningSession
from mayfly.jms.settings import Settings
from mayfly.jms.writing import EncodedMessage, Special, Terms, outgoing, special_of
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.selectors.identifiers import id_text

_PERSISTENCES = {
    k.NON_PERSISTENT: c.MQPER_NOT_PERSISTENT,
    k.PERSISTENT: c.MQPER_PERSISTENT,
    k.AS_QUEUE_DEFINITION: c.MQPER_PERSISTENCE_AS_Q_DEF,
}

#: What became of a message, and the terms it was sent on.
Sent = tuple[PutResult | PublishResult, Terms]


def send(
    session: OwningSession,
    destination: Queue | Topic,
    message: object,
    settings: Settings,
    handle: Handle | None,
) -> None:
    """Send a message and fill in its headers; a handle is that of a producer's own queue.

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
        sent: Sent
        if isinstance(destination, Topic):
            sent = _publish(session, destination, message, settings, special)
        elif handle is not None:
            sent = _put(session, destination, message, settings, special, handle)
        elif leads_to_topic(session, destination):
            sent = _publish(session, destination, message, settings, special)
        else:
            name = queue_name_in(session, destination)
            handle = session.output_handle(name)
            try:
                sent = _put(session, destination, message, settings, special, handle)
            finally:
                session.release_output(name, handle)
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


def leads_to_topic(session: OwningSession, queue: Queue) -> bool:
    """Tell whether a queue here is the alias of a topic: what is sent to it is published."""
    name = queue_name_in(session, queue)
    return session.mq.leads_to_topic(name)


def queue_name_in(session: OwningSession, queue: Queue) -> str:
    """Return the name of a queue, with its queue manager where that is another one (C2)."""
    return full_name(queue.queue_name, queue.queue_manager, session.manager.name)


def _check_delayed(special: Special) -> None:
    """Raise MQRC_OPTIONS_ERROR where a delay is forbidden: retained (D8), in a group (D9)."""
    if special.is_retained:
        refuse(rc.MQRC_OPTIONS_ERROR, f"{k.JMS_IBM_RETAIN} with a delivery delay")
    if special.is_grouped:
        refuse(rc.MQRC_OPTIONS_ERROR, f"{k.JMSX_GROUPID} with a delivery delay")


def _put(
    session: OwningSession,
    queue: Queue,
    message: Message,
    settings: Settings,
    special: Special,
    handle: Handle,
) -> Sent:
    now_ms = session.manager.now_ms()
    begin_ms = now_ms + settings.delay_ms if handle.path.ttl_from_release else now_ms
    terms = _terms(queue, settings, now_ms, begin_ms)
    if handle.queue.definition.definition_type == c.MQQDT_TEMPORARY_DYNAMIC:
        # Such a queue holds none, and JMS sends persistent messages unless told otherwise.
        volatile = {"persistence": c.MQPER_NOT_PERSISTENT, "delivery_mode": k.NON_PERSISTENT}
        terms = terms._replace(**volatile)
    going = outgoing(message, queue, terms, special)
    options = c.MQPMO_SYNCPOINT if session.transacted else c.MQPMO_NO_SYNCPOINT
    return handle.put(going.body, _request(queue, settings, going), options), terms


def _publish(
    session: OwningSession,
    destination: Queue | Topic,
    message: Message,
    settings: Settings,
    special: Special,
) -> Sent:
    now_ms = session.manager.now_ms()
    terms = _terms(destination, settings, now_ms, now_ms)
    going = outgoing(message, destination, terms, special)
    result = session.mq.publish_as(
        destination.topic_name if isinstance(destination, Topic) else "",
        going.body,
        _request(destination, settings, going),
        syncpoint=session.transacted,
        retain=special.is_retained,
        alias="" if isinstance(destination, Topic) else destination.queue_name,
    )
    return result, terms


def _life_ms(destination: Destination, settings: Settings) -> int:
    return settings.time_to_live_ms if destination.expiry_ms < 0 else destination.expiry_ms


def _request(destination: Destination, settings: Settings, going: EncodedMessage) -> PutRequest:
    life_ms = _life_ms(destination, settings) or None
    return PutRequest(going.descriptor, b"", going.correl_id, life_ms, settings.delay_ms)


def _terms(destination: Destination, settings: Settings, now_ms: int, begin_ms: int) -> Terms:
    """Return the terms of a message whose life begins at a moment."""
    said, life_ms = destination.persistence, _life_ms(destination, settings)
    mode = settings.delivery_mode if said < 0 else said
    priority = settings.priority if destination.priority < 0 else destination.priority
    as_defined = destination.priority == k.AS_QUEUE_DEFINITION
    return Terms(
        mode,
        priority,
        _PERSISTENCES[k.AS_QUEUE_DEFINITION if said == k.AS_QUEUE_DEFINITION else mode],
        k.AS_QUEUE_DEFINITION if as_defined else priority,
        0 if settings.disables_timestamp else now_ms,
        begin_ms + life_ms if life_ms else 0,
    )


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
