"""Forwarding: a message that was got moves to another queue with its ids, context and deadline.

The put is in the unit of work that got the message, so the message is never lost or doubled.
"""

from __future__ import annotations

from mayfly.engine.arrivals import next_number
from mayfly.engine.authority.checks import check_putter
from mayfly.engine.core import Core
from mayfly.engine.delivery import MessageIds, OutgoingMessage, new_id
from mayfly.engine.disposal import (
    dead_letter,
    dead_letter_queue_of,
    prepared_with_own_context,
    send_report,
)
from mayfly.engine.get import GetRequest
from mayfly.engine.handles import Handle
from mayfly.engine.put import PutRequest, put
from mayfly.engine.session import Session
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.dead_letters import Refusal, behind_header
from mayfly.lifetime.reports import Cause, Original
from mayfly.lifetime.window import window_at_put
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import ConnectionBroken, MQError, mq_error
from mayfly.verbs.checks import stored_id
from mayfly.verbs.messages import Message, message_token, row_of

_OPEN = c.MQOO_OUTPUT | c.MQOO_SET_ALL_CONTEXT
_LOOK = c.MQGMO_BROWSE_MSG_UNDER_CURSOR
_TAKE = c.MQGMO_SYNCPOINT | c.MQGMO_MSG_UNDER_CURSOR
_PUT = c.MQPMO_SYNCPOINT | c.MQPMO_SET_ALL_CONTEXT


def forward(
    core: Core,
    session: Session,
    name: str,
    message: Message,
    changed: tuple[Descriptor, bytes] | None = None,
) -> None:
    """Put a got message on another queue, in the session's unit of work (E21, Q2).

    MsgId, CorrelId, context, PutDate, PutTime and deadline stay; a CAPEXPRY of the target or the
    longest allowed expiry (E3) may shorten it. ``name`` may be ``QUEUE@MANAGER``. ``changed``
    replaces descriptor and body. The session's user needs authority to put. If ``name`` is BOQNAME
    or DEADQ, and the message was backed out BOTHRESH times, the queue manager's authority is used.

    Raises the errors of open and put, and MQRC_UNKNOWN_OBJECT_NAME for a blank name or a model
    queue, whose dynamic queue would be deleted at once.
    """
    check_forward_target(core, name)
    if _is_requeued(core, message, name):
        session = session.beside(session.unit_of_work, as_manager=True)
    descriptor, body = changed or (message.descriptor, message.body)
    handle = session.open(name, _OPEN)
    try:
        handle.put(body, _request(core, message, descriptor), _PUT)
    finally:
        handle.close()


def _is_requeued(core: Core, message: Message, name: str) -> bool:
    """Return True if a message has reached BOTHRESH and ``name`` is BOQNAME or DEADQ."""
    source = core.registry.by_name(message.queue)
    if source is None or not 0 < source.definition.bothresh <= message.backout_count:
        return False
    return name in (source.definition.boqname, core.registry.queue_manager.deadq)


def check_forward_target(core: Core, name: str) -> None:
    """Raise an error if :func:`forward` cannot move a message to this name.

    That is MQRC_UNKNOWN_OBJECT_NAME for a blank or unknown name, or the error of its resolution.
    """
    if not name:
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, "no queue is named for the message")
    core.registry.resolve_target(name)


def put_dead_letter(core: Core, session: Session, message: Message, reason: int) -> None:
    """Put a got message on the dead-letter queue behind an MQDLH, in the unit of work (Q1).

    The header has the reason code, the queue of the message and the session's program. Raises the
    errors of :func:`forward`, and MQRC_UNKNOWN_OBJECT_NAME when DEADQ is blank.
    """
    by = session.context
    refusal = Refusal(
        reason, message.queue, core.name, by.put_appl_type, by.put_appl_name, core.now_ms()
    )
    dead, header = behind_header(message.descriptor, refusal)
    name = dead_letter_queue_of(core)
    forward(core, session, name, message, (dead, header + message.body))


def set_aside(core: Core, session: Session, message: Message, reason: int) -> None:
    """Put a got message on BOQNAME, else on the dead-letter queue, in the unit of work.

    ``reason`` is the reason code in the MQDLH. BOQNAME is not used if it is blank, refuses the
    message, or is the message's present queue. Raises MQRC_OPTIONS_ERROR when the present queue is
    the dead-letter queue, else the errors of :func:`put_dead_letter`.
    """
    source, dead_queue = core.registry.by_name(message.queue), core.registry.queue_manager.deadq
    name = "" if source is None else source.definition.boqname
    try:
        _check_is_elsewhere(message, name)
        forward(core, session, name, message)
    except MQError:
        _check_is_elsewhere(message, dead_queue)
        put_dead_letter(core, session, message, reason)


def _check_is_elsewhere(message: Message, name: str) -> None:
    """Raise MQRC_OPTIONS_ERROR if ``name`` is the queue where the message already is."""
    if name == message.queue:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"the message is on {name} already")


