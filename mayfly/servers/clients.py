"""Clients of a server, for all protocols: addresses, admission, channel instances, sessions."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple, Protocol

from mayfly.admin.security.applicant import Admitted, Applicant
from mayfly.client.connection import Connection, LocalConnection
from mayfly.mqi import reasons as rc
from mayfly.mqi.channel_names import spelled
from mayfly.mqi.errors import mq_error
from mayfly.queue_manager import QueueManager
from mayfly.servers.managers import ManagerTable

#: Numbers of sockets of clients. All servers of a process share them: administration tells the
#: instances of a channel apart by them, whichever protocol each speaks.
INSTANCE_NUMBERS = count(1)


@dataclass(frozen=True, slots=True)
class Peer:
    """The client's end of a connection: its address, and the names in its certificate.

    ``address`` is the IP address without the port, "" for a UNIX socket. Subject and issuer are
    written as in SSLPEER, ``CN=anna,O=Shop,C=DE``, and empty without a certificate.
    """

    address: str
    has_tls: bool
    port: int = 0
    certificate_subject: str = ""
    certificate_issuer: str = ""

    @classmethod
    def of(cls, transport: asyncio.BaseTransport) -> Peer:
        """Return the address of a transport's client, and the names in its TLS certificate."""
        name = transport.get_extra_info("peername")
        address, port = (name[0], name[1]) if isinstance(name, tuple) else ("", 0)
        has_tls = transport.get_extra_info("ssl_object") is not None
        certificate: dict[str, Any] = transport.get_extra_info("peercert") or {}
        # A value with a comma is quoted: unquoted it would be read as an attribute more.
        names = [spelled(certificate.get(field, ())) for field in ("subject", "issuer")]
        return cls(address, has_tls, port, *names)

    def __str__(self) -> str:
        """Return ``address(port)`` for the log; ``a UNIX socket`` without an address."""
        return f"{self.address}({self.port})" if self.address else "a UNIX socket"


class Admits(Protocol):
    """Decides whether a program may connect; implemented by ``security.Admission``."""

    def submit(self, applicant: Applicant) -> Future[Admitted]:
        """Start to check ``applicant``, a program that wants to connect; return a future.

        The future gets the user and limits for the connection, or the MQError of a refusal. This
        can take long.
        """


class ChannelClient(NamedTuple):
    """A channel of a queue manager, and the address of a client that uses it."""

    queue_manager: str
    channel: str
    address: str


class ChannelInstances:
    """Counts the connections of each channel, to enforce MAXINST and (per client) MAXINSTC."""

    def __init__(self) -> None:
        """Begin without connections."""
        self._by_place: Counter[ChannelClient] = Counter()

    def enter(self, place: ChannelClient, admitted: Admitted) -> None:
        """Count one more connection of ``place``, a channel and a client's address.

        The limits MAXINST and MAXINSTC are those of ``admitted``.

        Raises MQRC_CHANNEL_NOT_AVAILABLE, counts nothing and lets admission make the event, if
        MAXINST or MAXINSTC is reached.
        """
        same = sum(count for other, count in self._by_place.items() if other[:2] == place[:2])
        is_full = same >= admitted.max_instances
        if is_full or self._by_place[place] >= admitted.max_instances_per_client:
            admitted.report_full(not is_full)
            text = f"channel {place.channel} has as many instances as it may"
            raise mq_error(rc.MQRC_CHANNEL_NOT_AVAILABLE, text)
        self._by_place[place] += 1

    def leave(self, place: ChannelClient) -> None:
        """Count one connection of ``place`` less; :meth:`enter` must have counted it before."""
        self._by_place[place] -= 1
        if not self._by_place[place]:
            del self._by_place[place]


def manager_of(managers: ManagerTable, applicant: Applicant, listener: str) -> QueueManager:
    """Return the queue manager whose name ``applicant``, a client of a ``listener``, asks for.

    Raises MQRC_Q_MGR_NAME_ERROR if this server does not serve it, MQRC_HOST_NOT_AVAILABLE for one
    that another server owns.
    """
    manager = managers.get(applicant.queue_manager)
    if manager is None:
        absence = managers.absence(applicant.queue_manager, listener)
        if absence is not None:
            raise absence
        text = f"queue manager {applicant.queue_manager!r} is not served here"
        raise mq_error(rc.MQRC_Q_MGR_NAME_ERROR, text)
    return manager


def connection_of(
    managers: ManagerTable, applicant: Applicant, admitted: Admitted, listener: str
) -> LocalConnection:
    """Open a local connection to the queue manager that an admitted client asks for.

    The connection has the user and groups that admission has decided; an operator has all
    authority. ``listener`` is the name of that by which the client came. Raises
    MQRC_Q_MGR_NAME_ERROR if this server does not serve the queue manager, MQRC_HOST_NOT_AVAILABLE
    if another server owns it.
    """
    manager = manager_of(managers, applicant, listener)
    # An operator has all authority; messages, ledger and audit show the user's name.
    user, known_as = (None, admitted.user) if admitted.is_operator else (admitted.user, "")
    program = applicant.application or "mayfly"
    session = manager.engine.session(
        user,
        program=program,
        groups=admitted.groups,
        known_as=known_as,
        address=applicant.address,
        channel=applicant.channel,
        is_foreign_client=not applicant.is_of_this_process,
    )
    return LocalConnection(session, manager)


def close_all(connections: Iterable[Connection], log: logging.Logger) -> None:
    """Close connections without a commit; the call may block. Errors are logged, not raised."""
    for connection in connections:
        try:
            connection.close(commit=False)
        except Exception as error:  # noqa: BLE001 - the others are closed as well
            log.warning("closing a conversation of %s: %s", connection.name, error)
