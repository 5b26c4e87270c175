"""The connection that a program gets when it is let in, whatever the protocol."""

from __future__ import annotations

from collections.abc import Mapping

from mayfly.admin.security.applicant import Admitted, Applicant
from mayfly.client.connection import LocalConnection
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.queue_manager import QueueManager


def manager_of(managers: Mapping[str, QueueManager], applicant: Applicant) -> QueueManager:
    """Return the queue manager that was asked for; raises MQRC_Q_MGR_NAME_ERROR."""
    manager = managers.get(applicant.queue_manager)
    if manager is None:
        said = f"queue manager {applicant.queue_manager!r} is not served here"
        raise mq_error(rc.MQRC_Q_MGR_NAME_ERROR, said)
    return manager


def connection_of(
    managers: Mapping[str, QueueManager], applicant: Applicant, admitted: Admitted
) -> LocalConnection:
    """Open a conversation on the terms of admission; raises MQRC_Q_MGR_NAME_ERROR."""
    manager = manager_of(managers, applicant)
    # An operator has all authority; the name stands in the messages, the ledger and the audit.
    user, known_as = (None, admitted.user) if admitted.is_operator else (admitted.user, "")
    program = applicant.application or "mayfly"
    session = manager.engine.session(
        user,
        program=program,
        groups=admitted.groups,
        known_as=known_as,
        of_visitor=not applicant.is_of_this_process,
    )
    return LocalConnection(session, manager)
