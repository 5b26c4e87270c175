"""What becomes of a message that has arrived and cannot be put, or whose life has elapsed."""

from __future__ import annotations

import logging

from mayfly.channel.links import Parcel
from mayfly.engine import full_name, stored_id
from mayfly.engine.core import Core
from mayfly.engine.delivery import Ids, Outgoing
from mayfly.engine.disposal import as_given, dead_letter, send_report
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.engine.work import Work
from mayfly.lifetime.reports import Cause, Original
from mayfly.lifetime.window import window_at_put
from mayfly.mqi.constants import MQPER_PERSISTENT, MQRO_DISCARD_MSG
from mayfly.mqi.errors import MQError

_LOG = logging.getLogger("mayfly.channel")


def discard_elapsed(core: Core, unit_of_work: UnitOfWork, parcel: Parcel) -> None:
    """Discard a message whose life is over, with the report it asked for (E19)."""
    work = Work()
    with core.latch:
        add_expiration_report(core, work, parcel)
    _join(core, unit_of_work, parcel, work)


def add_expiration_report(core: Core, work: Work, parcel: Parcel) -> None:
    """Add the report that a message owes whose life is over; call it with the latch held."""
    send_report(core, work, Cause.EXPIRATION, original_of(parcel._replace(life_ms=0)))


def set_aside(
    core: Core,
    unit_of_work: UnitOfWork,
    parcel: Parcel,
    error: MQError,
    *,
    use_dead_letters: bool,
) -> None:
    """Discard or dead-letter a message that cannot be put, as part of its batch.

    Raises why a persistent one has to stay where it comes from (Q5, R5).
    """
    work = Work()
    about = original_of(parcel)
    with core.latch:
        add_exception(core, work, parcel, about, error, use_dead_letters=use_dead_letters)
    _join(core, unit_of_work, parcel, work)


def add_exception(
    core: Core,
    work: Work,
    parcel: Parcel,
    about: Original,
    error: MQError,
    *,
    use_dead_letters: bool,
) -> bool:
    """Add the exception report and the dead letter of a message; tell whether there is a letter.

    The report describes ``about``; where the parcel is one in transit, the message inside it.
    A non-persistent message that cannot become one is dropped. Raises ``error`` for a persistent
    one, and when its report reaches no queue; nothing is added then. Call it with the latch held.
    """
    reason, report = error.reason, parcel.descriptor.report
    is_sent = send_report(core, work, Cause.EXCEPTION, about, reason)
    is_discarded = bool(report & MQRO_DISCARD_MSG)
    is_letter = (
        not is_discarded and use_dead_letters and _is_dead_lettered(core, work, parcel, reason)
    )
    # R5: what cannot be reported on is not given up.
    is_settled = is_sent and (is_discarded or is_letter)
    if parcel.descriptor.persistence == MQPER_PERSISTENT and not is_settled:
        core.unreserve(work)
        raise error
    if not is_letter:
        _LOG.warning("message for %s dropped: %s", parcel.queue, error)
    return is_letter


def _is_dead_lettered(core: Core, work: Work, parcel: Parcel, reason: int) -> bool:
    window = window_at_put(core.now_ms(), parcel.life_ms)
    ids = Ids(parcel.msg_id, stored_id(parcel.correl_id))
    target = full_name(parcel.queue, parcel.manager, core.name)
    try:
        message = Outgoing(as_given(core, parcel.descriptor), window, ids, parcel.body)
        dead_letter(core, work, message, reason, target)
    except MQError as error:
        _LOG.warning("dead-letter queue refuses a message for %s: %s", target, error)
        return False
    return True


def original_of(parcel: Parcel) -> Original:
    """Return a parcel as the original of a report."""
    return Original(parcel.descriptor, parcel.msg_id, parcel.correl_id, parcel.body, parcel.life_ms)


def _join(core: Core, unit_of_work: UnitOfWork, parcel: Parcel, work: Work) -> None:
    if parcel.is_fast:
        core.run(work)
    else:
        with core.latch:
            unit_of_work.adopt(work)
