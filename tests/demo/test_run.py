"""The live day through the real queue manager, and what the demo says of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from mayfly.cli.airport import flights, run, summary
from mayfly.cli.airport.day import (
    REPORTS,
    Day,
    DaySnapshot,
    drive_day,
    open_queue_manager,
    problems_of,
)
from mayfly.cli.airport.flights import DELAY_MS, LIFE_MS, MINUTE_MS, Flight
from mayfly.cli.demo import print_result
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.lifetime.life import State
from mayfly.pipeline.bulk.schema import ledger_batch
from mayfly.pipeline.spark.replay import EXPIRED, GOT, replay_in_process
from mayfly.queue_manager import QueueManager
from tests.demo.wall_days import exact_day, late_day
from tests.readme import demo_excerpt


@pytest.fixture(scope="module")
def thinned() -> list[Flight]:
    """Every 20th flight of 8 March."""
    return flights.flights_of_day(3, 8)[::20]


@pytest.fixture(scope="module")
def lived(
    thinned: list[Flight], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Day, list[DaySnapshot], pa.Table, QueueManager]:
    """The day, what was told of it, and the ledger it left."""
    seen: list[DaySnapshot] = []
    queue_manager, clock = open_queue_manager(thinned, tmp_path_factory.mktemp("day") / "qm")
    with queue_manager:
        day = drive_day(queue_manager, clock, thinned, seen.append)
        assert queue_manager.verify().problems == ()
        rows = queue_manager.ledger.page(0, 100_000)
    batch = ledger_batch(rows, "BOARDING", queue_manager.ledger.instance_id)
    return day, seen, pa.Table.from_batches([batch]), queue_manager


Lived = tuple[Day, list[DaySnapshot], pa.Table, QueueManager]


def test_the_day_ends_as_the_replay_says_to_the_millisecond(
    lived: Lived, thinned: list[Flight]
) -> None:
    """Discards included: the scan meets each deadline, so no difference is allowed for."""
    day, _, ledger, _ = lived
    lives = ledger.filter(
        pc.and_(pc.equal(ledger["kind"], 0), pc.not_equal(ledger["queue"], REPORTS))
    )
    year = flights.flights_table()
    mine = pc.is_in(year["correl_id"], pa.array([flight.correl_id for flight in thinned]))
    replay = replay_in_process(flights.trace_of(year.filter(mine)))
    assert summary.compare(lives, replay) == []
    kinds = replay["outcome"].to_pylist()
    assert (kinds.count(GOT), kinds.count(EXPIRED)) == (len(day.got_ms), len(day.expired))
    assert day.got_ms
    assert day.expired


def test_every_life_of_the_day_is_in_the_books(lived: Lived, thinned: list[Flight]) -> None:
    """A call has two lives, on the staging queue and after it; a report has one."""
    day, _, ledger, _ = lived
    lives = ledger.filter(pc.equal(ledger["kind"], 0))
    outcomes = lives["outcome"].to_pylist()
    assert outcomes.count(State.RELEASED) == len(thinned)
    assert outcomes.count(State.EXPIRED) == len(day.expired)
    assert outcomes.count(State.GOT) == len(day.got_ms) + len(day.reports)
    assert len(outcomes) == 2 * len(thinned) + len(day.expired)


def test_each_report_is_sent_at_the_deadline_of_its_call(lived: Lived) -> None:
    day = lived[0]
    owed = {day.msg_ids[flight.correl_id]: flight.put_ms + LIFE_MS for flight in day.expired}
    assert {report.about: report.put_ms for report in day.reports} == owed
    assert problems_of(day) == []


def test_the_call_that_waited_is_there_at_its_time_and_not_a_millisecond_before(
    lived: Lived,
) -> None:
    waited = lived[0].waited
    assert (waited.found_early, waited.found_in_time) == (False, True)
    assert waited.got_ms == waited.flight.departed_ms
    assert waited.got_ms is not None
    left_ms = waited.flight.put_ms + LIFE_MS - waited.got_ms
    assert waited.remaining_tenths * 100 == left_ms


def test_what_is_told_of_the_day_adds_up(lived: Lived, thinned: list[Flight]) -> None:
    day, seen, _, _ = lived
    put_ms = [flight.put_ms for flight in thinned]
    for moment in seen:
        put = sum(at_ms <= moment.now_ms for at_ms in put_ms)
        staged = sum(at_ms <= moment.now_ms < at_ms + DELAY_MS for at_ms in put_ms)
        # What is put at this very moment comes after it is told.
        late = sum(at_ms == moment.now_ms for at_ms in put_ms)
        assert staged - late <= moment.staged_count <= staged
        present = moment.staged_count + moment.available_count
        assert put - late <= present + moment.got_count + moment.expired_count <= put
    assert (seen[-1].got_count, seen[-1].expired_count) == (len(day.got_ms), len(day.expired))


def test_a_report_that_is_missing_or_doubled_is_a_problem(lived: Lived) -> None:
    day = lived[0]
    for reports in (day.reports[1:], [*day.reports, day.reports[0]]):
        assert len(problems_of(day._replace(reports=reports))) == 1


def test_the_summary_tells_two_lives_and_the_conservation(
    lived: Lived, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = _result(lived, tmp_path, [])
    print_result(result, as_json=False)
    said = capsys.readouterr().out
    day = result.day
    reported = next(r for r in day.reports if day.msg_ids[day.expired[0].correl_id] == r.about)
    for text in (day.waited.msg_id.hex(), reported.about.hex(), reported.msg_id.hex()):
        assert text in said
    ended = f"{len(day.got_ms)} got + {len(day.expired)} expired"
    assert f"{len(day.flights)} put = {ended} + 0 present" in said
    assert "02:59:59.999: nothing there" in said
    assert "agree." in said
    print_result(result, as_json=True)
    assert json.loads(capsys.readouterr().out)["day"]["expired"] == len(day.expired)


def test_the_summary_says_how_the_wall_clock_differs_and_why(
    lived: Lived, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One minute at 3,600 times is 17 ms: a call asked for 9 ms late is half a minute late."""
    result = _result(lived, tmp_path, [])
    print_result(result, as_json=False)
    count = len(result.day.flights)
    assert f"the same? {count} of {count} ended alike" in capsys.readouterr().out
    flight = next(f for f in result.day.flights if f.correl_id in result.day.got_ms)
    assert flight.departed_ms is not None
    spare = (flight.put_ms + LIFE_MS - flight.departed_ms) / MINUTE_MS
    print_result(replace(result, wall=late_day(result.day.flights, flight)), as_json=False)
    said = capsys.readouterr().out
    assert f"the same? {count - 1} of {count} ended alike" in said
    name = flights.spelled(flight.correl_id)
    assert (
        f"{name} left {spare:.1f} min before its deadline, its call was {spare:.1f} min late"
        in said
    )


