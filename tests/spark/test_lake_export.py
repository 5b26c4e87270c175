"""Lives out of a lake, in three formats and by filter; pictures of the report."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from mayfly.lifetime.life import State
from mayfly.pipeline.errors import ExportError, PlotError
from mayfly.pipeline.lake.plot import draw_timeline
from mayfly.pipeline.lake.queries import part_between
from mayfly.pipeline.lake.timeline import QueueShare
from mayfly.pipeline.spark.lake import export_lives, timeline_of
from tests.bulk.books import START_MS, life
from tests.spark.lakes import balance, write_lake

# In make test they are DuckDB's (tests/lake/test_answers.py), and Spark's are the same
# (test_lake_agrees.py).
pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Five lives of two queues and an hour apart, one of them late and one expired."""
    lake = tmp_path / "lake"
    hour_ms = 3_600_000
    lives = [
        life(1, "Q2", reply_to_q='a "b", c'),
        life(2, "Q1", State.EXPIRED, expire_at_ms=START_MS + 5, report=7),
        life(3, "Q1", ended_ms=START_MS + 3_000 + hour_ms),
        life(4, "Q1", body_bytes=5_000),
    ]
    write_lake(lake, [*lives, balance("Q1", 3, got=2, expired=1)])
    write_lake(lake, [life(5, "Q2", ended_ms=START_MS + 2 * hour_ms)], 6, date="2023-11-15")
    return lake


@pytest.mark.soak
def test_parquet_has_every_column_in_the_order_of_queue_and_position(
    spark: SparkSession, lake: Path, tmp_path: Path
) -> None:
    target = tmp_path / "lives.parquet"
    assert export_lives(spark, lake, target) == 5
    rows = pq.read_table(target).to_pylist()
    assert [(row["queue"], row["position"]) for row in rows] == [
        *(("Q1", 2), ("Q1", 3), ("Q1", 4)),
        *(("Q2", 1), ("Q2", 6)),
    ]
    assert rows[0]["msg_id"] == (2).to_bytes(24, "big")
    assert (rows[0]["expire_at_ms"], rows[0]["outcome"]) == (START_MS + 5, "expired")
    assert "puts" not in rows[0]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.soak
def test_csv_and_json_lines_have_ids_in_hexadecimal(
    spark: SparkSession, lake: Path, tmp_path: Path
) -> None:
    assert export_lives(spark, lake, tmp_path / "lives.csv", part=part_between(None, None)) == 5
    with (tmp_path / "lives.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["position"] for row in rows] == ["2", "3", "4", "1", "6"]
    assert rows[3]["reply_to_q"] == 'a "b", c'
    assert (rows[0]["msg_id"], rows[1]["expire_at_ms"]) == ("0" * 47 + "2", "")
    assert export_lives(spark, lake, tmp_path / "lives.jsonl") == 5
    lines = [json.loads(line) for line in (tmp_path / "lives.jsonl").read_text().splitlines()]
    assert (lines[0]["msg_id"], lines[0]["report"]) == ("0" * 47 + "2", 7)
    assert "expire_at_ms" not in lines[1]


def test_filters_are_joined(spark: SparkSession, lake: Path, tmp_path: Path) -> None:
    def exported(name: str, **filters: object) -> list[int]:
        target = tmp_path / f"{name}.parquet"
        count = export_lives(spark, lake, target, **filters)  # type: ignore[arg-type]  # each by its name
        positions: list[int] = pq.read_table(target).column("position").to_pylist()
        assert count == len(positions)
        return positions

    assert exported("expired", outcomes=["expired"]) == [2]
    assert exported("late", late_after_ms=60_000) == [3, 6]
    assert exported("day", part=part_between("2023-11-15", None)) == [6]
    assert exported("q1", part=part_between(None, None, ["Q1"]), outcomes=["got"]) == [3, 4]
    assert exported("where", where="body_bytes > 1000") == [4]
    assert exported("none", outcomes=["cancelled"]) == []


def test_what_cannot_be_exported_is_named(spark: SparkSession, lake: Path, tmp_path: Path) -> None:
    there = tmp_path / "there.csv"
    there.write_text("mine")
    for target, filters, words in (
        (tmp_path / "lives.xls", {}, "ends in none of"),
        (there, {}, "exists already"),
        (tmp_path / "none" / "lives.csv", {}, "there is no folder"),
        (tmp_path / "a.csv", {"outcomes": ["eaten"]}, "outcome 'eaten' is not one of got, expired"),
    ):
        with pytest.raises(ExportError, match=words):
            export_lives(spark, lake, target, **filters)  # type: ignore[arg-type]  # each by its name
    with pytest.raises(AnalysisException):
        export_lives(spark, lake, tmp_path / "b.csv", where="no_such_column > 1")
    assert there.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lake", "there.csv"]


@pytest.mark.soak
def test_the_course_is_by_the_hour_with_the_worst_queue_first(
    spark: SparkSession, lake: Path
) -> None:
    write_lake(lake, [life(7, "Q2", ended_ms=START_MS + 96 * 3_600_000)], 7, date="2023-11-15")
    course = timeline_of(spark, lake)
    names = ["2023-11-14T22", "2023-11-14T23", "2023-11-15T00", "2023-11-18T22"]
    hours = np.array(names, "datetime64[ms]")
    assert (course.step_ms, course.starts.tolist()) == (3_600_000, hours.tolist())
    assert course.ended["got"].tolist() == [2, 1, 1, 1]
    assert course.ended["expired"].tolist() == [1, 0, 0, 0]
    assert course.waited_s["p50"].tolist() == [0.25, 3600.0, 7195.0, 345593.0]
    assert course.queues == (QueueShare("Q1", 3, 1), QueueShare("Q2", 3, 0))
    assert [share.expired_percent for share in course.queues] == [pytest.approx(100 / 3), 0.0]


@pytest.mark.soak
def test_pictures_are_made_by_the_ending_of_the_name(
    spark: SparkSession, lake: Path, tmp_path: Path
) -> None:
    page, image = tmp_path / "report.html", tmp_path / "report.png"
    course = timeline_of(spark, lake)
    draw_timeline(course, page)
    draw_timeline(course, image)
    assert "5 lives, 20.0 % expired" in page.read_text("utf-8")
    assert image.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(PlotError, match=r"report\.gif ends in none of"):
        draw_timeline(course, tmp_path / "report.gif")
    with pytest.raises(PlotError, match="no lives"):
        timeline_of(spark, lake, part=part_between(None, None, ["NONE"]))
