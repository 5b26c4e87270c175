"""Queue managers served on real sockets, to whoever asks, and connections to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from mayfly import QueueManager
from mayfly.admin.security.applicant import Admitted, Applicant
from mayfly.client.connection.endpoint import Address, AnyAddress, Endpoint
from mayfly.client.connection.remote import RemoteConnection, connect
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.servers.budget import Budget
from mayfly.servers.wire import Limits, WireServer

HOST = "127.0.0.1"


class DecidesAtOnce(ABC):
    """An admission that looks at no password; a subclass says who is admitted."""

    @abstractmethod
    def admit(self, applicant: Applicant) -> Admitted:
        """Return the terms, or raise MQError."""

    def submit(self, applicant: Applicant) -> Future[Admitted]:
        """Return the answer, which is there already."""
        answer: Future[Admitted] = Future()
        try:
            answer.set_result(self.admit(applicant))
        except MQError as error:
            answer.set_exception(error)
        return answer


@dataclass
class AdmitEverybody(DecidesAtOnce):
    """Lets everybody in as who they say they are, on the same terms; notes who has asked.

    ``operators``, and who says nothing, may do everything.
    """

    terms: Admitted = field(default_factory=lambda: Admitted(user=""))
    operators: frozenset[str] = frozenset({"operator"})
    applicants: list[Applicant] = field(default_factory=list)

    def admit(self, applicant: Applicant) -> Admitted:
        """Return the terms."""
        self.applicants.append(applicant)
        if applicant.channel == "NONE":
            raise mq_error(rc.MQRC_UNKNOWN_CHANNEL_NAME)
        if applicant.password == "wrong":
            raise mq_error(rc.MQRC_NOT_AUTHORIZED)
        is_operator = applicant.user in self.operators or not applicant.user
        return replace(self.terms, user=applicant.user, is_operator=is_operator)


@dataclass
class Served:
    """A server and where it listens."""

    server: WireServer
    address: AnyAddress
    admission: AdmitEverybody

    def endpoint(self, queue_manager: str = "QM1", **more: object) -> Endpoint:
        """Return where a client connects to."""
        return Endpoint((self.address,), "CH", queue_manager)._replace(**more)  # type: ignore[arg-type]  # fields by name

    def connect(self, user: str = "anna", **more: object) -> RemoteConnection:
        """Connect a user."""
        return connect(self.endpoint(**more), user, "secret", application="tests")  # type: ignore[arg-type]  # fields by name


@contextmanager
def serving(
    *managers: QueueManager,
    socket: Path | None = None,
    limits: Limits | None = None,
    terms: Admitted | None = None,
    budget: Budget | None = None,
) -> Iterator[Served]:
    """Serve queue managers on a free port of the loopback interface, or on a UNIX socket."""
    admission = AdmitEverybody() if terms is None else AdmitEverybody(terms)
    server = WireServer(managers, admission, limits=limits, budget=budget)
    try:
        address: AnyAddress
        if socket is None:
            address = Address(HOST, server.listen_tcp(HOST, 0))
        else:
            server.listen_unix(socket)
            address = socket
        yield Served(server, address, admission)
    finally:
        server.close()
