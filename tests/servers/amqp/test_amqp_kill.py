"""Transactions of AMQP clients across kill -9 of the server, and links cut in their midst."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from proton import Delivery, Described, Message, ulong

from mayfly import QueueManager
from tests.servers.amqp.client import Client

FROM, TO = "DEV.QUEUE.1", "DEV.QUEUE.2"
COUNT, MOVES = 60, 20


@contextmanager
def served(home: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Serve QM1 in a process of its own; yield it and the port."""
    command = [sys.executable, "-m", "mayfly", "serve", "QM1", "--dev", "--json"]
    with subprocess.Popen(
        [*command, "--mq", "127.0.0.1:0", "--flight", "127.0.0.1:0", "--amqp", "127.0.0.1:0"],
        env={**os.environ, "MAYFLY_HOME": str(home), "MAYFLY_APP_PASSWORD": "passw0rd"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            ready = json.loads(server.stdout.readline())
            yield server, int(ready["amqp"].rpartition(":")[2])
        finally:
            server.kill()
            server.communicate()


def new_client(port: int) -> Client:
    return Client(port, user="app", password="passw0rd")


def bodies(manager: QueueManager, queue: str) -> list[str]:
    with manager.session() as session:
        return [bytes(message.data).decode() for message in session.browse(queue)]


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["server", pytest.param("link", marks=pytest.mark.long)])
def test_a_message_that_a_transaction_moves_is_in_one_place_across_its_end(
    tmp_path: Path, ending: str
) -> None:
    moved: set[str] = set()
    with served(tmp_path) as (server, port):
        one = new_client(port)
        sender, coordinator = one.sender(FROM), one.coordinator()
        for n in range(COUNT):
            assert one.send(sender, Message(body=str(n), durable=True)).settled
        onward = one.sender(TO)
        # Two of the messages of each round are held and not settled when it ends.
        receiver = one.receiver(FROM, credit=3)
        for n in range(MOVES):
            name = one.declare(coordinator)
            message, delivery = one.receive(receiver)
            one.take_within(delivery, name)
            one.send(onward, Message(body=message.body, durable=True), name)
            if n == MOVES - 1:
                one.begin(coordinator, Message(body=Described(ulong(0x32), [name, False])))
                break
            outcome = one.discharge(coordinator, name, fail=False)
            assert outcome.remote_state == Delivery.ACCEPTED
            moved.add(message.body)
            receiver.flow(1)
        if ending == "server":
            server.kill()
            server.communicate()
            one.cut()
        else:
            one.cut()
            # Who comes next gets what the lost link held.
            other = new_client(port)
            left = other.receiver(FROM, credit=COUNT)
            count = COUNT - len(moved) - 1
            for _ in range(count):
                other.receive(left)
            other.close()
            server.terminate()
            server.communicate()
    with QueueManager("QM1", tmp_path / "QM1") as manager:
        source, target = bodies(manager, FROM), bodies(manager, TO)
        assert sorted(source + target, key=int) == [str(n) for n in range(COUNT)]
        assert moved <= set(target)
        # The last transaction is committed or backed out, as a whole.
        assert len(moved) <= len(target) <= len(moved) + 1
        assert manager.verify().ok


@pytest.mark.slow
def test_a_mixture_of_settled_and_unsettled_messages_across_kill_9(tmp_path: Path) -> None:
    """What was told to be there is there once; what was not told is there once at most."""
    told: set[str] = set()
    sent: set[str] = set()
    with served(tmp_path) as (server, port):
        one = new_client(port)
        sender, settled = one.sender(FROM), one.sender(FROM, is_settled=True)
        for n in range(300):
            sent.add(str(n))
            if n % 3 == 0:
                one.begin(settled, Message(body=str(n), durable=True))
                continue
            delivery = one.begin(sender, Message(body=str(n), durable=True))
            if n % 7 == 0:
                one.until(partial(getattr, delivery, "settled"))
                assert delivery.remote_state == Delivery.ACCEPTED
                told.add(str(n))
        server.kill()
        server.communicate()
        with contextlib.suppress(OSError):
            one.cut()
    with QueueManager("QM1", tmp_path / "QM1") as manager:
        found = bodies(manager, FROM)
        assert len(found) == len(set(found))
        assert told <= set(found) <= sent
        assert [int(body) for body in found] == sorted(map(int, found))
        assert manager.verify().ok
