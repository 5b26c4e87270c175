"""Clients and servers that are killed, stopped or cut off: nothing is lost, nothing comes twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.admin.security.applicant import Admitted
from mayfly.client.connection.endpoint import Address, Endpoint
from mayfly.client.connection.remote import RemoteConnection, connect
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import ConnectionBroken, LostAnswer, MQError
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Settlement
from tests.connection.scene import BOTH_WAYS, JOIN_SECONDS, PERSISTENT, VOLATILE, Told, put
from tests.connection.serving import HOST, Served, serving
from tests.facts import wait_until

ROOT = Path(__file__).parents[3]


@pytest.fixture
def served(queue_manager: QueueManager) -> Iterator[Served]:
    """``QM1`` served with heartbeats of half a second or so, with ``Q1``."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(100000)").ok
    with serving(queue_manager, terms=Admitted(user="", heartbeat_s=1)) as it:
        yield it


def _program(name: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.servers.wire.programs", name, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _said(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


def _end(program: subprocess.Popen[str]) -> None:
    program.kill()
    program.communicate()


def test_G8_a_stopped_client_that_holds_a_message_gives_it_back_after_two_heartbeats(
    queue_manager: QueueManager, served: Served
) -> None:
    assert isinstance(served.address, Address)
    with queue_manager.session() as session:
        session.put("Q1", b"held", persistent=True)
    holder = _program("hold", str(served.address.port))
    try:
        assert _said(holder) == "held"
        waiter = served.connect("operator")
        queue = waiter.call(ask.Open("Q1", BOTH_WAYS)).handle
        told = Told()
        waiter.begin(ask.GetAny([queue], c.MQGMO_WAIT), told)
        os.kill(holder.pid, signal.SIGSTOP)
        [delivery] = told.wait()
        assert (delivery.result.message.body, delivery.result.message.backout_count) == (b"held", 1)
        waiter.close(commit=False)
    finally:
        _end(holder)


def test_a_live_client_that_says_nothing_is_kept_for_many_heartbeats(served: Served) -> None:
    quiet = served.connect("operator")
    witness = Told()

    def received_bytes() -> int:
        [status] = served.server.connections()
        return status.received_bytes

    # Signs of life come twice in a heartbeat; a server that counted none ends it after two.
    for _ in range(6):
        before = received_bytes()
        wait_until(lambda: received_bytes() > before)  # noqa: B023  # of this round
    quiet.begin(ask.WaitUntil(0), witness)
    assert witness.wait() == [None]
    assert not quiet.is_broken
    quiet.close()


def test_a_client_notices_a_stopped_server_within_two_heartbeats(tmp_path: Path) -> None:
    server = _program("serve", str(tmp_path / "QM1"), "1")
    try:
        port = int(_said(server))
        endpoint = Endpoint((Address(HOST, port),), "CH", "QM1", heartbeat_s=1)
        connection = connect(endpoint, "operator", "secret")
        queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
        os.kill(server.pid, signal.SIGSTOP)
        with pytest.raises(ConnectionBroken) as broken:
            connection.get(queue, c.MQGMO_WAIT, wait_ms=c.MQWI_UNLIMITED)
        assert broken.value.reason == rc.MQRC_CONNECTION_BROKEN
        assert "two heartbeats" in broken.value.detail
        connection.close()
    finally:
        _end(server)


@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=pytest.mark.soak)])
def test_killed_clients_lose_nothing_and_double_nothing(
    queue_manager: QueueManager, kills: int
) -> None:
    """Programs that move messages from Q1 to Q2 in units of work are killed again and again.

    Without the short heartbeats of the others: a busy machine ends no program that lives.
    """
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(Q2)").ok
    with serving(queue_manager) as served:
        _move_and_be_killed(queue_manager, served, kills)


def _move_and_be_killed(queue_manager: QueueManager, served: Served, kills: int) -> None:
    assert isinstance(served.address, Address)
    with queue_manager.session() as session:
        for number in range(400):
            session.put("Q1", b"%d" % number, persistent=True)
    chance = random.Random(7)
    for _ in range(kills):
        mover = _program("move", str(served.address.port))
        assert _said(mover) == "moving"
        for _ in range(chance.randrange(1, 8)):
            _said(mover)
        _end(mover)
    last = _program("move", str(served.address.port))
    assert last.wait(JOIN_SECONDS) == 0
    last.communicate()
    wait_until(lambda: not served.server.connections())
    with queue_manager.session() as session:
        moved = Counter(message.body for message in session.browse("Q2"))
    assert moved == Counter(b"%d" % number for number in range(400))
    assert queue_manager.curdepth("Q1") == 0
    assert queue_manager.verify().ok


@pytest.mark.slow
@pytest.mark.parametrize("lives", [1, pytest.param(4, marks=pytest.mark.soak)])
def test_a_killed_server_leaves_in_doubt_only_what_was_not_answered(
    tmp_path: Path, lives: int
) -> None:
    """What a client was told is durable is there; what it was not told it can find out."""
    folder = tmp_path / "QM1"
    told: list[bytes] = []
    doubtful: list[bytes] = []
    for life in range(lives):
        server = _program("serve", str(folder), "300")
        port = int(_said(server))
        connections = [_connected(port) for _ in range(4)]
        threads = [
            threading.Thread(target=_put_until_broken, args=(each, life, place, told, doubtful))
            for place, each in enumerate(connections)
        ]
        for thread in threads:
            thread.start()
        goal = len(told) + 60
        wait_until(lambda: len(told) >= goal)  # noqa: B023  # of this round
        server.kill()
        server.communicate()
        for thread in threads:
            thread.join(JOIN_SECONDS)
            assert not thread.is_alive()
        for each in connections:
            each.close(commit=False)
    assert len(doubtful) <= 2 * 4 * lives
    assert b"a put under syncpoint" not in doubtful
    with QueueManager("QM1", folder) as manager:
        with manager.session() as session:
            there = Counter(message.body for message in session.browse("Q1"))
        assert manager.verify().ok
    assert max(there.values()) == 1
    assert set(told) <= there.keys() <= set(told) | set(doubtful)


