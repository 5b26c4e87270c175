"""Networks that are cut, throttled, slow or silent: nothing is lost, nothing comes twice.

Clients on one machine put and move messages of a server on another one. What a client was told is
there, whole units of work alone are there, each message once.
"""

from __future__ import annotations

import json
import random
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mayfly.client import Client
from mayfly.mqi import reasons as rc
from tests.client.processes import operating, process, serving
from tests.facts import PATIENCE_SECONDS, wait_until
from tests.machines import Machine, TwoMachines, two_machines
from tests.relay import Relay, relaying

#: Clients by CUT have a socket each and heartbeats of a second. Those by LONG share a socket, and
#: notice nothing of a short cut.
SCRIPT = """
DEFINE QLOCAL(Q1) MAXDEPTH(999999)
DEFINE QLOCAL(Q2) MAXDEPTH(999999)
DEFINE QLOCAL(Q3)
DEFINE QLOCAL(EMPTY)
ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) AUTHTYPE(IDPWOS) CHCKCLNT(OPTIONAL)
DEFINE CHANNEL(CUT) CHLTYPE(SVRCONN) HBINT(1) SHARECNV(1) MCAUSER('mover')
DEFINE CHANNEL(LONG) CHLTYPE(SVRCONN) HBINT(300) SHARECNV(10) MCAUSER('mover')
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('mover') AUTHADD(CONNECT)
SET AUTHREC PROFILE('*') OBJTYPE(QUEUE) PRINCIPAL('mover') AUTHADD(PUT,GET)
"""
#: Those that do not connect again, in each program of traffic.
PLAIN = 5
ENOUGH = 5


