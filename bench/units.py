"""Units of work of 100 durable messages, beside PostgreSQL, Redis, NATS and RabbitMQ, in turn."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from bench.aims import least_rate
from bench.figures import Beside, Figure, at_least, median, seconds_of
from bench.unit_ways import BODY, PER_UNIT, POSTGRES, REDIS, Way, peer_ways
from mayfly import QueueManager

_OURS: Final = "Mayfly"
#: A batch by one call, as PostgreSQL deletes one; outside of units of work, as that does.
_BY_ONE_CALL: Final = "Mayfly, get_many of 100"
#: Gets of a backlog that has no room in memory, or of a queue manager that was opened again.
_FROM_STORE: Final = "Mayfly, read from the store"


class Size(NamedTuple):
    """How much is measured."""

    rounds: int = 5
    message_count: int = 10_000
    has_peers: bool = True


#: What is measured unless something else is asked for.
USUAL: Final = Size()
#: Shows that this part runs; its figures say nothing.
SMALLEST: Final = Size(1, 200, has_peers=False)
#: All of this part is beside its peers.
BESIDE: Final = USUAL


def figures(size: Size = USUAL) -> Iterator[Figure | Beside]:
    """Measure everything of this file."""
    puts, gets = dict[str, list[float]](), dict[str, list[float]]()
    with ExitStack() as stack:
        ways, missing = peer_ways(stack) if size.has_peers else ({}, ["no peers were asked for"])
        # Like the servers of the peers, a queue manager lives through all rounds.
        ways = {**stack.enter_context(_own_ways()), **ways}
        for _ in range(size.rounds):
            for name, way in ways.items():
                full, count = partial(_full, way.get_unit), int(size.message_count * way.share)
                put_rate = _rate(way.put_unit, count)
                gets.setdefault(name, []).append(_rate(full, count))
                if name not in (_BY_ONE_CALL, _FROM_STORE):
                    puts.setdefault(name, []).append(put_rate)
    for peer, put_aim, get_aim in ((POSTGRES, 1.5, 0.8), (REDIS, 1.25, 1.0)):
        yield _beside("puts, 100 a unit of work", peer, (puts, _OURS), put_aim, missing)
        yield _beside("gets, 100 a unit of work", peer, (gets, _OURS), get_aim, missing)
        yield _beside("gets, 100 by one call", peer, (gets, _BY_ONE_CALL), get_aim, missing)
    for verb, rates in (("puts", puts), ("gets", gets)):
        all_ways = Beside(f"durable {verb}, {PER_UNIT} a unit of work", "/s", True, rates)
        yield all_ways
        yield all_ways.figure(missing)


def _beside(
    what: str,
    peer: str,
    ours: tuple[dict[str, list[float]], str],
    aim: float,
    missing: list[str],
) -> Figure:
    rates, own = ours
    make, _, _ = peer.partition(",")
    name, floor = f"durable {what}, beside {make}", least_rate(aim)
    if peer not in rates:
        return Figure(name, "-", f">= {floor:g}x", True, "; ".join(missing))
    ratios = [a / b for a, b in zip(rates[own], rates[peer], strict=True)]
    note = f"{median(rates[own]):,.0f}/s against {median(rates[peer]):,.0f}/s ({peer})"
    return at_least(name, median(ratios), floor, "x", note, samples=ratios)


def _rate(unit: Callable[[], object], count: int) -> float:
    def run() -> None:
        for _ in range(count // PER_UNIT):
            unit()

    return count / seconds_of(run)


def _full(get_unit: Callable[[], int]) -> None:
    found = get_unit()
    assert found == PER_UNIT, found


@contextmanager
def _own_ways() -> Iterator[dict[str, Way]]:
    with ExitStack() as stack:
        put_unit, get_unit, get_many = _verbs(stack, "BENCH")
        put_without_room, get_from_store, _ = _verbs(stack, "SMALL", has_capacity=False)
        yield {
            _OURS: Way(put_unit, get_unit),
            _BY_ONE_CALL: Way(put_unit, get_many),
            _FROM_STORE: Way(put_without_room, get_from_store),
        }


def _verbs(
    stack: ExitStack, name: str, *, has_capacity: bool = True
) -> tuple[Callable[[], object], Callable[[], int], Callable[[], int]]:
    """Open a queue manager; return what puts a unit, gets one, and gets one by one call.

    Without room it keeps no message in memory.
    """
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    manager = stack.enter_context(QueueManager(name, Path(folder)))
    session = stack.enter_context(manager.session(transacted=True))
    alone = stack.enter_context(manager.session())
    manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(999999999)")
    # Before the commit that brought the room, nothing was kept.
    if not has_capacity and (room := getattr(manager.engine, "room", None)) is not None:
        room.left_bytes = 0

    def put_unit() -> None:
        for _ in range(PER_UNIT):
            session.put("Q1", BODY, persistent=True)
        session.commit()

    def get_unit() -> int:
        found = sum(session.get("Q1") is not None for _ in range(PER_UNIT))
        session.commit()
        return found

    return put_unit, get_unit, lambda: len(alone.get_many("Q1", PER_UNIT))
