"""A connection to a queue manager in memory, in virtual time, with one queue.

A sample of the tests that use its queue manager runs a second time, as a client of MQSERVER over a
socket. ``MAYFLY_TEST_OVER=wire`` runs all of them over sockets (tests/over_wire.py).
"""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator
from zlib import crc32

import pytest

from mayfly import QueueManager, pymqi
from mayfly.pymqi import CMQC
from mayfly.security.applicant import Admitted, Applicant
from mayfly.servers.wire import WireServer
from tests.connection.serving import DecidesAtOnce
from tests.over_wire import IN_PROCESS, IS_ASKED_FOR

HOST = "127.0.0.1"
#: One test function of so many is in the sample.
SAMPLE_OF = 6

Verb = Callable[..., object]
Fails = Callable[..., pymqi.MQMIError]

BOTH_WAYS = CMQC.MQOO_INPUT_SHARED | CMQC.MQOO_OUTPUT | CMQC.MQOO_BROWSE


class AsInProcess(DecidesAtOnce):
    """Lets everybody in as it is within a process: who runs the test may do everything."""

    def admit(self, applicant: Applicant) -> Admitted:
        """Return the terms."""
        if applicant.user == getpass.getuser():
            return Admitted(user="", is_operator=True)
        return Admitted(user=applicant.user)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the sample of what uses ``queue_manager`` in both ways."""
    name = metafunc.function.__name__
    is_left_out = IS_ASKED_FOR or name.startswith(tuple(IN_PROCESS))
    if is_left_out or not {"queue_manager", "over"} <= set(metafunc.fixturenames):
        return
    if "served" not in metafunc.fixturenames and crc32(name.encode()) % SAMPLE_OF == 0:
        metafunc.parametrize("over", ["local", "tcp"], indirect=True)


@pytest.fixture(autouse=True)
def over(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """How ``pymqi.connect("QM1")`` reaches its queue manager."""
    name: str = getattr(request, "param", "local")
    if name == "local":
        yield name
        return
    server = WireServer([request.getfixturevalue("queue_manager")], AsInProcess())
    port = server.listen_tcp(HOST, 0)
    monkeypatch.setenv("MQSERVER", f"CH/TCP/{HOST}({port})")
    yield name
    server.close()


@pytest.fixture
def connection(queue_manager: QueueManager) -> Iterator[pymqi.QueueManager]:
    """Connected to ``QM1``, which has the queue ``Q1``."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    connected = pymqi.connect("QM1")
    yield connected
    if connected.is_connected:
        connected.disconnect()


@pytest.fixture
def queue(connection: pymqi.QueueManager) -> pymqi.Queue:
    """``Q1``, open for input, output and browse."""
    return pymqi.Queue(connection, "Q1", BOTH_WAYS)


@pytest.fixture
def fails() -> Callable[..., pymqi.MQMIError]:
    """Call something that must raise MQMIError and return the error."""

    def call(verb: Verb, *arguments: object) -> pymqi.MQMIError:
        with pytest.raises(pymqi.MQMIError) as caught:
            verb(*arguments)
        return caught.value

    return call
