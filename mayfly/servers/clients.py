"""Clients of a server, whatever their protocol: their places, connections and status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import count
from typing import NamedTuple

from mayfly.admin.security.applicant import Admitted, Applicant
from mayfly.client.connection import LocalConnection
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.queue_manager import QueueManager

#: Numbers of sockets of clients. All servers of a process share them: administration tells the
#: instances of a channel apart by them, whichever protocol each speaks.
INSTANCE_NUMBERS = count(1)


class Place(NamedTuple):
    """Where a client has come in: an instance of a channel, from an address."""

    queue_manager: str
    channel: str
    address: str


class Instances:
    """Counts the instances of each channel: MAXINST, and MAXINSTC for those of one address."""

    def __init__(self) -> None:
        self._by_place: Counter[Place] = Counter()

    def enter(self, place: Place, admitted: Admitted) -> None:
        """Count a client; raises MQRC_CHANNEL_NOT_AVAILABLE for one too many."""
        same = sum(count for other, count in self._by_place.items() if other[:2] == place[:2])
        is_full = same >= admitted.max_instances
        if is_full or self._by_place[place] >= admitted.max_instances_per_client:
            said = f"channel {place.channel} has as many instances as it may"
            raise mq_error(rc.MQRC_CHANNEL_NOT_AVAILABLE, said)
        self._by_place[place] += 1

    def leave(self, place: Place) -> None:
        """Count a client no more."""
        self._by_place[place] -= 1
        if not self._by_place[place]:
            del self._by_place[place]


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


class ClientStatus(NamedTuple):
    """One conversation of a client, see ``channel.ClientConnection``.

    ``instance`` is the number of its socket; ``request_count`` counts the messages both ways.
    """

    number: int
    instance: int
    queue_manager: str
    channel: str
    user: str
    address: str
    application: str
    has_tls: bool
    connected_ms: int
    request_count: int
    heartbeat_ms: int
    sent_bytes: int
    received_bytes: int
    sending_manager: str = ""