def move_under_cursor(
    session: Session,
    source: Handle,
    name: str,
    *,
    descriptor: Descriptor | None,
    header_bytes: int,
    putter: str | None,
) -> int:
    """Move the message under the browse cursor to another queue, under syncpoint (Q2).

    It is put before it is got, so a failed put raises no backout count. ``descriptor`` replaces its
    MQMD, ``header_bytes`` bytes are removed from the front of its data, and user ``putter`` must
    have authority to put. Returns an arrival number: messages that arrive on ``source`` later have
    a higher one.

    Raises the errors of :func:`forward`. Raises MQRC_NO_MSG_UNDER_CURSOR when the message has
    expired or was taken, MQRC_OPTIONS_ERROR when ``name`` resolves to ``source``.
    """
    core = session.core
    if not name:
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, "no queue is named to move the message to")
    if putter is not None:
        check_putter(core, putter, name)
    if core.registry.resolve_target(name).queue is source.queue:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"{name} is the queue the message comes from")
    arrival_number = next_number(source.queue.owner)
    if header_bytes < 0:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"header_bytes {header_bytes} is less than 0")
    message = source.get(GetRequest(), _LOOK).message
    changed = descriptor or message.descriptor, message.body[header_bytes:]
    forward(core, session, name, message, changed)
    source.get(GetRequest(), _TAKE)
    return arrival_number


def report_exception(core: Core, session: Session, message: Message, reason: int) -> bool:
    """Put the exception report that a message asks for, in the session's unit of work.

    ``reason`` is the Feedback of the report, an MQRC_* or MQFB_*. Returns False when the report was
    dropped, True when it was put or the message asks for none.
    """
    original = Original(
        message.descriptor, message.msg_id, message.correl_id, message.body, message.remaining_ms
    )
    transaction = Transaction()
    with core.engine_lock:
        is_sent = send_report(core, transaction, Cause.EXCEPTION, original, reason)
        session.unit_of_work.adopt(transaction)
    return is_sent


def put_reply(session: Session, name: str, user: str, body: bytes, request: PutRequest) -> int:
    """Put a reply in the session's unit of work, with the authority of the request's user (R6).

    Returns 0 when it was put on its queue. If the queue refuses it, puts it on the dead-letter
    queue and returns the reason code; MQRC_MISSING_REPLY_TO_Q for an empty ``name``. Raises
    MQRC_SYNCPOINT_LIMIT_REACHED, MQRC_CONNECTION_BROKEN, and the error with which the dead-letter
    queue refuses it.
    """
    try:
        if not name:
            raise mq_error(rc.MQRC_MISSING_REPLY_TO_Q, "the request names no ReplyToQ")
        core, unit_of_work = session.core, session.unit_of_work
        path = core.registry.resolve_target(name)
        check_putter(core, user, name)
        put(core, path, body, request, context=session.context, unit_of_work=unit_of_work)
    except ConnectionBroken:
        raise
    except MQError as error:
        if error.reason == rc.MQRC_SYNCPOINT_LIMIT_REACHED:
            raise
        _put_dead_letter_reply(session, body, request, error.reason, name)
        return error.reason
    return rc.MQRC_NONE


def _put_dead_letter_reply(
    session: Session, body: bytes, request: PutRequest, reason: int, target: str
) -> None:
    """Put a refused reply on the dead-letter queue, in the session's unit of work.

    ``reason`` is why it was refused, ``target`` the queue that it was for. Raises the error with
    which the dead-letter queue refuses the reply.
    """
    core, transaction = session.core, Transaction()
    with core.engine_lock:
        window = window_at_put(core.now_ms(), request.life_ms)
        ids = MessageIds(request.msg_id or new_id(core), request.correl_id)
        letter = OutgoingMessage(
            prepared_with_own_context(core, request.descriptor), window, ids, body
        )
        dead_letter(core, transaction, letter, reason, target)
        session.unit_of_work.adopt(transaction)


def _request(core: Core, message: Message, descriptor: Descriptor) -> PutRequest:
    """Return the put request of a forwarded message, with its remaining expiry (at least 1 ms)."""
    left_ms = None
    if message.expire_at_ms is not None:
        # It may end right now; a put takes no life of 0.
        left_ms = max(message.expire_at_ms - core.now_ms(), 1)
        left_ms = min(left_ms, core.settings.longest_life_ms)
    return PutRequest(
        # A blank PutDate means the moment of the put, which is another one now.
        descriptor._replace(
            put_date=descriptor.put_date or message.put_date,
            put_time=descriptor.put_time or message.put_time,
        ),
        message.msg_id,
        stored_id(message.correl_id),
        left_ms,
        capped_by=row_of(message).capped_by,
    )


def find_got_message(session: Session, queue: str, token: bytes) -> Message | None:
    """Return the message that the session's unit of work has got, by queue and MsgToken.

    Returns None if the unit of work has got no such message.
    """
    core, unit_of_work = session.core, session.unit_of_work
    with core.engine_lock:
        own = [pending for pending, is_got in unit_of_work.open_puts() if is_got]
        found = [*unit_of_work.taken(), *own]
    for source, row, _persistence in found:
        if source.name == queue and message_token(row.k, row.put_ms) == token:
            return Message(queue, row, core.now_ms(), row.body)
    return None
