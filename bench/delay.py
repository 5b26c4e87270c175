"""Delayed messages: how fast they are put, how late they arrive, and a million due at once."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from bench.clients import JmsClient, Producer, SessionClient, bench_manager
from bench.cliff import Cliff, cliff, handed_out_seconds
from bench.figures import Figure, at_least, at_most, median, seconds_of
from bench.peers import Peer, started_peers
from bench.release import Lateness, lateness, percentile
from mayfly import QueueManager
from mayfly.runtime.clocks import SystemClock

_ROUNDS = 5
_PER_UNIT = 100
_SEED = 20
#: Far enough ahead that none falls due while puts are measured.
_FAR_MS, _SPREAD_MS = 3_600_000, 3_600_000
_WINDOW_MS = 10_000
_OURS = "session"


def figures(
    *, put_count: int = 10_000, late_count: int = 100_000, cliff_count: int = 1_000_000
) -> Iterator[Figure]:
    """Measure everything of this file; smaller counts are for trying out."""
    clock = SystemClock()
    with started_peers(clock) as (peers, missing):
        rates = _put_rates(clock, peers, put_count)
        yield from _rate_figures(rates, missing)
        yield from _late_figures(clock, peers, late_count)
        ours = cliff(cliff_count, rates[_OURS])
        yield from _cliff_figures(ours, cliff_count, _peer_cliffs(clock, peers, cliff_count))


def _put_rates(clock: SystemClock, peers: list[Peer], count: int) -> dict[str, float]:
    ours: list[tuple[str, Callable[[QueueManager, SystemClock], Producer]]]
    ours = [(_OURS, SessionClient), ("JMS", JmsClient)]
    rounds: dict[str, list[float]] = {}
    for _ in range(_ROUNDS):
        for name, connect in ours:
            with tempfile.TemporaryDirectory() as folder, bench_manager(Path(folder), clock) as qm:
                rate = _put_rate(connect(qm, clock), clock, count)
            rounds.setdefault(name, []).append(rate)
        for peer in peers:
            rate = _put_rate(peer.connect(), clock, count)
            rounds.setdefault(peer.name, []).append(rate)
            peer.clear()
    return {name: median(rates) for name, rates in rounds.items()}


def _put_rate(client: Producer, clock: SystemClock, count: int) -> float:
    random, far_ms = Random(_SEED), clock.now_ms() + _FAR_MS

    def run() -> None:
        for first in range(0, count, _PER_UNIT):
            numbers = range(first, first + _PER_UNIT)
            client.put([(n, far_ms + random.randrange(_SPREAD_MS)) for n in numbers])

    seconds = seconds_of(run)
    client.close()
    return count / seconds


def _rate_figures(rates: dict[str, float], missing: list[str]) -> Iterator[Figure]:
    beside = [f"{n} {rate:,.0f}/s" for n, rate in rates.items() if n not in (_OURS, "JMS")]
    for name, floor in ((_OURS, 20_000), ("JMS", 12_000)):
        note = "; ".join([f"median of {_ROUNDS}", *beside, *missing])
        yield at_least(f"delayed put, 100 a unit of work, {name}", rates[name], floor, "/s", note)


def _late_figures(clock: SystemClock, peers: list[Peer], count: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder, bench_manager(Path(folder), clock) as manager:
        ours = lateness(lambda: SessionClient(manager, clock), clock, count, _WINDOW_MS)
    beside: dict[str, Lateness] = {}
    for peer in peers:
        beside[peer.name] = lateness(peer.connect, clock, count, _WINDOW_MS)
        peer.clear()
    name = f"{count:,} over 10 s, arrival - due, "
    for percent, ceiling in ((50, 5), (99, 100)):
        value = percentile(ours.after_ms, percent)
        others = [f"{n} {percentile(late.after_ms, percent):g} ms" for n, late in beside.items()]
        note = "; ".join([f"{len(ours.after_ms):,} due after the puts", *others])
        yield at_most(f"{name}p{percent}", value, ceiling, " ms", note)
    during = {_OURS: ours, **beside}
    note = "p50/p99: " + "; ".join(_spelled(n, late) for n, late in during.items())
    yield Figure(f"{name}while the puts run", "-", "", True, note)


def _spelled(name: str, late: Lateness) -> str:
    middle, tail = percentile(late.during_ms, 50), percentile(late.during_ms, 99)
    return f"{name} {middle:g}/{tail:g} ms at {late.put_rate:,.0f} puts/s"


def _peer_cliffs(clock: SystemClock, peers: list[Peer], count: int) -> list[str]:
    notes = []
    for peer in peers:
        client = peer.connect()
        seconds = handed_out_seconds(client, clock, count)
        client.close()
        peer.clear()
        notes.append(f"{peer.name} hands them out in {seconds:.1f} s")
    return notes


def _cliff_figures(ours: Cliff, count: int, beside: list[str]) -> Iterator[Figure]:
    name = f"{count:,} due in one second, "
    rates = f"put at {ours.fill_rate:,.0f}/s, then got at {ours.get_rate:,.0f}/s"
    yield at_most(f"{name}all available", ours.seconds, 20, " s", "; ".join([rates, *beside]))
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
