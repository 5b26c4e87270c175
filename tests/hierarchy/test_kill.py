"""kill -9 of queue managers of a tree: each subscriber has each committed publication once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.channel.hierarchy import REQUESTS, RETRY_QUEUE
from mayfly.engine.api.transit import PUBLICATIONS
from mayfly.testing import VirtualClock
from tests.channel.network_scene import TOKEN
from tests.hierarchy.load import KEPT, NEIGHBOURS
from tests.hierarchy.scene import bodies, connect, proxies, run
from tests.store.kills import ROOT, kill

Processes = list["subprocess.Popen[str]"]
Start = Callable[[Path, Path, str], Processes]
DEAD = "SYSTEM.DEAD.LETTER.QUEUE"


class Journals:
    """What was done, and what was about to be done when somebody was killed."""

    def __init__(self, folder: Path) -> None:
        lines = [json.loads(x) for path in folder.glob("*") for x in path.read_text().splitlines()]
        self.done, self.begun = (
            {_hashable(what) for is_done, *what in lines if is_done is wanted}
            for wanted in (True, False)
        )

    def units(self, *, done: bool) -> set[tuple[str, ...]]:
        """Return the labels of each unit that was committed, or of which nobody knows."""
        chosen = self.done if done else self.begun - self.done
        return {what[1] for what in chosen if what[0] == "publish"}

    def subscriptions(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the topics by name of those that are certain, and of those that may be there."""
        made = {what[1]: what[2] for what in self.begun if what[0] == "subscribe"}
        gone = {what[1] for what in self.begun if what[0] == "unsubscribe"}
        over = {what[1] for what in self.done if what[0] == "unsubscribe"}
        certain = {what[1] for what in self.done if what[0] == "subscribe"} - gone
        return (
            {name: topic for name, topic in made.items() if name in certain},
            {name: topic for name, topic in made.items() if name not in over},
        )


def _hashable(what: list[Any]) -> tuple[Any, ...]:
    return tuple(tuple(part) if isinstance(part, list) else part for part in what)


@contextmanager
def tree(folder: Path) -> Iterator[tuple[VirtualClock, dict[str, QueueManager]]]:
    """Open all of them in this process, under a clock that does all work at once."""
    clock = VirtualClock(0)
    with ExitStack() as stack:
        yield (
            clock,
            {
                name: stack.enter_context(QueueManager(name, folder / name, clock))
                for name in NEIGHBOURS
            },
        )


def grow(folder: Path) -> None:
    """Make the tree; each has two subscribers who are there before the first kill."""
    with tree(folder) as (clock, managers):
        top = managers["TOP"]
        run(top, "ALTER QMGR PSMODE(ENABLED)")
        for name in NEIGHBOURS["TOP"]:
            connect(top, managers[name])
            run(managers[name], "ALTER QMGR PSMODE(ENABLED) PARENT(TOP)")
        for name, manager in managers.items():
            run(manager, f"ALTER QMGR DEADQ({DEAD})")
            for queue, topic in (("NEWS", "news/#"), ("KEPT", "kept/#")):
                run(
                    manager,
                    f"DEFINE QLOCAL({queue}) MAXDEPTH(999999)\n"
                    f"DEFINE SUB('{queue}') TOPICSTR('{topic}') DEST({queue})",
                )
            for other in NEIGHBOURS[name]:
                run(
                    manager,
                    f"ALTER QLOCAL({other}) MAXDEPTH(999999)\n"
                    f"ALTER CHANNEL({name}.TO.{other}) SHORTTMR(1) SHORTRTY(999999) BATCHSZ(7)",
                )
        clock.advance(60_000)
        assert [len(proxies(manager)) for manager in managers.values()] == [4, 2, 2]


def begun(names: str, folder: Path, journals: Path, seed: str) -> subprocess.Popen[str]:
    arguments = [names, str(folder), str(journals), seed]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.hierarchy.load", *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str], word: str) -> list[str]:
    """Return the words of the next line, which begins with this one."""
    assert process.stdout is not None
    words = process.stdout.readline().split()
    if words[:1] != [word]:
        process.kill()
        raise AssertionError(process.communicate()[1])
    return words[1:]


def in_one_process(folder: Path, journals: Path, seed: str) -> Processes:
    process = begun(",".join(NEIGHBOURS), folder, journals, seed)
    said(process, "ready")
    return [process]