class Traffic:
    """A program of clients, and what it has said so far."""

    def __init__(self, running: subprocess.Popen[str]) -> None:
        """Take the process."""
        self._running = running
        self.said: list[dict[str, Any]] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self._running.stdout is not None
        for line in self._running.stdout:
            self.said.append(json.loads(line))

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return what was said of a kind."""
        return [fact for fact in self.said if fact["kind"] == kind]

    def wait_for_more(self) -> None:
        """Return when more units of work of both kinds are done."""
        goals = {kind: self._done(kind) + ENOUGH for kind in ("put", "move")}
        wait_until(lambda: all(self._done(kind) >= goal for kind, goal in goals.items()))

    def _done(self, kind: str) -> int:
        return sum("done" in fact for fact in self.of(kind))

    def bodies(self, outcome: str) -> set[str]:
        """Return what is put for certain (``done``), or perhaps (``doubt``)."""
        return {body for fact in self.of("put") for body in fact.get(outcome, ())}

    def end(self) -> None:
        """End its clients; their last units of work are known then."""
        assert self._running.stdin is not None
        print("end", file=self._running.stdin, flush=True)
        assert self._running.wait(PATIENCE_SECONDS) == 0
        self._reading.join()

    def check(self) -> None:
        """Check what is in doubt, and by which reason: commits, and no verb before them."""
        assert [fact for fact in self.said if "wrong" in fact] == []
        doubts = {fact["reason"] for fact in self.said if "doubt" in fact}
        assert doubts <= {rc.MQRC_CONNECTION_BROKEN, rc.MQRC_CALL_INTERRUPTED}
        assert {fact["reason"] for fact in self.of("ended")} <= {rc.MQRC_CONNECTION_BROKEN}


@contextmanager
def traffic(home: Path, url: str, life: str, machine: Machine | None = None) -> Iterator[Traffic]:
    """Have a program of clients for a block."""
    with process(home, "tests.client.traffic", url, life, machine=machine) as running:
        yield Traffic(running)


@contextmanager
def served(
    home: Path, address: str, machine: Machine | None = None
) -> Iterator[tuple[str, Client]]:
    """Serve QM1 for a block; yields where, and an operator on its machine."""
    (home / "qm1.mqsc").write_text(SCRIPT)
    words = ("--mqsc", str(home / "qm1.mqsc"))
    with (
        serving(home, ["QM1"], address, *words, machine=machine) as ready,
        operating(home, "QM1") as operator,
    ):
        yield ready["mq"], operator


def connections(operator: Client, channel: str) -> int:
    """Return how many clients the server has by a channel."""
    return len(operator.mqsc(f"DISPLAY CONN(*) WHERE(CHANNEL EQ {channel})").rows)


def check_messages(operator: Client, *programs: Traffic) -> None:
    """Check that all that was put is there once, in whole units of work."""
    found: Counter[str] = Counter()
    for queue in ("Q1", "Q2"):
        while (message := operator.get(queue)) is not None:
            found[message.body.decode()] += 1
    done = set().union(*(program.bodies("done") for program in programs))
    doubt = set().union(*(program.bodies("doubt") for program in programs))
    assert [body for body, count in found.items() if count > 1] == []
    assert done - found.keys() == set()
    assert found.keys() - done <= doubt
    units = Counter(body.rpartition("/")[0] for body in found)
    assert set(units.values()) <= {2}
    assert operator.admin.verify().ok
    for program in programs:
        program.check()


def use(operator: Client, count: int) -> None:
    """Put and get durably beside clients whose network is gone."""
    for number in range(count):
        operator.put("Q3", b"%d" % number, persistent=True)
        message = operator.get("Q3")
        assert message is not None
        assert message.body == b"%d" % number


@pytest.fixture
def machines() -> Iterator[TwoMachines]:
    with two_machines() as found:
        yield found


def url_of(machine: Machine, channel: str) -> str:
    return f"mq://{machine.address}:1414/QM1?channel={channel}"


@pytest.mark.soak
def test_a_cut_that_is_noticed_and_one_that_is_not(machines: TwoMachines, tmp_path: Path) -> None:
    """The wire is cut under units of work and waits, until heartbeats notice it on both sides."""
    server, clients = machines
    with (
        served(tmp_path, f"{server.address}:1414", server) as (_, operator),
        traffic(tmp_path, url_of(server, "CUT"), "cut", clients) as cut,
        traffic(tmp_path, url_of(server, "LONG"), "long", clients) as long,
    ):
        cut.wait_for_more()
        long.wait_for_more()
        wait_until(lambda: len(cut.of("connected")) == len(long.of("connected")) == PLAIN + 2)
        before = connections(operator, "LONG")
        server.cut()
        # Those by LONG are held to be there all the while; nobody else waits for them.
        use(operator, 10)
        wait_until(lambda: len(cut.of("ended")) == PLAIN)
        wait_until(lambda: connections(operator, "CUT") == 0)
        assert connections(operator, "LONG") == before == PLAIN + 2
        server.mend()
        cut.wait_for_more()
        long.wait_for_more()
        assert long.of("ended") == []
        cut.end()
        long.end()
        assert any("two heartbeats" in fact["detail"] for fact in cut.of("ended"))
        check_messages(operator, cut, long)


@pytest.mark.soak
def test_a_throttled_network_only_takes_its_time(machines: TwoMachines, tmp_path: Path) -> None:
    server, clients = machines
    with (
        served(tmp_path, f"{server.address}:1414", server) as (_, operator),
        traffic(tmp_path, url_of(server, "LONG"), "throttled", clients) as throttled,
    ):
        throttled.wait_for_more()
        server.throttle("512kbit")
        clients.throttle("512kbit")
        use(operator, 20)
        throttled.wait_for_more()
        throttled.end()
        assert throttled.of("ended") == []
        check_messages(operator, throttled)


@pytest.mark.slow
def test_a_slow_network_and_one_that_goes_silent(tmp_path: Path) -> None:
    """What a relay held back arrives when both sides have given up: it changes nothing."""
    with served(tmp_path, "127.0.0.1:0") as (there, operator):
        host, port = there.split(":")
        with (
            relaying(host, int(port)) as relay,
            traffic(tmp_path, relayed(relay, "CUT"), "cut") as cut,
            traffic(tmp_path, relayed(relay, "LONG"), "long") as long,
        ):
            relay.delay_ms = 5.0
            cut.wait_for_more()
            long.wait_for_more()
            relay.is_silent = True
            use(operator, 20)
            wait_until(lambda: len(cut.of("ended")) == PLAIN)
            wait_until(lambda: connections(operator, "CUT") == 0)
            relay.is_silent = False
            cut.wait_for_more()
            long.wait_for_more()
            assert long.of("ended") == []
            cut.end()
            long.end()
            check_messages(operator, cut, long)


def relayed(relay: Relay, channel: str) -> str:
    return f"mq://127.0.0.1:{relay.port}/QM1?channel={channel}"


@pytest.mark.soak
def test_many_cuts_under_load(machines: TwoMachines, tmp_path: Path) -> None:
    """Cuts of all lengths, some while the traffic is throttled, with new programs all the time."""
    server, clients = machines
    chance = random.Random(18)
    programs: list[Traffic] = []
    with served(tmp_path, f"{server.address}:1414", server) as (_, operator):
        for life in range(12):
            with (
                traffic(tmp_path, url_of(server, "CUT"), f"cut{life}", clients) as cut,
                traffic(tmp_path, url_of(server, "LONG"), f"long{life}", clients) as long,
            ):
                programs += [cut, long]
                long.wait_for_more()
                if life == 6:
                    server.throttle("2mbit")
                for _ in range(6):
                    server.cut()
                    threading.Event().wait(chance.choice((0.05, 0.5, 1.5, 2.5)))
                    use(operator, 5)
                    server.mend()
                    cut.wait_for_more()
                    long.wait_for_more()
                assert long.of("ended") == []
                cut.end()
                long.end()
        check_messages(operator, *programs)
