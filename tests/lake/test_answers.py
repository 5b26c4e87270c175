"""Small lakes are answered without Spark: the report, its picture and the export."""

from __future__ import annotations

import csv
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from mayfly.cli.show import seconds_shown
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.pipeline.errors import LakeError, PartError, PlotError
from mayfly.pipeline.lake import answers
from mayfly.pipeline.lake.plot import draw_timeline
from mayfly.pipeline.lake.queries import LakePart, part_between
from mayfly.pipeline.lake.timeline import STEPS_MS, QueueShare, step_between
from tests.bulk.books import START_MS, life
from tests.lake.made import small_lake
from tests.spark.lakes import balance, forget_columns, forget_outcomes, write_lake

HOUR_MS = 3_600_000
#: A command in a process that then says whether it has imported Spark.
_PROGRAM = """
import json, sys
from mayfly.cli.app import app
for words in json.loads(sys.argv[1]):
    app(["ledger", *words], standalone_mode=False)
    print("pyspark" in sys.modules)
"""


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Six lives of three minutes on two queues and on the staging queue."""
    return small_lake(tmp_path / "lake")


# The report


@pytest.mark.parametrize("is_mixed", [False, True])
def test_files_of_versions_that_knew_fewer_outcomes_and_more_are_answered(
    tmp_path: Path, is_mixed: bool
) -> None:
    """Today's files have no count of others; an outcome of a later version is counted there."""
    old = write_lake(tmp_path, [life(1), balance("Q1", 1, got=1), balance("Q2", 0)])
    forget_outcomes(old, "other", "lost_at_restart")
    if is_mixed:
        later = life(4)._replace(outcome="unheard_of")
        write_lake(tmp_path, [later, balance("Q1", 2, got=1, unheard_of=1)], 4)
    [q1] = answers.ledger_report(tmp_path)
    assert q1.balance is not None
    count = 2 if is_mixed else 1
    assert (q1.balance.put, q1.balance.ended, q1.balance.is_balanced) == (count, count, True)
    assert (q1.lives, q1.outcomes["got"], q1.outcomes["lost_at_restart"]) == (count, 1, 0)
    assert q1.outcomes.get("other") == (1 if is_mixed else None)


@pytest.mark.parametrize("is_mixed", [False, True])
def test_files_of_versions_without_the_facts_of_ends_are_answered_and_exported(
    tmp_path: Path, is_mixed: bool
) -> None:
    """Their lives have null there; a lake may hold files of both kinds."""
    facts: dict[str, Any] = {
        "capped_by": "CAPEXPRY(600) of QALIAS(A)",
        "detected_by": "get",
        "ended_by": "app",
        "ended_program": "till",
    }
    lake = tmp_path / "LAKE"
    forget_columns(write_lake(lake, [life(1), balance("Q1", 1, got=1)]), *facts)
    if is_mixed:
        write_lake(lake, [life(3)._replace(**facts)], 3)
    count = answers.export_lives(lake, tmp_path / "lives.parquet")
    rows = pq.read_table(tmp_path / "lives.parquet").select([*facts]).to_pylist()
    assert rows == [dict.fromkeys(facts), facts][:count]
    assert count == 1 + is_mixed
    assert answers.ledger_report(lake)[0].lives == count


def test_the_report_counts_and_measures_exactly(lake: Path) -> None:
    q1, q2, staged = answers.ledger_report(lake, late_after_ms=100_000)
    assert (q1.queue, q1.lives, q1.outcomes["got"], q1.outcomes["expired"]) == ("Q1", 3, 2, 1)
    assert (q1.late, q1.waited_p50_ms) == (1, (250 + 120_000) / 2)
    assert q1.waited_p95_ms == pytest.approx(250 + 0.95 * 119_750)
    assert q1.balance is not None
    assert (q1.balance.put, q1.balance.ended, q1.balance.is_balanced) == (3, 3, True)
    assert (q2.lives, q2.late, q2.balance) == (2, 1, None)
    assert (staged.queue, staged.released_late_p99_ms, staged.waited_p50_ms) == (
        STAGING_QUEUE,
        0.0,
        None,
    )