def test_what_does_not_agree_is_told_and_ends_with_1(
    lived: Lived, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        CommandFailed, match="1 do not agree, first: the lake has lost a row"
    ) as end:
        print_result(_result(lived, tmp_path, ["the lake has lost a row"]), as_json=False)
    assert end.value.code == ExitCode.NOTHING
    said = capsys.readouterr().out
    assert "It does not agree:\n  the lake has lost a row" in said
    assert "known answer agree" not in said


def _result(lived: Lived, out: Path, problems: list[str]) -> run.DemoResult:
    day, _, ledger, _ = lived
    mine = pc.is_in(
        flights.flights_table()["correl_id"], pa.array([f.correl_id for f in day.flights])
    )
    outcomes = replay_in_process(flights.trace_of(flights.flights_table().filter(mine)))
    lives = ledger.filter(pc.is_in(ledger["queue"], outcomes["queue"].unique()))
    lives = lives.filter(pc.equal(lives["kind"], 0))
    return run.DemoResult(
        plan=run.DemoPlan(out),
        day=day,
        lives=lives,
        year_outcomes=outcomes,
        wall=exact_day(day.flights),
        lake_rows=len(ledger),
        rows_during_day=1,
        batch_count=1,
        difference_count=0,
        problems=problems,
        files=[],
    )


@pytest.fixture(scope="module")
def year() -> pa.Table:
    """The outcomes of all calls of the year, replayed in this process."""
    return replay_in_process(flights.trace_of(flights.flights_table()))


def test_a_year_with_one_call_lost_is_a_problem(year: pa.Table) -> None:
    """Neither the count of the known answer nor the replay in one process lets it pass."""
    table = flights.flights_table()
    assert run._year_problems(year, table) == []
    assert len(run._year_problems(year.slice(1), table)) == 2


def test_the_readme_shows_the_counts_of_the_day_and_of_the_year(year: pa.Table) -> None:
    """Those of the whole demo, which make soak runs and compares with the README line by line."""
    day = run._counts(summary.of_day(year, 3, 8))
    ended = f"{day['got']} got + {day['expired']} expired"
    of_year = run._counts(year)
    shown = demo_excerpt()
    assert f"  conserved {day['calls']} put = {ended} + 0 present" in shown
    assert f"  reports   {day['expired']}, one for each call that expired" in shown
    ended = f"{of_year['got']:,} got + {of_year['expired']:,} expired"
    assert f"  the year  {of_year['calls']:,} = {ended}" in shown


def test_a_folder_with_files_of_others_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "mine").touch()
    with pytest.raises(FileExistsError, match="did not make"):
        run._make_room(tmp_path)
    assert (tmp_path / "lake" / "mine").exists()


def test_a_folder_of_an_earlier_run_is_made_empty(tmp_path: Path) -> None:
    run._make_room(tmp_path / "out")
    (tmp_path / "out" / "lake").mkdir()
    (tmp_path / "out" / "notes").touch()
    run._make_room(tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [run.MARK, "notes"]
