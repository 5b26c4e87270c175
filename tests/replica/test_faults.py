"""Whatever fails, no message is lost, doubled, handed out early or late, and one server answers.

Two servers of QM1, and a primary of PostgreSQL with a synchronous standby, fail in turn and
together, while programs of all protocols put and get. In the end their journals must be right.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from mayfly.client.client import Client
from mayfly.mqi.errors import MQError
from mayfly.runtime import elapsed_ms
from mayfly.store.replica.lease import LEASE_MS
from tests.facts import wait_until
from tests.replica.accounts import Accounts, acknowledged_by_others, units_in
from tests.replica.machines import Machines
from tests.replica.test_gate import caught_up
from tests.replica.test_standby import command
from tests.replica.traffic import QUEUES, REPLIES, Program, got, name_of

PROGRAMS = ("native", "aio", "amqp", "http", "pinned")
STAGING = "SYSTEM.DDELAY.LOCAL.QUEUE"
#: At most so long nothing is mended.
LONGEST_SECONDS = 6.0

Fault = Callable[[Machines, random.Random], "contextlib.AbstractContextManager[None]"]


@contextmanager
def kill_owner(machines: Machines, _chance: random.Random) -> Iterator[None]:
    owner = machines.owner
    owner.kill()
    yield
    owner.start()


@contextmanager
def stop_owner(machines: Machines, _chance: random.Random) -> Iterator[None]:
    owner = machines.owner
    owner.signal(signal.SIGSTOP)
    yield
    owner.signal(signal.SIGCONT)


@contextmanager
def kill_standby(machines: Machines, _chance: random.Random) -> Iterator[None]:
    standby = machines.standby
    standby.kill()
    yield
    standby.start()


@contextmanager
def restart_both(machines: Machines, _chance: random.Random) -> Iterator[None]:
    killed = [each for each in machines.servers.values() if each.process is not None]
    for each in killed:
        each.kill()
    for each in killed:
        each.start()
    yield


@contextmanager
def cut_from_databases(machines: Machines, name: str, *, is_silent: bool) -> Iterator[None]:
    relays = machines.network.to_databases[name]
    for each in relays:
        if is_silent:
            each.is_silent = True
        else:
            each.cut()
    yield
    for each in relays:
        each.is_silent = False
        each.mend()


def silence_owner(
    machines: Machines, _chance: random.Random
) -> contextlib.AbstractContextManager[None]:
    return cut_from_databases(machines, machines.owner.name, is_silent=True)


def cut_owner(
    machines: Machines, _chance: random.Random
) -> contextlib.AbstractContextManager[None]:
    return cut_from_databases(machines, machines.owner.name, is_silent=False)


def silence_standby(
    machines: Machines, _chance: random.Random
) -> contextlib.AbstractContextManager[None]:
    return cut_from_databases(machines, machines.standby.name, is_silent=True)


@contextmanager
def cut_clients(machines: Machines, chance: random.Random) -> Iterator[None]:
    relays = machines.network.to_servers[machines.owner.name].values()
    is_silent = chance.random() < 0.5
    for each in relays:
        if is_silent:
            each.is_silent = True
        else:
            each.cut()
    yield
    for each in relays:
        each.is_silent = False
        each.mend()


def fill_owner(
    machines: Machines, _chance: random.Random
) -> contextlib.AbstractContextManager[None]:
    return machines.full(machines.owner.disk)


def fill_standby(
    machines: Machines, _chance: random.Random
) -> contextlib.AbstractContextManager[None]:
    return machines.full(machines.standby.disk)


def fill_database(
    machines: Machines, _chance: random.Random
) -> contextlib.AbstractContextManager[None]:
    return machines.full(machines.databases[0].folder)


@contextmanager
def lose_primary(machines: Machines, _chance: random.Random) -> Iterator[None]:
    machines.lose_primary()
    yield


@contextmanager
def restart_primary(machines: Machines, _chance: random.Random) -> Iterator[None]:
    machines.databases[0].kill()
    yield


@contextmanager
def stop_synchronous_standby(machines: Machines, _chance: random.Random) -> Iterator[None]:
    standby = machines.databases[1]
    standby.pause()
    yield
    standby.resume()


@contextmanager
def switch(machines: Machines, _chance: random.Random) -> Iterator[None]:
    done = command("switch", "QM1", "--replica", machines.url, "--json")
    if not done.returncode:
        machines.switch_ms.append(json.loads(done.stdout)["took_ms"])
    yield


#: Faults after which another server, or the same one, takes messages before anything is mended.
SERVED_THROUGH: Sequence[Fault] = (
    kill_owner,
    stop_owner,
    silence_owner,
    cut_owner,
    lose_primary,
    switch,
)
OTHERS: Sequence[Fault] = (
    kill_standby,
    restart_both,
    silence_standby,
    cut_clients,
    restart_primary,
    stop_synchronous_standby,
)
OF_DISKS: Sequence[Fault] = (fill_owner, fill_standby, fill_database)


def can_mount() -> bool:
    """Return True if this user may make small disks."""
    return (
        not os.getuid()
        and not subprocess.run(
            ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"],
            capture_output=True,
            check=False,
        ).returncode
    )


class Traffic:
    """The programs, each a process of its own."""

    def __init__(self, home: Path, kinds: Sequence[str], seed: int, stack: ExitStack) -> None:
        self.home, self._kinds = home, kinds
        self._offsets = defaultdict[Path, int](int)
        self._count = 0
        stack.callback(self.kill)
        self.processes = [self._started(kind, seed) for kind in kinds]

    def _started(self, kind: str, seed: int) -> subprocess.Popen[str]:
        with (self.home / f"{kind}.log").open("w") as log:
            words = ["-m", "tests.replica.traffic", kind, str(seed), str(self.home)]
            return subprocess.Popen([sys.executable, *words], stdout=log, stderr=log, text=True)

    def has(self, wanted: int) -> bool:
        return self.count() >= wanted

    def count(self) -> int:
        """Return how many messages are acknowledged or may be put."""
        for journal in (self.home / "journals").iterdir():
            with journal.open("rb") as file:
                file.seek(self._offsets[journal])
                lines = file.read().split(b"\n")[:-1]
            for line in lines:
                self._offsets[journal] += len(line) + 1
                self._count += len(json.loads(line).get("puts", ()))
        return self._count

    def check(self) -> None:
        for process in self.processes:
            assert process.poll() is None, (process.args, self._said())

    def end(self) -> None:
        """End all in good order; what one that hangs was about to do is unknown."""
        (self.home / "stop").touch()
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(70)
        self.kill()

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def _said(self) -> dict[str, str]:
        return {kind: (self.home / f"{kind}.log").read_text()[-2_000:] for kind in self._kinds}


class Figures(NamedTuple):
    """What a run has measured: counts of messages, and ms until a message came, by fault."""

    counts: dict[str, int]
    first_message_ms: dict[str, list[int]]
    switch_ms: list[int]
    ended_count: int


def run(
    home: Path,
    seed: int,
    faults: Sequence[Sequence[Fault]],
    message_count: int,
    say: Callable[[str], object] = str,
    *,
    kinds: Sequence[str] = PROGRAMS,
    lease_ms: int = LEASE_MS,
) -> Figures:
    """Let faults happen, those of each round together, and check that all accounts are right."""
    chance, pause = random.Random(seed), threading.Event()
    taken_ms = defaultdict[str, list[int]](list)
    with ExitStack() as stack:
        has_disks = any({*OF_DISKS} & {*each} for each in faults)
        machines = Machines(home, stack, has_disks=has_disks, lease_ms=lease_ms)
        machines.start()
        traffic = Traffic(home, kinds, seed, stack)
        for number, together in enumerate(faults):
            names = " and ".join(each.__name__ for each in together)
            wanted = message_count * (number + 1) // len(faults)
            wait_until(partial(traffic.has, wanted), 300)
            say(f"{number}: {names}, {traffic.count()} messages")
            began_ms = elapsed_ms()
            with ExitStack() as broken:
                for each in together:
                    # A fault before it may leave none to fail.
                    with contextlib.suppress(LookupError):
                        broken.enter_context(each(machines, chance))
                if together[0] is switch:
                    # What is measured is the service, not the start of a command.
                    began_ms = elapsed_ms()
                if together[0] in SERVED_THROUGH and len(together) == 1:
                    taken_ms[names].append(machines.first_message_ms(began_ms))
                    say(f"  first message after {taken_ms[names][-1]} ms")
                else:
                    pause.wait(chance.random() * LONGEST_SECONDS)
            machines.mend_databases()
            machines.wait_whole()
            traffic.check()
        traffic.end()
        say("drain")
        reports = drain(machines, home)
        owners = machines.owners()
        with machines.client() as client:
            assert client.admin.verify().ok
        for server in machines.servers.values():
            server.signal(signal.SIGTERM)
            assert server.process is not None
            server.process.wait()
        one, two = machines.servers.values()
        assert caught_up(machines.url, one.folder) == caught_up(machines.url, two.folder)
    units = units_in(home / "journals")
    accounts = Accounts(units, reports)
    figures = Figures(accounts.counts(), dict(taken_ms), machines.switch_ms, machines.ended_count)
    say(json.dumps(figures._asdict()))
    problems = [*accounts.problems(), *acknowledged_by_others(units, owners)]
    assert not problems, (len(problems), problems[:20])
    return figures


def drain(machines: Machines, home: Path) -> list[str]:
    """Get all messages until none is left, also those that are delayed; return the reports."""
    program, reports = Program("drain", home), list[str]()

    def take(client: Client, queue: str) -> None:
        unit = program.units()
        while found := client.get_many(queue, 1_000):
            if queue == REPLIES:
                names = [name_of(each.body) for each in found]
                client.commit()
                reports.extend(names)
            else:
                unit.gets = got(found, unit.first_ms)
                program.settle(unit, client.commit)
            unit = program.units()

    def is_empty() -> bool:
        # The last connection may be one to an owner that is no more.
        with contextlib.suppress(MQError), machines.client(transacted=True) as client:
            for queue in (*QUEUES, REPLIES):
                take(client, queue)
            # In the order in which a message goes on.
            return not any(client.admin.curdepth(each) for each in (STAGING, *QUEUES, REPLIES))
        return False

    wait_until(is_empty, 180)
    return reports


def drawn(seed: int, round_count: int, *, has_disks: bool) -> list[list[Fault]]:
    """Return faults for so many rounds: each in turn, and of three rounds one with two of them."""
    chance = random.Random(seed)
    kinds = [*SERVED_THROUGH, *OTHERS, *(OF_DISKS if has_disks else ())]
    rounds: list[list[Fault]] = []
    while len(rounds) < round_count:
        for fault in chance.sample(kinds, len(kinds)):
            also = (
                [chance.choice([k for k in kinds if k is not fault])]
                if len(rounds) % 3 == 2
                else []
            )
            rounds.append([fault, *also])
    return rounds[:round_count]


@pytest.mark.long
def test_all_accounts_are_right_after_a_kill_of_the_owner_and_of_its_database(
    tmp_path: Path,
) -> None:
    faults = [[kill_owner, lose_primary]]
    run(tmp_path, 0, faults, 300, kinds=("native", "http"), lease_ms=1_500)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_no_message_of_200_000_is_lost_doubled_early_or_late_in_20_rounds_of_faults(
    tmp_path: Path, seed: int
) -> None:
    run(tmp_path, seed, drawn(seed, 20, has_disks=can_mount()), 200_000, print)