@pytest.mark.parametrize(
    ("part", "lives"),
    [
        (part_between(None, None, ["Q1"]), {"Q1": 3}),
        (part_between(None, None, ["Q*"]), {"Q1": 3, "Q2": 2}),
        (part_between(None, None, ["*"]), {"Q1": 3, "Q2": 2, STAGING_QUEUE: 1}),
        (part_between(None, None, ["NONE"]), {}),
        (part_between("2023-11-16", None), {}),
        (LakePart(until_ms=START_MS + 2_250), {"Q2": 1}),
        (LakePart(until_ms=START_MS + 2_251), {"Q1": 1, "Q2": 1}),
        (LakePart(from_ms=START_MS + 180_000), {"Q2": 1}),
        (LakePart(from_ms=START_MS + 180_001), {}),
    ],
)
def test_a_part_has_its_first_moment_and_not_its_last(
    lake: Path, part: LakePart, lives: dict[str, int]
) -> None:
    reports = answers.ledger_report(lake, part=part)
    assert {report.queue: report.lives for report in reports if report.lives} == lives


@pytest.mark.parametrize("name", ["A'B", "Q 1", "Q*1", "Q" * 49, "Q;--"])
def test_what_is_no_name_of_a_queue_is_refused(name: str) -> None:
    with pytest.raises(PartError, match="is not the name of a queue"):
        part_between(None, None, [name])


