"""Messages that a batch cannot use leave it alone and are backed out; the others arrive once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from mayfly.mqi import reasons as rc
from mayfly.mqi.structures import DLH
from mayfly.pipeline.build import BatchWriter, Readers, find_failing_rows, start, tie_checkpoint
from mayfly.pipeline.config import PipelineConfig
from mayfly.pipeline.failures import failure_of
from mayfly.pipeline.rows import routed_rows
from mayfly.pipeline.spark.queue_source import RowRange
from tests.pipeline.test_build import Scene, scene, session, taken, written
from tests.spec.scene import DEAD

__all__ = ["session"]

BETWEEN_QUEUES = """
trigger = "available now"
[[source]]
kind = "queue"
URL
manager = "A"
queue = "IN"
consumer = "calls"
rows_per_batch = 100
[[sink]]
name = "orders"
kind = "queue"
URL
manager = "B"
queue = "OUT"
"""
ROUTE = """
[[route]]
to = "orders"
when = "decode(payload, 'UTF-8') <> ''"
"""


class Halving:
    """Rows of which some are bad, and how often it was looked whether they fail."""

    def __init__(self, bad: set[int]) -> None:
        self.bad, self.looks = bad, 0

    def fail(self, ranges: Sequence[RowRange]) -> bool:
        self.looks += 1
        return any(row in self.bad for a, u in ranges for row in range(a + 1, u + 1))


@given(st.sets(st.integers(1, 60)), st.lists(st.integers(1, 20), min_size=1, max_size=4))
def test_halving_finds_the_rows_that_fail_and_no_other(bad: set[int], sizes: list[int]) -> None:
    ranges, end = [], 0
    for size in sizes:
        ranges.append((end, end + size))
        end += size + 1
    rows = {row for after, until in ranges for row in range(after + 1, until + 1)}
    assert set(find_failing_rows(Halving(bad).fail, ranges)) == bad & rows


def test_one_bad_row_of_100_000_is_found_by_looks_that_double() -> None:
    halving = Halving({77_777})
    assert find_failing_rows(halving.fail, [(0, 100_000)]) == [77_777]
    assert halving.looks <= 2 * 17 + 1


def test_when_all_fail_it_is_not_the_rows() -> None:
    everything = Halving({*range(1, 1_001)})
    assert find_failing_rows(everything.fail, [(0, 1_000)], 100) == []
    assert everything.looks < 300
    assert len(find_failing_rows(Halving({*range(1, 201)}).fail, [(0, 1_000)], 100)) == 0
    assert len(find_failing_rows(Halving({*range(2, 201)}).fail, [(0, 1_000)], 100)) == 100


def test_nothing_is_found_where_nothing_is_there_or_fails() -> None:
    assert find_failing_rows(Halving({1}).fail, []) == []
    assert find_failing_rows(Halving(set()).fail, [(0, 9)]) == []


def run_once(s: Scene, config: PipelineConfig, spark: SparkSession) -> None:
    """Run a pipeline as `mayfly pipeline run` does, without a second try."""
    readers = Readers(config.checkpoint, spark, pytest.fail)
    start(config, spark, readers).awaitTermination()
    assert readers.end_written()


def put(s: Scene, *bodies: bytes) -> None:
    with s.a.session() as putter:
        for body in bodies:
            putter.put("IN", body, persistent=True)


def bodies(s: Scene, name: str = "OUT") -> list[bytes]:
    return sorted(message.body for message in taken(s.b, name))


SMALL = [b"%d" % n for n in range(10, 18)]
#: A bad one is found by halving, and each look is a job of Spark.
FEW = SMALL[:3]
#: No text in UTF-8.
BAD = [b"\xff\xfe", b"\xff\xff"]


@pytest.mark.spark
@pytest.mark.slow
def test_G8_a_message_that_no_queue_takes_is_backed_out_by_BOTHRESH_and_the_others_arrive_once(
    session: SparkSession, tmp_path: Path
) -> None:
    with scene(tmp_path) as s:
        assert s.a.mqsc("DEFINE QLOCAL(BAD)\nALTER QLOCAL(IN) BOTHRESH(2) BOQNAME(BAD)").ok
        assert s.b.mqsc("ALTER QLOCAL(OUT) MAXMSGL(100)\nALTER QMGR DEADQ(' ')").ok
        put(s, *FEW[:2], b"x" * 200, *FEW[2:])
        config = written(s, BETWEEN_QUEUES)
        run_once(s, config, session)
        assert bodies(s) == FEW
        # It was there when the run began, so a second batch has had it again.
        [bad] = taken(s.a, "BAD")
        assert bad.body == b"x" * 200
        assert (s.a.counts("IN").locked, s.a.curdepth("IN")) == (0, 0)
        # The pipeline goes on.
        put(s, b"later")
        run_once(s, config, session)
        assert bodies(s) == [b"later"]
        assert s.a.verify().ok
        assert s.b.verify().ok


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_Q1_a_message_that_cannot_even_be_backed_out_stands_alone_and_doubles_nothing(
    session: SparkSession, tmp_path: Path
) -> None:
    """The batch is written when its pipeline ends, as by a kill at that moment."""
    with scene(tmp_path) as s:
        assert s.a.mqsc("ALTER QMGR DEADQ(' ')").ok
        assert s.b.mqsc("ALTER QLOCAL(OUT) MAXMSGL(100)\nALTER QMGR DEADQ(' ')").ok
        put(s, *SMALL, b"x" * 200)
        config = written(s, BETWEEN_QUEUES)
        for _ in range(2):
            with pytest.raises(StreamingQueryException, match="neither BOQNAME nor"):
                run_once(s, config, session)
            assert s.b.curdepth("OUT") == len(SMALL)
            assert s.a.counts("IN").locked == len(SMALL) + 1
        # What its sink would take by now is decided: it is its source's.
        assert s.b.mqsc("ALTER QLOCAL(OUT) MAXMSGL(1000)").ok
        assert s.a.mqsc(f"ALTER QMGR DEADQ({DEAD})").ok
        run_once(s, config, session)
        assert bodies(s) == SMALL
        [letter] = taken(s.a, DEAD)
        header = DLH.unpack(letter.body)
        assert (header["Reason"], header["DestQName"]) == (rc.MQRC_MSG_TOO_BIG_FOR_Q, "IN")
        assert letter.body.endswith(b"x" * 200)
        assert s.a.counts("IN").locked == 0
        assert s.a.verify().ok
        assert s.b.verify().ok


FILES = """
[[source]]
kind = "files"
format = "text"
path = "in"
columns = { queue = "'ANY'", payload = "cast(value as binary)" }
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("good", "bad", "other_source"),
    [
        pytest.param(SMALL[:1], BAD[:1], "", id="one"),
        pytest.param(FEW, BAD, "", id="two", marks=pytest.mark.soak),
        pytest.param(FEW, BAD, FILES, id="beside files", marks=pytest.mark.soak),
    ],
)
def test_G8_a_message_that_an_expression_cannot_have_leaves_its_batch(
    session: SparkSession,
    tmp_path: Path,
    good: list[bytes],
    bad: list[bytes],
    other_source: str,
) -> None:
    with scene(tmp_path) as s:
        assert s.a.mqsc(f"ALTER QMGR DEADQ({DEAD})").ok
        put(s, *good[:2], bad[0], *good[2:], *bad[1:])
        config = written(s, BETWEEN_QUEUES + ROUTE + other_source)
        with pytest.raises(StreamingQueryException) as raised:
            run_once(s, config, session)
        failure = failure_of(raised.value)
        count = len(bad)
        expected = f"messages that fail alone are backed out: {count} of IN ({count} moved"
        assert failure.text.startswith(expected)
        # The supervisor starts it again, and the batch goes on without them.
        assert not failure.is_final
        assert s.a.counts("IN").locked == len(good)
        run_once(s, config, session)
        assert bodies(s) == good
        letters = taken(s.a, DEAD)
        assert [letter.body[-2:] for letter in letters] == bad
        reasons = {DLH.unpack(letter.body)["Reason"] for letter in letters}
        assert reasons == {rc.MQRC_BACKOUT_THRESHOLD_REACHED}
        assert s.a.counts("IN").locked == 0
        assert s.a.verify().ok