def each_in_its_own(folder: Path, journals: Path, seed: str) -> Processes:
    processes = {name: begun(name, folder, journals, seed) for name in NEIGHBOURS}
    ports = {name: int(said(process, "port")[0]) for name, process in processes.items()}
    for process in processes.values():
        assert process.stdin is not None
        process.stdin.write(json.dumps(ports) + "\n")
        process.stdin.flush()
    for process in processes.values():
        said(process, "ready")
    return list(processes.values())


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, pytest.param(40, marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    "start", [in_one_process, pytest.param(each_in_its_own, marks=pytest.mark.soak)]
)
def test_D25_killed_at_any_moment_each_subscriber_has_each_publication_exactly_once(
    tmp_path: Path, rounds: int, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAYFLY_TOKEN", TOKEN)
    seed = int(os.environ.get("MAYFLY_KILL_SEED") or Random().randrange(10**6))
    random, journals = Random(seed), tmp_path / "journals"
    journals.mkdir()
    grow(tmp_path)
    for number in range(rounds):
        processes = start(tmp_path, journals, f"{seed}.{number:02}")
        for process in random.sample(processes, len(processes)):
            assert "Traceback" not in kill(process, random.uniform(0.05, 0.4))
    with tree(tmp_path) as (clock, managers):
        come_to_rest(clock, managers)
        check(managers, Journals(journals), f"again with MAYFLY_KILL_SEED={seed}")


def come_to_rest(clock: VirtualClock, managers: dict[str, QueueManager]) -> None:
    for name, manager in managers.items():
        for other in NEIGHBOURS[name]:
            run(
                manager,
                f"ALTER CHANNEL({name}.TO.{other}) TRPTYPE(LOCAL) CONNAME({other})\n"
                f"START CHANNEL({name}.TO.{other})",
            )
    # What has failed meanwhile is tried again within a minute, and again where that leads to.
    for _ in range(4):
        clock.advance(60_000)


def check(managers: dict[str, QueueManager], journals: Journals, with_seed: str) -> None:
    for name, manager in managers.items():
        queues = (PUBLICATIONS, REQUESTS, RETRY_QUEUE, DEAD, *NEIGHBOURS[name])
        depths = {queue: manager.curdepth(queue) for queue in queues}
        assert not any(depths.values()), f"{name} {depths}; {with_seed}"
        found = manager.verify()
        assert found.ok, f"{found.problems}; {with_seed}"
    check_copies(managers, journals, with_seed)
    check_retained(managers, journals, with_seed)
    check_subscriptions(managers, journals, with_seed)


def check_copies(managers: dict[str, QueueManager], journals: Journals, with_seed: str) -> None:
    """Each unit of work is everywhere, or, if nobody knows of it, perhaps nowhere."""
    arrived = {name: [b.decode() for b in bodies(m, "NEWS")] for name, m in managers.items()}
    there_are = set(arrived["TOP"])
    unknown = {label for unit in journals.units(done=False) for label in unit}
    committed = {label for unit in journals.units(done=True) for label in unit}
    assert committed, with_seed
    assert not committed - there_are, f"lost; {with_seed}"
    assert not there_are - committed - unknown, f"out of nowhere; {with_seed}"
    for unit in journals.units(done=False):
        assert there_are.issuperset(unit) or there_are.isdisjoint(unit), f"{unit}; {with_seed}"
    for name, labels in arrived.items():
        assert set(labels) == there_are, f"{name} has others than TOP; {with_seed}"
        assert len(labels) == len(there_are), f"doubled at {name}; {with_seed}"
        by_publisher = defaultdict(list)
        for label in labels:
            by_publisher[label.rpartition(".")[0]].append(label)
        for in_order in by_publisher.values():
            assert in_order == sorted(in_order), f"out of order at {name}; {with_seed}"
    kept = {unit[-1] for unit in journals.units(done=True)}
    for name, manager in managers.items():
        counts = Counter(body.removeprefix(KEPT).decode() for body in bodies(manager, "KEPT"))
        assert kept <= counts.keys() <= kept | unknown, f"retained at {name}; {with_seed}"
        assert set(counts.values()) == {1}, f"retained doubled at {name}; {with_seed}"


def check_retained(managers: dict[str, QueueManager], journals: Journals, with_seed: str) -> None:
    """What is retained is the same everywhere, and the last that was published."""
    for publisher in managers:
        everywhere = set()
        for manager in managers.values():
            with manager.session() as session:
                message = session.subscribe(f"kept/{publisher}").get()
                assert message is not None, with_seed
                everywhere.add(message.body.removeprefix(KEPT).decode())
        mine = [
            max(unit[-1] for unit in journals.units(done=True) if unit[-1].startswith(publisher))
        ]
        mine += [u[-1] for u in journals.units(done=False) if u[-1].startswith(publisher)]
        assert len(everywhere) == 1, f"{everywhere}; {with_seed}"
        assert everywhere <= {label for label in mine if label >= mine[0]}, with_seed


def check_subscriptions(
    managers: dict[str, QueueManager], journals: Journals, with_seed: str
) -> None:
    """Those made between the kills are there, have no copy twice, and get what is published now."""
    certain, possible = journals.subscriptions()
    wanted: dict[str, set[str]] = {}
    for name, manager in managers.items():
        rows = manager.mqsc("DISPLAY SUB(*) ALL WHERE(SUBTYPE EQ ADMIN)").rows
        topics = {str(row["SUB"]): str(row["TOPICSTR"]) for row in rows}
        wanted[name] = set(topics.values())
        mine = {sub: topic for sub, topic in topics.items() if sub not in ("NEWS", "KEPT")}
        assert {s: t for s, t in certain.items() if s.startswith(f"S{name}.")}.items() <= (
            mine.items()
        ), f"lost; {with_seed}"
        assert mine.items() <= possible.items(), f"still there; {with_seed}"
        for sub in mine:
            doubled = [body for body, n in Counter(bodies(manager, sub)).items() if n > 1]
            assert not doubled, f"{doubled} for {sub}; {with_seed}"
    behind_top = wanted["TOP"] | wanted["RIGHT"], wanted["TOP"] | wanted["LEFT"]
    assert proxies(managers["TOP"]) == sorted(
        (name, topic) for name in NEIGHBOURS["TOP"] for topic in wanted[name]
    ), with_seed
    for name, topics_there in zip(NEIGHBOURS["TOP"], behind_top, strict=True):
        assert proxies(managers[name]) == sorted(("TOP", t) for t in topics_there), with_seed