def test_a_lake_that_cannot_be_read_is_named(lake: Path, tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="there is no lake at"):
        answers.ledger_report(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert answers.ledger_report(tmp_path / "empty") == []
    [file, _other] = lake.glob("date=2023-11-1*/*.parquet")
    file.write_bytes(b"damaged")
    with pytest.raises(LakeError, match=r"cannot be read: .*\.parquet"):
        answers.ledger_report(lake)


def test_a_lake_is_read_in_one_process_up_to_a_size_of_its_part(lake: Path) -> None:
    padding = lake / "date=2023-12-01" / "batch-x-1.parquet"
    padding.parent.mkdir()
    padding.touch()
    held = sum(path.stat().st_size for path in lake.glob("date=*/*.parquet"))
    for more, expected in ((0, True), (1, False)):
        os.truncate(padding, answers.ONE_PROCESS_BYTES - held + more)
        assert answers.fits_one_process(lake) is expected
    assert answers.fits_one_process(lake, part_between(None, "2023-11-30"))


# The picture


def test_the_course_is_in_steps_that_suit_the_time(lake: Path) -> None:
    timeline = answers.timeline_of(lake)
    begin = np.datetime64(START_MS, "ms")
    assert timeline.step_ms == 5_000
    assert [(moment - begin).astype(int) for moment in timeline.starts] == [0, 120_000, 180_000]
    assert timeline.ended["got"].tolist() == [2, 1, 1]
    assert timeline.ended["expired"].tolist() == [1, 0, 0]
    assert timeline.waited_s["p50"].tolist() == [0.25, 120.0, 174.0]
    timeline = answers.timeline_of(lake, part=LakePart(until_ms=START_MS + 5_000))
    assert timeline.step_ms == 1_000
    assert timeline.ended["got"].tolist() == [1, 0, 1]
    assert np.isnan(timeline.waited_s["p99"][1])


def test_the_staging_queue_is_counted_apart(lake: Path) -> None:
    timeline = answers.timeline_of(lake)
    assert timeline.queues == (QueueShare("Q1", 3, 1), QueueShare("Q2", 2, 0))
    assert timeline.staged == {"released": 1}
    assert sum(counts.sum() for counts in timeline.ended.values()) == 5


@pytest.mark.parametrize(
    ("length_ms", "least_ms", "step_ms"),
    [
        (0, 1_000, 1_000),
        (119_999, 1_000, 1_000),
        (120_000, 1_000, 5_000),
        (0, HOUR_MS, HOUR_MS),
        (120 * HOUR_MS - 1, 1_000, HOUR_MS),
        (120 * HOUR_MS, 1_000, 6 * HOUR_MS),
        (100_000 * HOUR_MS, 1_000, STEPS_MS[-1]),
    ],
)
def test_a_step_is_the_shortest_that_leaves_120_of_them(
    length_ms: int, least_ms: int, step_ms: int
) -> None:
    span = {"first_ms": START_MS, "last_ms": START_MS + length_ms}
    assert step_between("lake", span, least_ms) == step_ms


def test_pictures_say_units_and_numbers(lake: Path, tmp_path: Path) -> None:
    timeline = answers.timeline_of(lake)
    page, image, drawing = (tmp_path / f"report.{kind}" for kind in ("html", "png", "svg"))
    for file in (page, image, drawing):
        draw_timeline(timeline, file)
    text = page.read_text("utf-8")
    assert image.read_bytes().startswith(b"\x89PNG")
    assert drawing.read_text("utf-8").startswith("<?xml")
    for said in (
        "5 lives, 20.0 % expired; 2023-11-14 22:13:20 to 2023-11-14 22:16:25 UTC",
        "Lives that ended, per 5 s",
        "33.3 %: 1 of 3",
        f"Counted apart: {STAGING_QUEUE}, where delayed messages live first: 1 released",
    ):
        assert said in text
    with pytest.raises(PlotError, match=r"report\.gif ends in none of"):
        draw_timeline(timeline, tmp_path / "report.gif")
    with pytest.raises(PlotError, match="no lives"):
        answers.timeline_of(lake, part=part_between(None, None, ["NONE"]))


# The export


def test_exports_are_whole_files_of_three_formats(lake: Path, tmp_path: Path) -> None:
    for kind in ("parquet", "csv", "jsonl"):
        assert answers.export_lives(lake, tmp_path / f"lives.{kind}") == 6
    rows = pq.read_table(tmp_path / "lives.parquet").to_pylist()
    assert [(row["queue"], row["position"]) for row in rows] == [
        *(("Q1", 2), ("Q1", 3), ("Q1", 4)),
        *(("Q2", 1), ("Q2", 7), (STAGING_QUEUE, 5)),
    ]
    assert "puts" not in rows[0]
    with (tmp_path / "lives.csv").open(newline="") as file:
        lives = list(csv.DictReader(file))
    assert (lives[3]["reply_to_q"], lives[0]["msg_id"]) == ('a "b", c', "0" * 47 + "2")
    lines = [json.loads(line) for line in (tmp_path / "lives.jsonl").read_text().splitlines()]
    assert (lines[0]["msg_id"], lines[0]["date"]) == ("0" * 47 + "2", "2023-11-14")
    assert "expire_at_ms" not in lines[1]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_an_empty_text_is_nothing_in_csv(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    write_lake(lake, [life(1, correl_id=b"")])
    answers.export_lives(lake, tmp_path / "lives.csv")
    head, row = (tmp_path / "lives.csv").read_text().splitlines()
    assert row.split(",")[head.split(",").index("correl_id")] == ""
    assert '"' not in row


def test_filters_of_an_export_are_joined(lake: Path, tmp_path: Path) -> None:
    def exported(name: str, **filters: object) -> list[int]:
        target = tmp_path / f"{name}.parquet"
        count = answers.export_lives(lake, target, **filters)  # type: ignore[arg-type]  # each by its name
        positions: list[int] = pq.read_table(target).column("position").to_pylist()
        assert count == len(positions)
        return positions

    assert exported("expired", outcomes=["expired"]) == [2]
    assert exported("late", late_after_ms=100_000) == [3, 7]
    assert exported("day", part=part_between("2023-11-15", None)) == []
    assert exported("q1", part=part_between(None, None, ["Q1"]), outcomes=["got"]) == [3, 4]
    assert exported("none", outcomes=["cancelled"]) == []


# The command


@pytest.mark.slow
def test_commands_about_a_small_lake_do_not_import_spark(lake: Path, tmp_path: Path) -> None:
    """Neither a report nor its picture nor an export nor an analysis; a process runs them all."""
    commands = [
        ["report", str(lake)],
        ["report", str(lake), "--plot", "a.svg"],
        ["export", str(lake), "a.csv"],
        ["analyze", str(lake), "--plot", "a.html"],
    ]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, json.dumps(commands)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    assert "True" not in done.stdout.splitlines()
    assert done.stdout.splitlines().count("False") == len(commands)
    assert done.stderr == ""


@pytest.mark.slow
def test_a_terminal_is_told_how_long_spark_takes() -> None:
    """Every second, and nothing is left of it in the end; what is no terminal is told nothing."""
    ours, theirs = pty.openpty()
    told = b""
    with open(theirs, "w", encoding="utf-8") as terminal:  # noqa: PTH123  # a descriptor, no path
        with seconds_shown(terminal, "Spark is at work"):
            while b"2 s" not in told:
                told += os.read(ours, 1_000)
        told += os.read(ours, 1_000)
    os.close(ours)
    assert told == (
        b"\r\x1b[Kmayfly: Spark is at work, 1 s\r\x1b[Kmayfly: Spark is at work, 2 s\r\x1b[K"
    )