@pytest.mark.spark
@pytest.mark.slow
def test_a_full_queue_holds_the_batch_and_backs_nothing_out(
    session: SparkSession, tmp_path: Path
) -> None:
    with scene(tmp_path) as s:
        assert s.b.mqsc("ALTER QLOCAL(OUT) MAXDEPTH(5)\nALTER QMGR DEADQ(' ')").ok
        put(s, *SMALL)
        config = written(s, BETWEEN_QUEUES)
        with pytest.raises(StreamingQueryException, match="2053"):
            run_once(s, config, session)
        assert s.a.counts("IN").locked == len(SMALL)
        assert s.b.mqsc("ALTER QLOCAL(OUT) MAXDEPTH(500)").ok
        run_once(s, config, session)
        assert bodies(s) == SMALL


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_a_batch_that_ends_between_back_out_and_commit_is_repeated_and_doubles_nothing(
    session: SparkSession, tmp_path: Path
) -> None:
    """As a kill of the driver at that moment leaves it: with one file more in offsets."""
    with scene(tmp_path) as s:
        assert s.a.mqsc(f"ALTER QMGR DEADQ({DEAD})").ok
        assert s.b.mqsc("ALTER QLOCAL(OUT) MAXMSGL(100)\nALTER QMGR DEADQ(' ')").ok
        put(s, *SMALL, b"x" * 200)
        config = written(s, BETWEEN_QUEUES)
        checkpoint_id = tie_checkpoint(config, session)
        attached = Readers(config.checkpoint, session, pytest.fail).attach(config)
        writer = BatchWriter(attached, checkpoint_id)

        def ends_before_the_commit(batch: DataFrame, batch_id: int) -> None:
            writer(batch, batch_id)
            raise InterruptedError

        stream = routed_rows(attached, session).writeStream.trigger(availableNow=True)
        query = stream.foreachBatch(ends_before_the_commit)
        with pytest.raises(StreamingQueryException, match="InterruptedError"):
            query.option("checkpointLocation", config.checkpoint).start().awaitTermination()
        assert [path.name for path in Path(config.checkpoint, "offsets").glob("[0-9]*")] == ["0"]
        assert (s.b.curdepth("OUT"), s.a.curdepth(DEAD)) == (len(SMALL), 1)
        run_once(s, config, session)
        assert bodies(s) == SMALL
        assert len(taken(s.a, DEAD)) == 1
        assert s.a.counts("IN").locked == 0
        assert s.a.verify().ok
        assert s.b.verify().ok
