"""One send: a message goes to a queue on the terms of its producer and its destination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mayfly.engine.handles import Handle
from mayfly.engine.put import PutRequest, PutResult
from mayfly.jms import constants as k
from mayfly.jms.destinations import Destination, Queue, Topic
from mayfly.jms.errors import InvalidDestinationException, MessageFormatException, refuse
from mayfly.jms.messages import Message
from mayfly.jms.writing import Outgoing, Special, Terms, outgoing, special_of
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.selectors.identifiers import id_text

if TYPE_CHECKING:
    from mayfly.jms.sessions import Session

_PERSISTENCES = {
    k.NON_PERSISTENT: c.MQPER_NOT_PERSISTENT,
    k.PERSISTENT: c.MQPER_PERSISTENT,
    k.AS_QUEUE_DEFINITION: c.MQPER_PERSISTENCE_AS_Q_DEF,
}


@dataclass
class Settings:
    """What a producer says of what it sends; times in ms, ``time_to_live_ms`` 0 is for ever."""

    delivery_mode: int = k.PERSISTENT
    priority: int = k.DEFAULT_PRIORITY
    time_to_live_ms: int = 0
    delay_ms: int = 0
    disables_id: bool = False
    disables_timestamp: bool = False


def send(
    session: Session, queue: Queue, message: object, settings: Settings, handle: Handle | None
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
        if handle is not None:
            result, terms = _put(session, queue, message, settings, special, handle)
        else:
            name = own_queue_name(session, queue)
            handle = session.output_handle(name)
            try:
                result, terms = _put(session, queue, message, settings, special, handle)
            finally:
                session.release_output(name, handle)
    _fill_in(message, queue, settings, terms, result)


def queue_to_use(destination: object) -> Queue:
    """Return a destination as a queue.

    Raises InvalidDestinationException for what is none, MQRC_FUNCTION_NOT_SUPPORTED for a topic.
    """
    if isinstance(destination, Queue):
        return destination
    if isinstance(destination, Topic):
        refuse(rc.MQRC_FUNCTION_NOT_SUPPORTED, f"{destination}: there are no topics here")
    what = "another kind" if isinstance(destination, Destination) else "no destination"
    raise InvalidDestinationException(f"{destination!r} is {what}", rc.MQRC_UNKNOWN_OBJECT_NAME)


def own_queue_name(session: Session, queue: Queue) -> str:
    """Return the name of a queue here; raises MQRC_UNKNOWN_REMOTE_Q_MGR for one elsewhere."""
    if queue.queue_manager not in ("", session.manager.name):
        refuse(rc.MQRC_UNKNOWN_REMOTE_Q_MGR, f"{queue} is on another queue manager")
    return queue.queue_name


def _check_delayed(special: Special) -> None:
    """Raise MQRC_OPTIONS_ERROR where a delay is forbidden: retained (D8), in a group (D9)."""
    if special.is_retained:
        refuse(rc.MQRC_OPTIONS_ERROR, f"{k.JMS_IBM_RETAIN} with a delivery delay")
    if special.is_grouped:
        refuse(rc.MQRC_OPTIONS_ERROR, f"{k.JMSX_GROUP_ID} with a delivery delay")


def _put(
    session: Session,
    queue: Queue,
    message: Message,
    settings: Settings,
    special: Special,
    handle: Handle,
) -> tuple[PutResult, Terms]:
    life_ms = settings.time_to_live_ms if queue.expiry_ms < 0 else queue.expiry_ms
    now_ms = session.manager.now_ms()
    begin_ms = now_ms + settings.delay_ms if handle.path.ttl_from_release else now_ms
    terms = _terms(queue, settings, handle, now_ms, begin_ms + life_ms if life_ms else 0)
    sent: Outgoing = outgoing(message, queue, terms, special)
    request = PutRequest(sent.descriptor, b"", sent.correl_id, life_ms or None, settings.delay_ms)
    options = c.MQPMO_SYNCPOINT if session.transacted else c.MQPMO_NO_SYNCPOINT
    return handle.put(sent.body, request, options), terms


def _terms(
    queue: Queue, settings: Settings, handle: Handle, now_ms: int, expiration_ms: int
) -> Terms:
    mode = settings.delivery_mode if queue.persistence < 0 else queue.persistence
    priority = settings.priority if queue.priority < 0 else queue.priority
    asked = k.AS_QUEUE_DEFINITION if queue.persistence == k.AS_QUEUE_DEFINITION else mode
    persistence = _PERSISTENCES[asked]
    if handle.queue.definition.definition_type == c.MQQDT_TEMPORARY_DYNAMIC:
        # Such a queue holds none, and JMS sends persistent messages unless told otherwise.
        persistence, mode = c.MQPER_NOT_PERSISTENT, k.NON_PERSISTENT
    return Terms(
        mode,
        priority,
        persistence,
        k.AS_QUEUE_DEFINITION if queue.priority == k.AS_QUEUE_DEFINITION else priority,
        0 if settings.disables_timestamp else now_ms,
        expiration_ms,
    )


def _fill_in(
    message: Message, queue: Queue, settings: Settings, terms: Terms, result: PutResult
) -> None:
    window = result.window
    message.jms_message_id = None if settings.disables_id else id_text(result.msg_id)
    message.jms_timestamp = terms.timestamp_ms
    message.jms_destination = queue
    message.jms_delivery_mode = k.PERSISTENT if result.descriptor.persistence else k.NON_PERSISTENT
    message.jms_priority = result.descriptor.priority
    message.jms_expiration = 0 if window.expire_at_ms is None else window.expire_at_ms
    message.jms_delivery_time = window.deliver_at_ms
