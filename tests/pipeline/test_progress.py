"""What is counted of a pipeline's batches, and what the next run knows of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mayfly.pipeline.progress import KeptProgress, Progress, write_whole
from tests.pipeline.queries import event


def test_counts_add_up_over_batches_and_lag_and_speed_are_those_of_the_last() -> None:
    first = event(0, 10, released=3, expired=1, dead_lettered=1, reports=1, overdue=2, state_rows=4)
    second = event(1, 2, released=5, late_ms_max=700, duration_ms=400, state_rows=2)
    after = Progress("calls").with_batch(first)
    assert (after.batch, after.held, after.lag_ms, after.rows_per_second) == (0, 5, None, 10.0)
    after = after.with_batch(second)
    assert after == Progress(
        "calls",
        batch=1,
        at="2026-11-20T12:00:01.000Z",
        # 400 ms after its start.
        batch_ended_ms=1_795_176_001_400,
        batch_rows=5,
        batches=2,
        rows_in=12,
        held=2,
        released=8,
        expired=1,
        dead_lettered=1,
        overdue=2,
        reports=1,
        lag_ms=700,
        # Five came out in 400 ms, of the two that went in nothing is to be seen there.
        rows_per_second=12.5,
    )
    assert after.rows_out == 10


def test_every_source_counts() -> None:
    two = event(0, 3)
    two["observedMetrics"]["mayfly_in_2"] = two["observedMetrics"]["mayfly_in_1"]
    assert Progress("calls").with_batch(two).rows_in == 6


def test_what_spark_does_not_say_is_nothing() -> None:
    bare = event(0)
    bare["observedMetrics"] = {}
    bare["durationMs"] = {}
    after = Progress("calls").with_batch(bare)
    assert (after.rows_in, after.rows_out, after.rows_per_second) == (0, 0, 0.0)


def test_a_batch_that_moves_nothing_is_told_from_one_that_does() -> None:
    before = Progress("calls")
    assert not before.with_batch(event(0)).has_moved_since(before)
    assert before.with_batch(event(0, 1)).has_moved_since(before)
    assert before.with_batch(event(0, expired=1)).has_moved_since(before)


@pytest.mark.parametrize(
    ("batch", "state_rows", "held"),
    [
        (8, 1, 12),  # the next one after batch 7, after which 10 were held: 3 came, 1 left
        (9, 1, None),  # a batch was finished that nobody has counted
        (0, 1, 2),  # the checkpoint was begun anew
        (9, 0, 0),  # the state is empty, however that came
    ],
)
def test_held_rows_are_known_or_said_to_be_unknown(
    batch: int, state_rows: int, held: int | None
) -> None:
    before = Progress("calls", batch=7, held=10)
    after = before.with_batch(event(batch, 3, released=1, state_rows=state_rows))
    assert after.held == held
    following = after.with_batch(event(batch + 1, 5, state_rows=1))
    assert following.held == (None if held is None else held + 5)


def test_the_next_run_goes_on_with_what_is_held_and_counts_anew(tmp_path: Path) -> None:
    kept = KeptProgress(f"file://{tmp_path}")
    assert kept.load("calls") == Progress("calls")
    kept.save(Progress("calls", batch=7, held=10, rows_in=99, restarts=1))
    assert KeptProgress(str(tmp_path)).load("calls") == Progress("calls", batch=7, held=10)
    [file] = tmp_path.iterdir()
    for damaged in ("", "[]", '{"batch": 7}', '{"batch": 7, "held": null}'):
        file.write_text(damaged)
        assert kept.load("calls") == Progress("calls")


def test_a_checkpoint_elsewhere_keeps_nothing() -> None:
    kept = KeptProgress("hdfs://cluster/checkpoints/calls")
    kept.save(Progress("calls", batch=7, held=10))
    assert kept.load("calls") == Progress("calls")


def test_a_file_is_written_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "metrics.prom"
    write_whole(file, "one")
    write_whole(file, json.dumps({"two": 2}))
    assert file.read_text() == '{"two": 2}'
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.prom"]
    missing = tmp_path / "nowhere" / "metrics.prom"
    with pytest.raises(FileNotFoundError) as caught:
        write_whole(missing, "x")
    assert caught.value.filename == str(missing)
