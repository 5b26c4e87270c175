"""The day on the machine's clock against the virtual one: what counts as lost, doubled, or late."""

import io
from collections.abc import Callable

import pyarrow as pa
import pytest
from rich.console import Console

from mayfly.cli.airport import wall_clock
from mayfly.cli.airport.flights import LIFE_MS, Flight, flights_of_day, spelled
from mayfly.cli.airport.run import picture
from mayfly.cli.airport.wall_clock import WallDay
from tests.demo.wall_days import exact_day, late_day, with_changes


@pytest.fixture(scope="module")
def flights() -> list[Flight]:
    """Every 20th flight of 8 March."""
    return flights_of_day(3, 8)[::20]


@pytest.fixture(scope="module")
def got(flights: list[Flight]) -> set[bytes]:
    """Who is got on the virtual clock."""
    return {
        flight.correl_id
        for flight in flights
        if flight.departed_ms is not None and flight.departed_ms < flight.put_ms + LIFE_MS
    }


def test_an_exact_day_has_no_problem_and_changes_nothing(
    flights: list[Flight], got: set[bytes]
) -> None:
    day = exact_day(flights)
    assert wall_clock.problems_of(day, got) == []
    assert wall_clock.changed(day, got) == []
    expired_count = len(flights) - len(got)
    assert wall_clock.counts_of(day) == {
        "calls": len(flights),
        "got": len(got),
        "expired": expired_count,
        "present": 0,
    }
    assert wall_clock.put_lateness(day) == wall_clock.get_lateness(day) == (0, 0)


def test_a_call_asked_for_too_late_is_a_change_and_no_problem(
    flights: list[Flight], got: set[bytes]
) -> None:
    """What it could be late and was late is said in ms of the machine."""
    missed = next(flight for flight in flights if flight.correl_id in got)
    day = late_day(flights, missed)
    assert wall_clock.problems_of(day, got) == []
    [miss] = wall_clock.changed(day, got)
    assert miss.flight == missed
    assert miss.late_ms == miss.spare_ms > 0
    assert wall_clock.as_json(day, got)["changed"] == [
        {"flight": spelled(missed.correl_id), "spare_ms": miss.spare_ms, "late_ms": miss.late_ms}
    ]


def test_lateness_is_said_for_half_and_for_all(flights: list[Flight]) -> None:
    """Of three puts the second, of four the second, counted from the one least late."""
    day = exact_day(flights[:4])
    late_ms = pa.array([0, 30, 10, 20])
    moved = day.lives.set_column(2, "put_ms", pa.compute.add(day.lives["put_ms"], late_ms))
    assert wall_clock.put_lateness(with_changes(day, lives=moved)) == (10, 30)


def _without_report(day: WallDay) -> WallDay:
    return with_changes(day, reported=day.reported[1:])


def _with_report_twice(day: WallDay) -> WallDay:
    return with_changes(day, reported=[*day.reported[1:], day.reported[1]])


def _with_one_present(day: WallDay) -> WallDay:
    return with_changes(day, present_count=1)


def _without_a_life(day: WallDay) -> WallDay:
    return with_changes(day, lives=day.lives.slice(1))


def _with_a_life_twice(day: WallDay) -> WallDay:
    return with_changes(day, lives=pa.concat_tables([day.lives.slice(1), day.lives.slice(1, 1)]))


def _with_a_wrong_book(day: WallDay) -> WallDay:
    return with_changes(day, book_problems=["a counter is off"])


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (_without_report, "49 flights, but"),
        (_with_report_twice, "25 reports, in the lake 25 other calls expired"),
        (_with_one_present, "'present': 1}"),
        (_without_a_life, "49 calls are due, the lake has 48 others"),
        (_with_a_life_twice, "49 calls are due, the lake has 49 others"),
        (_with_a_wrong_book, "a counter is off"),
    ],
)
def test_what_does_not_add_up_is_a_problem(
    flights: list[Flight], got: set[bytes], spoil: Callable[[WallDay], WallDay], text: str
) -> None:
    problems = wall_clock.problems_of(spoil(exact_day(flights)), got)
    assert any(text in problem for problem in problems), problems


@pytest.mark.parametrize(("early_ms", "problem_count"), [(0, 0), (1, 1)])
def test_a_get_at_the_deadline_is_a_problem_one_before_is_none(
    flights: list[Flight], got: set[bytes], early_ms: int, problem_count: int
) -> None:
    """A window ends before its last millisecond."""
    rows = exact_day(flights).lives.to_pylist()
    row = next(row for row in rows if row["correl_id"] in got)
    row["ended_ms"] = row["expire_at_ms"] - 1 + early_ms
    day = with_changes(exact_day(flights), lives=pa.Table.from_pylist(rows))
    assert len(wall_clock.problems_of(day, got)) == problem_count


def test_a_call_that_was_there_and_asked_for_in_time_must_be_got(
    flights: list[Flight], got: set[bytes]
) -> None:
    """Two seconds before its deadline no jitter explains that it was not."""
    missed = next(flight for flight in flights if flight.correl_id in got)
    day = late_day(flights, missed)
    answer = day.answers[-1]
    for early_ms, problem_count in ((1_000, 0), (1_001, 1)):
        early = answer._replace(asked_ms=answer.asked_ms - early_ms)
        problems = wall_clock.problems_of(
            with_changes(day, answers=[*day.answers[:-1], early]), got
        )
        assert len(problems) == problem_count


def test_a_call_got_that_should_have_expired_is_a_problem(
    flights: list[Flight], got: set[bytes]
) -> None:
    day = exact_day(flights)
    fewer = got - {min(got)}
    assert wall_clock.problems_of(day, fewer) == [
        f"by the wall: {spelled(min(got))} was got after its deadline"
    ]


def test_the_picture_shows_each_airport_and_their_sum(flights: list[Flight]) -> None:
    console = Console(width=110, file=io.StringIO(), record=True)
    console.print(picture(exact_day(flights).seen[0]))
    lines = console.export_text().splitlines()
    assert lines[0].split() == ["02:00", "put", "staged", "available", "got", "expired"]
    assert lines[1].split()[:6] == ["Newark", "8", "1", "2", "3", "2"]
    assert lines[4].split()[:6] == ["all", "24", "3", "6", "9", "6"]
    assert lines[1].count("█") == round(44 * 8 / 9)
    assert lines[5].split() == ["reports", "4", "rows", "in", "the", "lake", "1,234"]
