"""The checks of the day on the machine's clock, and the causes of its differences from the virtual.

A call that expires on one clock and is got on the other left shortly before its deadline: it was
put, or asked for, too late. A difference without this cause is a problem.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import numpy as np

from mayfly.cli.airport.calls import deadline_ms
from mayfly.cli.airport.flights import Flight, spelled
from mayfly.cli.airport.wall_clock import WallDay
from mayfly.lifetime.columns import Ints
from mayfly.lifetime.times import SECOND_MS
from mayfly.pipeline.spark.replay import EXPIRED, GOT

#: A thread that a busy machine holds up between asking and getting is held up for less than this.
_HELD_UP_MS = SECOND_MS


class Lateness(NamedTuple):
    """Lateness on the machine's clock: the median and the largest value."""

    half_ms: int
    all_ms: int


class Changed(NamedTuple):
    """A call that was got on the virtual clock and expired on the machine's.

    The flight left ``spare_ms`` before the deadline; not before ``late_ms`` after it left was the
    call both put and asked for.
    """

    flight: Flight
    spare_ms: int
    late_ms: int


def counts_of(day: WallDay) -> dict[str, int]:
    """Return calls put by the lake, got by the gates, expired by their reports, and present."""
    return {
        "calls": len(day.lives),
        "got": sum(answer.got_ms is not None for answer in day.answers),
        "expired": len(day.reported),
        "present": day.present_count,
    }


def put_lateness(day: WallDay) -> Lateness:
    """Return the lateness of the puts that are in the lake."""
    moments = {f.correl_id: day.compression.on_the_wall(f.put_ms) for f in day.flights}
    put = zip(*_columns(day, "correl_id", "put_ms"), strict=True)
    return _lateness([put_ms - moments[call] for call, put_ms in put if call in moments])


def get_lateness(day: WallDay) -> Lateness:
    """Return the lateness of the gets after the departures."""
    return _lateness(
        [
            answer.got_ms - _leaves_ms(day, answer.flight)
            for answer in day.answers
            if answer.got_ms is not None
        ]
    )


def changed(day: WallDay, virtually_got: Collection[bytes]) -> list[Changed]:
    """Return the calls that were got on the virtual clock only, the narrowest miss first."""
    put_ms = dict(zip(*_columns(day, "correl_id", "put_ms"), strict=True))
    asked_ms = {answer.flight.correl_id: answer.asked_ms for answer in day.answers}
    missed = set(virtually_got) - _got(day)
    found = []
    for flight in day.flights:
        correl_id = flight.correl_id
        if correl_id not in missed:
            continue
        leaves_ms, ends_ms = _leaves_ms(day, flight), deadline_ms(flight, day.compression)
        # A call that no gate asked for, since all were busy, counts as asked for at its end.
        there_ms = max(asked_ms.get(correl_id, ends_ms), put_ms.get(correl_id, ends_ms))
        found.append(Changed(flight, ends_ms - leaves_ms, there_ms - leaves_ms))
    return sorted(found, key=lambda miss: (miss.spare_ms, miss.flight))


def as_json(day: WallDay, virtually_got: Collection[bytes]) -> dict[str, Any]:
    """Return the day in numbers for JSON; lateness in ms of the machine's clock."""
    return {
        "compression": day.compression.factor,
        **counts_of(day),
        "batches": day.batch_count,
        "lake": {"rows": day.lake_rows, "rows_during_day": day.rows_during_day},
        "put_late_ms": put_lateness(day)._asdict(),
        "got_late_ms": get_lateness(day)._asdict(),
        "changed": [
            miss._asdict() | {"flight": spelled(miss.flight.correl_id)}
            for miss in changed(day, virtually_got)
        ],
    }


def problems_of(day: WallDay, virtually_got: Collection[bytes]) -> list[str]:
    """Return broken rules, books that do not add up, and differences without a cause."""
    found = [*day.book_problems, *_conservation_problems(day), *_window_problems(day)]
    found += [
        f"{spelled(correl_id)} was got after its deadline"
        for correl_id in sorted(_got(day) - set(virtually_got))
    ]
    found += [
        f"{spelled(miss.flight.correl_id)} was there {miss.spare_ms - miss.late_ms} ms before its "
        "deadline, was asked for, and was not got"
        for miss in changed(day, virtually_got)
        if miss.spare_ms - miss.late_ms > _HELD_UP_MS
    ]
    return [f"by the wall: {problem}" for problem in found]


def _conservation_problems(day: WallDay) -> Iterator[str]:
    """Compare flights, gates and reports with the queue manager's books in the lake, each once."""
    correl_ids, outcomes = _columns(day, "correl_id", "outcome")
    ended: dict[str, Counter[bytes]] = {GOT: Counter(), EXPIRED: Counter()}
    for correl_id, outcome in zip(correl_ids, outcomes, strict=True):
        ended.setdefault(outcome, Counter())[correl_id] += 1
    for outcome in ended.keys() - {GOT, EXPIRED}:
        yield f"{ended[outcome].total()} calls ended as {outcome}"
    counts = counts_of(day)
    if len(day.flights) != counts["got"] + counts["expired"] + counts["present"]:
        yield f"{len(day.flights)} flights, but {counts}"
    if Counter(correl_ids) != Counter(flight.correl_id for flight in day.flights):
        yield f"{len(day.flights)} calls are due, the lake has {len(correl_ids)} others"
    got = Counter(a.flight.correl_id for a in day.answers if a.got_ms is not None)
    if got != ended[GOT]:
        yield f"the gates got {got.total()} calls, in the lake are {ended[GOT].total()} others"
    if Counter(day.reported) != ended[EXPIRED]:
        expired_count = ended[EXPIRED].total()
        yield f"{len(day.reported)} reports, in the lake {expired_count} other calls expired"


def _window_problems(day: WallDay) -> Iterator[str]:
    """Find calls that ended outside of their window, as the lake has it."""
    due = {flight.correl_id: deadline_ms(flight, day.compression) for flight in day.flights}
    names = ("correl_id", "outcome", "deliver_at_ms", "expire_at_ms", "ended_ms")
    for correl_id, outcome, deliver_ms, expire_ms, ended_ms in zip(
        *_columns(day, *names), strict=True
    ):
        if expire_ms != due.get(correl_id):
            yield f"{spelled(correl_id)} has the deadline {expire_ms}"
        is_inside = deliver_ms <= ended_ms < expire_ms
        if is_inside is not (outcome == GOT):
            yield f"{spelled(correl_id)}: {outcome} at {ended_ms}, {deliver_ms} to {expire_ms}"


def _got(day: WallDay) -> set[bytes]:
    return {answer.flight.correl_id for answer in day.answers if answer.got_ms is not None}


def _leaves_ms(day: WallDay, flight: Flight) -> int:
    assert flight.departed_ms is not None, "asked for, so it left"
    return day.compression.on_the_wall(flight.departed_ms)


def _columns(day: WallDay, *names: str) -> list[list[Any]]:
    return [day.lives[name].to_pylist() for name in names]


def _lateness(late_ms: list[int]) -> Lateness:
    if not late_ms:
        return Lateness(0, 0)
    in_order: Ints = np.sort(np.array(late_ms))
    return Lateness(int(in_order[(len(in_order) - 1) // 2]), int(in_order[-1]))