def _connected(port: int) -> RemoteConnection:
    return connect(Endpoint((Address(HOST, port),), "CH", "QM1"), "operator", "secret")


def _put_until_broken(
    connection: RemoteConnection, life: int, place: int, told: list[bytes], doubtful: list[bytes]
) -> None:
    queue, number = connection.call(ask.Open("Q1", c.MQOO_OUTPUT)).handle, 0
    while True:
        number += 1
        pair = [b"%d/%d/%d/%d" % (life, place, number, half) for half in range(2)]
        is_sent = False
        try:
            for body in pair:
                put(connection, queue, body, descriptor=PERSISTENT, options=c.MQPMO_SYNCPOINT)
            is_sent = True
            connection.call(ask.Commit())
        except LostAnswer:
            # Only of the commit: what is put under syncpoint is backed out for certain.
            doubtful += pair if is_sent else [b"a put under syncpoint"]
            return
        except ConnectionBroken:
            return
        told += pair


def test_a_commit_whose_answer_is_lost_is_in_doubt_and_a_put_before_it_is_not(
    served: Served,
) -> None:
    connection = served.connect("operator")
    queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
    put(connection, queue, b"1", descriptor=VOLATILE, options=c.MQPMO_SYNCPOINT)
    [status] = served.server.connections()
    served.server.end(status.number)
    wait_until(lambda: connection.is_broken)
    # It is known to be gone before anything is sent: nothing is in doubt.
    with pytest.raises(ConnectionBroken) as known:
        connection.call(ask.Commit())
    assert not isinstance(known.value, LostAnswer)
    connection.close(commit=False)


def test_a_storm_of_cancellations_loses_no_message(
    queue_manager: QueueManager, served: Served
) -> None:
    """Standing gets are begun and cancelled while others put: each message comes once or stays."""
    getter, putter = served.connect("operator"), served.connect("operator")
    queue = getter.call(ask.Open("Q1", BOTH_WAYS)).handle
    target = putter.call(ask.Open("Q1", c.MQOO_OUTPUT)).handle
    told = Told()

    def put_all() -> None:
        for number in range(300):
            put(putter, target, b"%d" % number, descriptor=VOLATILE)

    thread = threading.Thread(target=put_all)
    thread.start()
    cancelled = 0
    for _ in range(500):
        standing = getter.begin(ask.GetAny([queue], c.MQGMO_WAIT), told)
        cancelled += standing.cancel()
    thread.join(JOIN_SECONDS)
    told.wait(500 - cancelled)
    assert len(told.deliveries) == 500 - cancelled
    numbers = [delivery.number for delivery in told.deliveries]
    got = Counter(told.bodies)
    getter.call(ask.Settle(list(numbers), Settlement.TAKEN))
    with queue_manager.session() as session:
        got.update(message.body for message in session.browse("Q1"))
    assert got == Counter(b"%d" % number for number in range(300))
    getter.close()
    putter.close()


def test_thousands_of_waits_on_one_connection_cost_no_threads(queue_manager: QueueManager) -> None:
    """Without the short heartbeats of the others: a busy machine keeps nobody from answering."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(100000)").ok
    with serving(queue_manager) as served:
        _wait_by_thousands(served.connect("operator"))


def _wait_by_thousands(connection: RemoteConnection) -> None:
    queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
    told = Told()
    connection.begin(ask.GetAny([queue], c.MQGMO_WAIT), told)
    before = threading.active_count()
    for _ in range(2_999):
        connection.begin(ask.GetAny([queue], c.MQGMO_WAIT), told)
    assert threading.active_count() <= before + 1
    for _ in range(3_000):
        put(connection, queue, b"x", descriptor=VOLATILE)
    assert len(told.wait(3_000)) == 3_000
    assert threading.active_count() <= before + 1
    connection.close()


@pytest.mark.slow
def test_a_thousand_idle_connections_take_little_memory(tmp_path: Path) -> None:
    server = _program("serve", str(tmp_path / "QM1"), "300")
    try:
        port = int(_said(server))
        first = _connected(port)
        before_kib = _resident_kib(server.pid)
        others = [_connected(port) for _ in range(1_000)]
        assert _resident_kib(server.pid) - before_kib < 40 * 1_024
        queue = others[-1].call(ask.Open("Q1", BOTH_WAYS)).handle
        put(others[-1], queue, b"x", descriptor=VOLATILE)
        assert first.get(first.call(ask.Open("Q1", BOTH_WAYS)).handle).message.body == b"x"
        for each in (first, *others):
            each.close()
    finally:
        _end(server)


def _resident_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


def test_a_connection_after_a_fork_is_its_parents(served: Served) -> None:
    connection = served.connect("operator")
    child = os.fork()
    if not child:
        reason = 0
        try:
            connection.now_ms()
        except MQError as error:
            reason = error.reason
        os._exit(0 if reason == rc.MQRC_HCONN_ERROR else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert connection.now_ms() > 0
    connection.close()
