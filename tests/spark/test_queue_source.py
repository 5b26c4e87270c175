"""``format("mayfly")`` with a queue: browsed as a table, claimed as a stream, refused by name."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import EqualTo, GreaterThan, IsNotNull
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from mayfly import QueueManager
from mayfly.lifetime.moments import CLAIM_LEASE_MS
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.pipeline.bulk import client as bulk_client
from mayfly.pipeline.bulk.batch_log import ClaimOffset, LocalFiles, WrittenClaims, written_claims
from mayfly.pipeline.bulk.errors import ServerNotReachable
from mayfly.pipeline.bulk.queue_client import (
    ClaimedRange,
    ConsumerFenced,
    ConsumerOfOtherQueue,
)
from mayfly.pipeline.errors import CheckpointError, OptionError
from mayfly.pipeline.spark.checkpoints import Folder
from mayfly.pipeline.spark.messages import MESSAGE_TYPE
from mayfly.pipeline.spark.queue_source import (
    ClaimHeartbeat,
    FilteredQueueReader,
    QueueOptions,
    QueueStreamReader,
    RowRange,
    RowRanges,
    parts_of,
    queue_reader,
)
from mayfly.servers.flight import FlightServer
from mayfly.testing import VirtualClock
from tests.bulk.books import TOKEN
from tests.bulk.line import Line
from tests.bulk.lives import queue_manager
from tests.facts import wait_until

URL = "grpc://127.0.0.1:9414"


def parse(**changed: str) -> QueueOptions:
    return QueueOptions.parse({"url": URL, "queue": "Q1", "consumer": "billing", **changed})


def stream_reader(server: FlightServer, token_file: Path, **changed: str) -> QueueStreamReader:
    return QueueStreamReader(parse(url=server.url, tokenFile=str(token_file), **changed))


def put(manager: QueueManager, *numbers: int, queue: str = "Q1") -> None:
    """Put numbered messages, every second one persistent."""
    with manager.session() as session:
        for number in numbers:
            session.put(queue, b"%d" % number, persistent=number % 2 == 0, priority=number % 4)


def payloads(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    """Read a batch as Spark does: by a copy of the reader, one share after the other."""
    shares = reader.partitions(start, end)
    copy = pickle.loads(pickle.dumps(reader))
    batches = [batch for share in shares for batch in copy.read(pickle.loads(pickle.dumps(share)))]
    return [int(body) for batch in batches for body in batch.column("payload").to_pylist()]


# Options


def test_options_are_known_in_any_case_and_have_defaults() -> None:
    assert parse() == parse(
        PARTITIONS="4", maxrowsperbatch="100000", MaxBytesPerBatch="268435456", pushFilters="False"
    )
    assert parse(ledger="false", manager="QM2").manager == "QM2"


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"queue": ""}, "option queue is missing"),
        ({"url": "http://x:1"}, "option url 'http://x:1' is not grpc"),
        ({"ledger": "true"}, 'option ledger is "true" beside option queue'),
        ({"partitions": "0"}, "option partitions: '0'"),
        ({"maxRowsPerBatch": "many"}, "option maxRowsPerBatch: 'many'"),
        ({"maxBytesPerBatch": "-1"}, "option maxBytesPerBatch: '-1'"),
        ({"pushFilters": "maybe"}, "option pushFilters: 'maybe' is neither true nor false"),
        ({"startingPosition": "1"}, "option startingPosition \\('1'\\) is not one"),
    ],
)
def test_a_bad_option_is_refused_by_name_and_value(changed: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        parse(**changed)


def test_a_stream_without_a_consumer_is_refused() -> None:
    with pytest.raises(OptionError, match="option consumer is missing: it names the reader"):
        QueueStreamReader(QueueOptions.parse({"url": URL, "queue": "Q1"}))


# Offsets, asked of the reader itself


def test_a_batch_is_a_range_of_claims_and_ends_when_the_next_begins(
    manager: QueueManager, manager_server: FlightServer, token_file: Path
) -> None:
    put(manager, *range(5))
    reader = stream_reader(manager_server, token_file, maxRowsPerBatch="3")
    start = reader.initialOffset()
    assert start == {
        "version": 1,
        "claim": 0,
        "consumer": "billing",
        "queue": "Q1",
        "instance": manager.ledger.instance_id,
    }
    assert json.loads(json.dumps(start)) == start
    assert reader.getDefaultReadLimit() == ReadMaxRows(3)
    end = reader.latestOffset(start, ReadMaxRows(3))
    assert (end["claim"], manager.counts("Q1").locked) == (1, 3)
    assert payloads(reader, start, end) == payloads(reader, start, end) == [3, 2, 1]
    # It is asked again before the batch is committed: nothing more is claimed.
    assert reader.latestOffset(start, ReadMaxRows(3)) == end
    assert reader.initialOffset() == start
    last = reader.latestOffset(end, ReadMaxRows(3))
    assert (last["claim"], manager.counts("Q1").locked) == (2, 2)
    assert payloads(reader, end, last) == [0, 4]
    assert reader.latestOffset(last, ReadMaxRows(3)) == last
    assert manager.counts("Q1").locked == 0
    assert manager.verify().ok


def test_everything_available_is_claimed_at_once_when_nothing_limits_it(
    manager: QueueManager, manager_server: FlightServer, token_file: Path
) -> None:
    put(manager, *range(7))
    reader = stream_reader(manager_server, token_file, maxRowsPerBatch="2")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end["claim"] == 4
    assert sorted(payloads(reader, start, end)) == list(range(7))


def test_available_now_takes_what_was_there(
    manager: QueueManager, manager_server: FlightServer, token_file: Path
) -> None:
    put(manager, 1, 2, 3)
    reader = stream_reader(manager_server, token_file)
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    put(manager, 7)
    end = reader.latestOffset(start, ReadMaxRows(100))
    assert sorted(payloads(reader, start, end)) == [1, 2, 3]
    assert reader.latestOffset(end, ReadMaxRows(100)) == end


def test_a_batch_is_read_in_shares_of_its_rows(
    manager: QueueManager, manager_server: FlightServer, token_file: Path
) -> None:
    manager.mqsc("ALTER QLOCAL(Q1) MAXDEPTH(100000)")
    put(manager, *range(25_000))
    reader = stream_reader(manager_server, token_file, partitions="2")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(30_000))
    shares = reader.partitions(start, end)
    assert [s.ranges for s in shares if isinstance(s, RowRanges)] == [
        ((0, 12_500),),
        ((12_500, 25_000),),
    ]
    assert sorted(payloads(reader, start, end)) == list(range(25_000))


@pytest.mark.parametrize(
    ("ranges", "parts"),
    [
        # Small rows: even parts, over the bounds of claims.
        ([(0, 12_000, 10), (12_000, 20_000, 10)], [((0, 10_000),), ((10_000, 20_000),)]),
        # Large ones: as many as fit; a row that is larger is alone.
        ([(0, 5, 500), (7, 9, 400)], [((0, 2),), ((2, 4),), ((4, 5),), ((7, 8),), ((8, 9),)]),
        # Small ones beside large ones, in one part while they fit.
        ([(0, 90, 90), (95, 97, 200), (97, 99, 4)], [((0, 90), (95, 96)), ((96, 99),)]),
        ([], []),
        ([(3, 3, 0)], []),
    ],
)
def test_rows_are_divided_by_number_and_by_bytes(
    ranges: list[tuple[int, int, int]], parts: list[tuple[RowRange, ...]]
) -> None:
    """Two parts of at least 10,000 rows, 200 bytes each at most."""
    assert parts_of([ClaimedRange(*rows) for rows in ranges], 2, 200) == parts


def test_large_messages_are_read_by_more_tasks(
    manager: QueueManager, manager_server: FlightServer, token_file: Path, spark: SparkSession
) -> None:
    """Real tasks: none has more than maxBytesPerTask, one row at least; all rows come once."""
    with manager.session() as session:
        for number in range(24):
            session.put("Q1", bytes([number]) * 2**18)
    stream = spark.readStream.format("mayfly").options(
        url=manager_server.url,
        tokenFile=str(token_file),
        queue="Q1",
        consumer="large",
        maxBytesPerTask=str(2**20),
    )
    found: list[Row] = []
    rows = stream.load().select(
        f.spark_partition_id().alias("task"), f.length("payload").alias("size")
    )
    writer = rows.writeStream.foreachBatch(lambda batch, _id: found.extend(batch.collect()))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert Counter(row["task"] for row in found) == dict.fromkeys(range(6), 4)
    assert sum(row["size"] for row in found) == 24 * 2**18


def test_a_second_reader_takes_over_and_the_first_is_refused(
    manager: QueueManager, manager_server: FlightServer, token_file: Path
) -> None:
    put(manager, 1, 2)
    zombie = stream_reader(manager_server, token_file)
    start = zombie.initialOffset()
    end = zombie.latestOffset(start, ReadMaxRows(9))
    [share] = zombie.partitions(start, end)
    heir = stream_reader(manager_server, token_file)
    assert heir.initialOffset() == start
    assert heir.latestOffset(start, ReadMaxRows(9)) == end
    with pytest.raises(ConsumerFenced, match="another query reads under its name"):
        zombie.latestOffset(end, ReadMaxRows(9))
    with pytest.raises(ConsumerFenced):
        list(zombie.read(share))
    assert sorted(payloads(heir, start, end)) == [1, 2]


def test_an_offset_of_another_store_queue_or_consumer_is_refused_by_name(
    manager: QueueManager, manager_server: FlightServer, token_file: Path
) -> None:
    reader = stream_reader(manager_server, token_file)
    start = reader.initialOffset()
    for changed, text in (
        ({"instance": "feed"}, "belongs to store feed, but this is store"),
        ({"queue": "Q2"}, "belongs to queue Q2, but this is queue Q1 of queue manager QM1"),
        ({"consumer": "audit"}, "belongs to consumer audit, but this is consumer billing"),
        ({"version": 2}, "is not one of a queue, version 1"),
        ({"claim": None}, "is not one of a queue, version 1"),
    ):
        with pytest.raises(CheckpointError, match=text):
            reader.latestOffset({**start, **changed}, ReadMaxRows(9))
        with pytest.raises(CheckpointError, match=text):
            reader.partitions(start, {**start, **changed})
    with pytest.raises(ConsumerOfOtherQueue, match="consumer billing reads queue Q1, not Q2"):
        stream_reader(manager_server, token_file, queue="Q2").initialOffset()


def test_a_checkpoint_whose_claims_were_released_goes_on_without_them(
    manager: QueueManager, manager_server: FlightServer, token_file: Path
) -> None:
    put(manager, 1)
    start = stream_reader(manager_server, token_file).initialOffset()
    end = stream_reader(manager_server, token_file).latestOffset(start, ReadMaxRows(9))
    manager.claims.release("billing")
    # The batch is repeated without messages; the next one has them.
    assert stream_reader(manager_server, token_file).partitions(start, end) == []
    reader = stream_reader(manager_server, token_file)
    after = reader.latestOffset(end, ReadMaxRows(9))
    [rows] = reader.partitions(end, after)
    assert [row["backout_count"] for batch in reader.read(rows) for row in batch.to_pylist()] == [1]


def test_a_reader_travels_without_connection_or_token(
    manager: QueueManager, manager_server: FlightServer, token_file: Path
) -> None:
    reader = stream_reader(manager_server, token_file)
    reader.initialOffset()
    assert TOKEN.encode() not in pickle.dumps(reader)


def test_one_refused_connection_does_not_end_a_stream(
    manager: QueueManager, manager_server: FlightServer, token_file: Path
) -> None:
    put(manager, 1, 2, 3)
    with Line(manager_server.url, refused=1) as line:
        reader = QueueStreamReader(parse(url=line.url, tokenFile=str(token_file)))
        end = reader.latestOffset(first_offset(manager), ReadMaxRows(10))
        assert (end["claim"], line.connection_count) == (1, 2)
        assert sorted(payloads(reader, first_offset(manager), end)) == [1, 2, 3]


def first_offset(manager: QueueManager) -> dict[str, Any]:
    """Return where a stream of a new consumer begins."""
    return ClaimOffset("billing", "Q1", manager.ledger.instance_id, 0).as_json()


def test_DDELAY_a_reader_of_the_staging_queue_renews_its_claims_until_it_stops(
    tmp_path: Path, token_file: Path
) -> None:
    clock = VirtualClock(1_700_000_000_000)
    with (
        QueueManager("QM1", tmp_path / "QM1", clock=clock) as manager,
        FlightServer(manager, port=0, token=TOKEN) as server,
    ):
        assert manager.mqsc("DEFINE QLOCAL(Q1)\nALTER QMGR DDELAY(SPARK)").ok
        with manager.session() as session:
            session.put("Q1", b"1", delay_ms=10)
        clock.advance(10)
        reader = stream_reader(server, token_file, queue=STAGING_QUEUE)
        end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(10))
        assert payloads(reader, reader.initialOffset(), end) == [1]
        attached = manager.claims.consistent_states()[0]
        options = parse(url=server.url, tokenFile=str(token_file), queue=STAGING_QUEUE)
        with options.connect() as client:
            renewal = ClaimHeartbeat(
                options, client.attached("billing", attached.epoch), every_ms=5
            )
        clock.advance(CLAIM_LEASE_MS - 1)
        lapse_ms = clock.now_ms() + CLAIM_LEASE_MS
        wait_until(lambda: manager.claims.next_lease_end_ms() == lapse_ms)
        renewal.stop()
        reader.stop()


def test_nobody_there_names_the_url(token_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_client, "RETRY_WAITS_SECONDS", (0.01,))
    reader = QueueStreamReader(parse(url="grpc://127.0.0.1:1", tokenFile=str(token_file)))
    with pytest.raises(ServerNotReachable, match=r"no Mayfly server answers at grpc://127\.0"):
        reader.initialOffset()


# Filters


def test_only_equality_of_ids_and_priority_is_kept_from_spark() -> None:
    reader = queue_reader({"url": URL, "queue": "Q1", "pushFilters": "true"})
    assert isinstance(reader, FilteredQueueReader)
    kept = [EqualTo(("msg_id",), b"m" * 24), EqualTo(("priority",), 3), IsNotNull(("msg_id",))]
    left = [
        GreaterThan(("priority",), 3),
        EqualTo(("priority",), 4),
        EqualTo(("correl_id",), b"short"),
        EqualTo(("queue",), "Q1"),
        IsNotNull(("correl_id",)),
    ]
    assert list(reader.pushFilters([*kept, *left])) == left


# Spark itself


def browse(spark: SparkSession, server: FlightServer, token_file: Path, **more: str) -> DataFrame:
    given = {"url": server.url, "tokenFile": str(token_file), "queue": "Q1", **more}
    return spark.read.format("mayfly").options(**given).load()


@pytest.mark.spark
@pytest.mark.slow
def test_a_batch_read_browses_the_queue_and_leaves_it(
    spark: SparkSession, manager: QueueManager, manager_server: FlightServer, token_file: Path
) -> None:
    put(manager, *range(8))
    rows = browse(spark, manager_server, token_file)
    assert rows.schema == MESSAGE_TYPE
    assert [int(row["payload"]) for row in rows.collect()] == [3, 7, 2, 6, 1, 5, 0, 4]
    assert rows.where("priority = 3").count() == 2
    assert manager.curdepth("Q1") == 8
    assert browse(spark, manager_server, token_file, queue="Q2").count() == 0
    with pytest.raises(PySparkException, match="MQRC_UNKNOWN_OBJECT_NAME"):
        browse(spark, manager_server, token_file, queue="NOWHERE").count()


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield spark
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_filters_are_pushed_to_the_queue_manager(
    pushing: SparkSession, manager: QueueManager, manager_server: FlightServer, token_file: Path
) -> None:
    put(manager, *range(8))
    with manager.session() as session:
        msg_id = session.put("Q1", b"8", priority=3)
    rows = browse(pushing, manager_server, token_file, pushFilters="true")
    urgent = rows.where("priority = 3")
    assert [int(row["payload"]) for row in urgent.collect()] == [3, 7, 8]
    # Spark itself has nothing left to filter.
    assert " Filter " not in str(urgent._jdf.queryExecution().executedPlan())
    one = urgent.where(f.col("msg_id") == f.lit(bytearray(msg_id)))
    assert [int(row["payload"]) for row in one.collect()] == [8]
    assert rows.where("priority > 2").count() == 3


class Pipeline:
    """A stream from Q1 into Parquet, always from the same checkpoint."""

    def __init__(self, spark: SparkSession, server: FlightServer, token: Path, at: Path) -> None:
        self.spark = spark
        self.options = {"url": server.url, "tokenFile": str(token), "consumer": "billing"}
        self.checkpoint, self.out = at / "checkpoint", at / "out"

    def run(self, **more: str) -> None:
        """Bring over what is there now."""
        given = {"queue": "Q1", "maxRowsPerBatch": "4", **self.options, **more}
        stream = self.spark.readStream.format("mayfly").options(**given).load()
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(self.checkpoint))
            .option("path", str(self.out))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def numbers(self) -> list[int]:
        """Return what has arrived."""
        rows = self.spark.read.schema(MESSAGE_TYPE).parquet(str(self.out))
        return sorted(int(row["payload"]) for row in rows.select("payload").collect())

    def batches(self) -> int:
        """Return how many batches were committed."""
        return len(list((self.checkpoint / "commits").glob("[0-9]*")))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("trigger", [{"availableNow": True}, {"processingTime": "0 seconds"}])
def test_a_stream_without_a_consumer_ends_with_the_name_of_the_option(
    spark: SparkSession, token_file: Path, tmp_path: Path, trigger: dict[str, Any]
) -> None:
    stream = spark.readStream.format("mayfly").options(url=URL, queue="Q1").load()
    writer = stream.writeStream.format("noop").trigger(**trigger)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    with pytest.raises(PySparkException) as raised:
        query.awaitTermination()
    assert "OptionError: option consumer is missing: it names the reader" in str(raised.value)
    assert "UnboundLocalError" not in str(raised.value)


@pytest.mark.spark
@pytest.mark.slow
def test_a_stream_takes_each_message_once_and_goes_on_from_its_checkpoint(
    spark: SparkSession,
    manager: QueueManager,
    manager_server: FlightServer,
    token_file: Path,
    tmp_path: Path,
) -> None:
    put(manager, *range(10))
    pipeline = Pipeline(spark, manager_server, token_file, tmp_path)
    pipeline.run()
    assert (pipeline.numbers(), pipeline.batches()) == (list(range(10)), 3)
    offset = ClaimOffset("billing", "Q1", manager.ledger.instance_id, 3)
    assert written_claims(LocalFiles(pipeline.checkpoint)) == [WrittenClaims(offset, None)]
    folder = Folder(spark, str(pipeline.checkpoint))
    assert written_claims(folder) == [WrittenClaims(offset, None)]
    (pipeline.checkpoint / "commits" / "2").rename(tmp_path / "2")
    assert written_claims(folder) == [WrittenClaims(offset._replace(claim=2), 2)]
    (tmp_path / "2").rename(pipeline.checkpoint / "commits" / "2")
    # The last batch has ended, too: Spark has asked for its successor and found none.
    assert manager.counts("Q1") == (0, 0, 0, 0, 0)
    put(manager, *range(10, 13))
    pipeline.run()
    assert (pipeline.numbers(), pipeline.batches()) == (list(range(13)), 4)
    pipeline.run()
    assert (pipeline.batches(), manager.counts("Q1")) == (4, (0, 0, 0, 0, 0))
    assert manager.verify().ok
    assert len(manager.claims.consistent_states()) == 1


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_a_checkpoint_of_another_consumer_or_store_fails_the_query_by_name(
    spark: SparkSession,
    manager: QueueManager,
    manager_server: FlightServer,
    token_file: Path,
    tmp_path: Path,
) -> None:
    put(manager, 1)
    pipeline = Pipeline(spark, manager_server, token_file, tmp_path)
    pipeline.run()
    with pytest.raises(PySparkException, match="belongs to consumer billing, but this is consume"):
        pipeline.run(consumer="audit")
    with pytest.raises(PySparkException, match="belongs to queue Q1, but this is queue Q2"):
        pipeline.run(queue="Q2", consumer="other")
    with (
        queue_manager(tmp_path / "other") as other,
        FlightServer(other, port=0, token=TOKEN) as second,
        pytest.raises(PySparkException, match="belongs to store"),
    ):
        pipeline.run(url=second.url)
    with pytest.raises(PySparkException, match="option consumer is missing"):
        spark.readStream.format("mayfly").options(
            url=manager_server.url, tokenFile=str(token_file), queue="Q1"
        ).load().writeStream.format("noop").start().awaitTermination()
