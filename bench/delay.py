"""Delayed messages: how fast they are put, how late they arrive, and a million due at once."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from bench.clients import JmsClient, Producer, SessionClient, bench_manager
from bench.cliff import Cliff, cliff, handed_out_seconds
from bench.figures import Beside, Figure, at_least, at_most, median, seconds_of
from bench.peers import Peer, started_peers
from bench.release import Lateness, lateness, percentile
from mayfly import QueueManager
from mayfly.runtime.clocks import SystemClock

_PER_UNIT = 100
_SEED = 20
#: Far enough ahead that none falls due while puts are measured.
_FAR_MS, _SPREAD_MS = 3_600_000, 3_600_000
_OURS, _JMS = "Mayfly, session", "Mayfly, JMS"
#: What a cliff may take a message, and what it takes beside.
_CLIFF_US, _CLIFF_SECONDS = 19, 1


class Size(NamedTuple):
    """How much is measured."""

    rounds: int = 5
    put_count: int = 10_000
    late_count: int = 100_000
    window_ms: int = 10_000
    cliff_count: int = 1_000_000
    has_peers: bool = True


#: What is measured unless something else is asked for.
USUAL: Final = Size()
#: Shows that this part runs; its figures say nothing.
SMALLEST: Final = Size(1, 200, 200, 50, 0, has_peers=False)
#: Enough to compare makes.
BESIDE: Final = Size(late_count=50_000, cliff_count=100_000)


def figures(size: Size = USUAL) -> Iterator[Figure | Beside]:
    """Measure everything of this file."""
    clock = SystemClock()
    with started_peers(clock, has_peers=size.has_peers) as (peers, missing):
        rates = _put_rates(clock, peers, size)
        yield from _rate_figures(rates, missing)
        yield from _late_figures(clock, peers, size)
        if size.cliff_count:
            ours = cliff(size.cliff_count)
            others = _peer_cliffs(clock, peers, size.cliff_count)
            yield from _cliff_figures(ours, size.cliff_count, others)


def _put_rates(clock: SystemClock, peers: list[Peer], size: Size) -> dict[str, list[float]]:
    ours: list[tuple[str, Callable[[QueueManager, SystemClock], Producer]]]
    ours = [(_OURS, SessionClient), (_JMS, JmsClient)]
    rounds: dict[str, list[float]] = {}
    for _ in range(size.rounds):
        for name, connect in ours:
            with tempfile.TemporaryDirectory() as folder, bench_manager(Path(folder), clock) as qm:
                rate = _put_rate(connect(qm, clock), clock, size.put_count)
            rounds.setdefault(name, []).append(rate)
        for peer in peers:
            rate = _put_rate(peer.connect(), clock, size.put_count)
            rounds.setdefault(peer.name, []).append(rate)
            peer.clear()
    return rounds


def _put_rate(client: Producer, clock: SystemClock, count: int) -> float:
    random, far_ms = Random(_SEED), clock.now_ms() + _FAR_MS

    def run() -> None:
        for first in range(0, count, _PER_UNIT):
            numbers = range(first, first + _PER_UNIT)
            client.put([(n, far_ms + random.randrange(_SPREAD_MS)) for n in numbers])

    seconds = seconds_of(run)
    client.close()
    return count / seconds


def _rate_figures(rates: dict[str, list[float]], missing: list[str]) -> Iterator[Figure | Beside]:
    beside = Beside("delayed put, 100 a unit of work", "/s", True, rates)
    yield beside
    for make, floor in ((_OURS, 20_000), (_JMS, 12_000)):
        name = f"{beside.name}, {make.removeprefix('Mayfly, ')}"
        others = [f"{n} {beside.spelled(n)}" for n in rates if n not in (_OURS, _JMS)]
        note = "; ".join([*others, *missing])
        yield at_least(name, median(rates[make]), floor, "/s", note, samples=rates[make])


def _late_figures(clock: SystemClock, peers: list[Peer], size: Size) -> Iterator[Figure | Beside]:
    count, window_ms = size.late_count, size.window_ms
    with tempfile.TemporaryDirectory() as folder, bench_manager(Path(folder), clock) as manager:
        ours = lateness(lambda: SessionClient(manager, clock), clock, count, window_ms)
    late = {"Mayfly": ours}
    for peer in peers:
        late[peer.name] = lateness(peer.connect, clock, count, window_ms)
        peer.clear()
    # On a very slow machine all of a short round fall due while the puts run.
    after_ms = {n: one.after_ms or one.during_ms for n, one in late.items()}
    name = f"{count:,} over {window_ms / 1_000:g} s, arrival - due"
    for percent, ceiling in ((50, 5), (99, 100)):
        each = {n: [float(percentile(found, percent))] for n, found in after_ms.items()}
        beside = Beside(f"{name} once the puts are done, p{percent}", " ms", False, each)
        yield beside
        note = "; ".join([f"{len(ours.after_ms):,} due after the puts", beside.figure().note])
        title = f"{name}, p{percent}"
        yield at_most(title, percentile(after_ms["Mayfly"], percent), ceiling, " ms", note)
    note = "p50/p99: " + "; ".join(_spelled(n, one) for n, one in late.items())
    yield Figure(f"{name}, while the puts run", "-", "", True, note)


def _spelled(name: str, late: Lateness) -> str:
    # In a very short round all fall due when the puts are done.
    during_ms = late.during_ms or [0]
    middle, tail = percentile(during_ms, 50), percentile(during_ms, 99)
    return f"{name} {middle:g}/{tail:g} ms at {late.put_rate:,.0f} puts/s"


def _peer_cliffs(clock: SystemClock, peers: list[Peer], count: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {}
    for peer in peers:
        client = peer.connect()
        seconds[peer.name] = [handed_out_seconds(client, clock, count)]
        client.close()
        peer.clear()
    return seconds


def _cliff_figures(
    ours: Cliff, count: int, peers: dict[str, list[float]]
) -> Iterator[Figure | Beside]:
    name = f"{count:,} due in one second, "
    # Peers do nothing when a message falls due; a consumer of ours need not wait for the last one.
    own = {"Mayfly, all available, then handed out": [ours.seconds + count / ours.get_rate]}
    beside = Beside(f"{name}handed out to one client", " s", False, {**own, **peers})
    yield beside
    rates = f"put at {ours.fill_rate:,.0f}/s, then got at {ours.get_rate:,.0f}/s"
    note = "; ".join([rates, *(f"{n} hands them out in {beside.spelled(n)}" for n in peers)])
    ceiling = _CLIFF_SECONDS + count * _CLIFF_US / 1e6
    yield at_most(f"{name}all available", ours.seconds, ceiling, " s", note)
    yield Figure(
        f"{name}in order",
        "yes" if ours.in_order else "no",
        "yes",
        ours.in_order,
        "by due time, then put order; every key read",
    )
    yield at_most(f"{name}peak memory", ours.peak_mb, 512, " MB", "of the whole process")
    note = f"{len(ours.commit_ms):,} single durable puts; longest {ours.commit_ms[-1]:,.0f} ms"
    tail = percentile(ours.commit_ms, 99)
    yield at_most(f"{name}another client's commit, p99", tail, 100, " ms", note)
