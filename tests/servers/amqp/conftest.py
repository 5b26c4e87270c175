"""A served queue manager with a virtual clock, and a client that has every frame in its hands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

pytest.importorskip("proton", reason="python-qpid-proton is built by a C compiler; there is none")

from mayfly import QueueManager
from mayfly.admin.security.admission import Admitted, Applicant
from mayfly.client.connection import connect
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.servers.amqp.connection import AmqpServer
from mayfly.servers.amqp.service import AmqpLimits
from mayfly.servers.budget import Budget
from mayfly.testing import VirtualClock
from tests.servers.amqp.client import Client

#: Of messages that are in memory, all connections together.
BUDGET_BYTES = 2_000_000
OBJECTS = """
DEFINE QLOCAL(Q1) DEFPSIST(YES)
DEFINE QLOCAL(DEAD)
DEFINE QLOCAL(BACK)
DEFINE QLOCAL(RETRIED) BOTHRESH(2) BOQNAME(BACK)
DEFINE QLOCAL(SMALL) MAXDEPTH(1)
ALTER QMGR DEADQ(DEAD)
"""


class OneUser:
    """Lets in app with its password, and anybody without a password."""

    def __init__(self) -> None:
        self.applicants: list[Applicant] = []

    def submit(self, applicant: Applicant) -> Future[Admitted]:
        self.applicants.append(applicant)
        answer: Future[Admitted] = Future()
        if applicant.user == "app" and applicant.password != "secret":
            answer.set_exception(mq_error(rc.MQRC_NOT_AUTHORIZED, "wrong password"))
        else:
            answer.set_result(Admitted(user=applicant.user, max_message_bytes=1_000_000))
        return answer


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(start_ms=1_700_000_000_000)


@pytest.fixture
def qm(clock: VirtualClock) -> Iterator[QueueManager]:
    with QueueManager("QM1", clock=clock) as manager:
        assert manager.mqsc(OBJECTS).ok
        yield manager


@pytest.fixture
def admission() -> OneUser:
    return OneUser()


@pytest.fixture
def server(qm: QueueManager, admission: OneUser) -> Iterator[AmqpServer]:
    limits = AmqpLimits(credit=10, idle_timeout_ms=0)
    served = AmqpServer(
        ["QM1"],
        admission,
        lambda name, _admitted, _applicant: connect(name, program="AMQP"),
        limits=limits,
        budget=Budget(BUDGET_BYTES),
    )
    yield served
    served.close()


@pytest.fixture
def port(server: AmqpServer) -> int:
    return server.listen_tcp("127.0.0.1", 0)


@pytest.fixture
def client(port: int) -> Iterator[Callable[..., Client]]:
    made: list[Client] = []

    def new(**options: object) -> Client:
        made.append(Client(port, **options))  # type: ignore[arg-type]  # the client's own options
        return made[-1]

    yield new
    for one in made:
        one.cut()
