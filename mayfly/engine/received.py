"""Messages that come from elsewhere: they are put as they stand, or end with what they are owed.

A channel, or another kind of queue manager, brings them with their ids, their context and what is
left of their lives. With a session they are part of its unit of work, without one on their own.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from mayfly.engine.core import Core
from mayfly.engine.delivery import Ids, OutgoingMessage
from mayfly.engine.disposal import as_given, dead_letter, send_report
from mayfly.engine.holding import puts
from mayfly.engine.objects.registry import topic_alias
from mayfly.engine.put import PutRequest, put
from mayfly.engine.session import Session
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.reports import Cause, Original
from mayfly.lifetime.window import window_at_put
from mayfly.mqi.constants import (
    MQOO_OUTPUT,
    MQOO_SET_ALL_CONTEXT,
    MQPER_PERSISTENT,
    MQRO_DISCARD_MSG,
)
from mayfly.mqi.errors import MQError
from mayfly.verbs.checks import stored_id

_LOG = logging.getLogger("mayfly.channel")


class Refused(NamedTuple):
    """A message that cannot be put on its ``target``, ``QUEUE`` or ``QUEUE@MANAGER``."""

    original: Original
    target: str
    #: Whether the dead-letter queue may have it.
    may_be_letter: bool


def put_received(
    core: Core, session: Session, name: str, body: bytes, request: PutRequest, *, in_unit: bool
) -> None:
    """Put a message under a name, or publish it where the name is an alias of a topic.

    The session's user must be allowed to set all context there. Raises the reason codes of open
    and put.
    """
    if topic_alias(core.registry, name) is not None:
        session.publish_as("", body, request, syncpoint=in_unit, alias=name)
        return
    if session.authority is not None:
        session.authority.check_open(name, MQOO_OUTPUT | MQOO_SET_ALL_CONTEXT)
    path = core.registry.resolve_target(name)
    unit = session.unit_of_work if in_unit else None
    put(core, path, body, request, context=session.context, unit_of_work=unit)


def report_expiration(core: Core, original: Original, session: Session | None) -> None:
    """Send the report that a message asked for whose life has elapsed elsewhere (E19).

    It goes to the dead-letter queue where it cannot be delivered (R4).
    """
    transaction = Transaction()
    with core.engine_lock:
        send_report(core, transaction, Cause.EXPIRATION, original._replace(remaining_ms=0))
        if session is not None:
            session.unit_of_work.adopt(transaction)
    if session is None:
        core.committer.run(transaction)


def refuse(core: Core, message: Refused, error: MQError, session: Session | None) -> None:
    """Discard or dead-letter a message that cannot be put, with its report.

    Raises ``error`` for a persistent one that has to stay where it comes from (Q5, R5).
    """
    transaction = Transaction()
    with core.engine_lock:
        add_refusal(core, transaction, message, message.original, error)
        if session is not None:
            session.unit_of_work.adopt(transaction)
    if session is None:
        core.committer.run(transaction)


def add_refusal(
    core: Core, transaction: Transaction, message: Refused, about: Original, error: MQError
) -> bool:
    """Add the exception report and the dead letter of a message; True if there is a dead letter.

    The report describes ``about``; of a message in transit, the one inside it. A non-persistent
    message that cannot become a dead letter is dropped. Raises ``error`` for a persistent one, and
    when its report reaches no queue; nothing is added then.
    """
    assert core.engine_lock.is_held()
    descriptor = message.original.descriptor
    is_sent = send_report(core, transaction, Cause.EXCEPTION, about, error.reason)
    is_discarded = bool(descriptor.report & MQRO_DISCARD_MSG)
    is_letter = (
        not is_discarded
        and message.may_be_letter
        and _is_dead_lettered(core, transaction, message, error.reason)
    )
    # R5: a persistent message on which no report can be sent is not given up.
    is_settled = is_sent and (is_discarded or is_letter)
    if descriptor.persistence == MQPER_PERSISTENT and not is_settled:
        puts.withdraw_all(transaction)
        raise error
    if not is_letter:
        said = f"message for {message.target} dropped: {error}"
        kind = "dropped", message.target, error.reason
        core.alike_warnings.note(_LOG, kind, core.now_ms(), said)
    return is_letter


def _is_dead_lettered(core: Core, transaction: Transaction, message: Refused, reason: int) -> bool:
    original, target = message.original, message.target
    window = window_at_put(core.now_ms(), original.remaining_ms)
    ids = Ids(original.msg_id, stored_id(original.correl_id))
    try:
        letter = OutgoingMessage(as_given(core, original.descriptor), window, ids, original.body)
        dead_letter(core, transaction, letter, reason, target)
    except MQError as error:
        said = f"dead-letter queue refuses a message for {target}: {error}"
        core.alike_warnings.note(_LOG, ("letter", target, error.reason), core.now_ms(), said)
        return False
    return True
