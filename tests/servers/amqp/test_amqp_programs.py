"""Programs that hold messages and end, or stand still: what they held comes back, once."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from proton import Delivery, Endpoint, Message

from mayfly import QueueManager
from mayfly.client.connection import connect
from mayfly.servers.amqp.connection import AmqpServer
from tests.facts import wait_until
from tests.servers.amqp.client import SECONDS, Client
from tests.servers.amqp.conftest import OneUser

Passing = Callable[[float], object]
#: Holds as many messages of Q1 as it is told, of which it has accepted the first two.
PROGRAM = """
import sys
from proton.handlers import MessagingHandler
from proton.reactor import Container

class Holder(MessagingHandler):
    def __init__(self):
        super().__init__(prefetch=0, auto_accept=False)
        self.held = []

    def on_start(self, event):
        self.connection = event.container.connect(
            sys.argv[1], user="app", password="secret", reconnect=False, allowed_mechs="PLAIN"
        )
        event.container.create_receiver(self.connection, "Q1").flow(int(sys.argv[2]))

    def on_message(self, event):
        self.held.append(event.delivery)
        if len(self.held) == int(sys.argv[2]):
            for delivery in self.held[:2]:
                self.accept(delivery)
            # Its answer comes behind the outcomes.
            event.container.create_sender(self.connection, "Q1")

    def on_sendable(self, event):
        print("held", flush=True)

Container(Holder()).run()
print("ended", flush=True)
"""
SENT, GIVEN, ACCEPTED = 8, 6, 2
IDLE_SECONDS = 60
#: The performative sasl-init with user app and password secret.
_FIELDS = b"\xa3\x05PLAIN\xa0\x0b\0app\0secret"
_LIST = b"\0\x53\x41\xc0" + bytes((len(_FIELDS) + 1, 2)) + _FIELDS
PLAIN_INIT = (len(_LIST) + 8).to_bytes(4, "big") + b"\x02\x01\0\0" + _LIST
SASL_OUTCOME = b"\0\x53\x44"


@pytest.fixture
def server(qm: QueueManager) -> Iterator[AmqpServer]:
    """A server with the idle timeout that it always has."""
    served = AmqpServer(
        ["QM1"], OneUser(), lambda name, _admitted, _applicant: connect(name, program="AMQP")
    )
    yield served
    served.close()


@pytest.fixture
def let_pass(server: AmqpServer, monkeypatch: pytest.MonkeyPatch) -> Passing:
    """Let time pass for the loop of the server; its timers that fall due are done on return."""
    loop, passed_seconds = server.loop, [0.0]
    own_time = loop.time
    monkeypatch.setattr(loop, "time", lambda: own_time() + passed_seconds[0])

    def let_pass(seconds: float) -> None:
        passed_seconds[0] += seconds
        for _ in range(3):
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()

    return let_pass


def put(qm: QueueManager, count: int) -> None:
    with qm.session() as session:
        for n in range(count):
            session.put("Q1", str(n).encode())


def taken(qm: QueueManager) -> list[tuple[str, int]]:
    """Take all messages of Q1: each with its backout count."""
    found = []
    with qm.session() as session:
        while (message := session.get("Q1")) is not None:
            found.append((bytes(message.data).decode(), message.backout_count))
    return found


@contextmanager
def queue_state(port: int) -> Iterator[subprocess.Popen[str]]:
    """Run the program until it holds its messages."""
    command = [sys.executable, "-c", PROGRAM, f"amqp://127.0.0.1:{port}", str(GIVEN)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "held\n"
            yield program
        finally:
            program.kill()


#: Two are accepted; those that the program held have come back, counted.
LEFT = [(str(n), 1 if n < GIVEN else 0) for n in range(ACCEPTED, SENT)]


@pytest.mark.slow
def test_G8_what_a_killed_program_held_comes_back_once_and_counted(
    qm: QueueManager, port: int
) -> None:
    put(qm, SENT)
    with queue_state(port) as program:
        assert qm.counts("Q1").live == SENT - GIVEN
        os.kill(program.pid, signal.SIGKILL)
        wait_until(lambda: qm.counts("Q1").live == SENT - ACCEPTED)
    assert taken(qm) == LEFT
    # The two that it had accepted end beside the others, and do not come back.
    wait_until(lambda: qm.counts("Q1").locked == 0)
    assert taken(qm) == []


@pytest.mark.slow
def test_G8_a_program_that_stands_still_is_given_up_and_loses_what_it_held(
    qm: QueueManager, port: int, let_pass: Passing
) -> None:
    put(qm, SENT)
    with queue_state(port) as program:
        os.kill(program.pid, signal.SIGSTOP)
        wait_until(lambda: let_pass(IDLE_SECONDS) or qm.counts("Q1").live == SENT - ACCEPTED)
        assert taken(qm) == LEFT
        # It goes on, learns of it, and takes nothing any more.
        os.kill(program.pid, signal.SIGCONT)
        put(qm, 1)
        assert program.stdout is not None
        assert program.stdout.readline() == "ended\n"
        assert program.wait() == 0
    assert taken(qm) == [("0", 0)]


def test_a_client_that_sends_nothing_is_ended_with_its_messages_given_back(
    qm: QueueManager, port: int, let_pass: Passing
) -> None:
    one = Client(port)
    assert one.transport.remote_idle_timeout == IDLE_SECONDS / 2
    assert one.send(one.sender("Q1"), Message(body="x")).remote_state == Delivery.ACCEPTED
    one.receive(one.receiver("Q1", credit=1))
    let_pass(IDLE_SECONDS)
    one.settle_down()
    let_pass(IDLE_SECONDS)
    # It was heard in between.
    assert (qm.counts("Q1").live, qm.counts("Q1").locked) == (0, 1)
    wait_until(lambda: let_pass(IDLE_SECONDS) or qm.counts("Q1").live == 1)
    assert qm.counts("Q1").locked == 0
    one.until(lambda: one.connection.state & Endpoint.REMOTE_CLOSED)
    condition = one.connection.remote_condition
    assert condition is not None
    assert condition.name == "amqp:resource-limit-exceeded"
    one.cut()


def test_a_client_that_says_how_long_it_waits_is_sent_empty_frames(
    port: int, let_pass: Passing
) -> None:
    """Else it would take the server for dead."""
    one = Client(port, idle_timeout_seconds=4)
    for _ in range(2):
        let_pass(2)
        assert one.socket.recv(8) == b"\0\0\0\x08\x02\0\0\0"
    one.cut()


def test_a_client_that_does_not_open_its_connection_is_sent_away(
    port: int, let_pass: Passing, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mayfly.amqp")
    with socket.create_connection(("127.0.0.1", port), SECONDS) as one:
        for sent, answer in ((b"AMQP\x03\x01\0\0", b"PLAIN"), (PLAIN_INIT, SASL_OUTCOME)):
            one.sendall(sent)
            got = b""
            while answer not in got:
                part = one.recv(1_000)
                assert part
                got += part
        let_pass(9)
        assert "has not come in" not in caplog.text
        let_pass(2)
        assert one.recv(1_000) == b""
    assert "has not come in in time" in caplog.text
