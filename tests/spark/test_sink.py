"""``format("mayfly")`` as a sink over a real server: what is put, and what is refused by name."""

from __future__ import annotations

import json
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from mayfly import QueueManager
from mayfly.mqi import reasons as rc
from mayfly.mqi.structures import DLH
from mayfly.pipeline.bulk.queue_client import STAGED
from mayfly.pipeline.bulk.schema import MESSAGE
from mayfly.pipeline.errors import OptionError
from mayfly.pipeline.spark.messages import MESSAGE_TYPE
from mayfly.pipeline.spark.sink import (
    SinkOptions,
    batch_sink,
    check_columns,
    staged_rows,
    stream_sink,
)
from mayfly.servers.flight import FlightServer
from tests.bulk.books import TOKEN
from tests.spec.scene import DEAD, bodies, local

URL = "grpc://127.0.0.1:9414"
#: The time of the first file of a stream, in seconds since 1970.
FIRST_FILE_S = 1_700_000_000
PLAIN = t.StructType(
    [t.StructField("queue", t.StringType()), t.StructField("payload", t.BinaryType())]
)


def parse(**changed: str) -> SinkOptions:
    return SinkOptions.parse({"url": URL, **changed})


def with_column(name: str, kind: t.DataType) -> t.StructType:
    return t.StructType([*PLAIN.fields, t.StructField(name, kind)])


# Options and columns


def test_options_are_known_in_any_case_and_have_defaults() -> None:
    plain = parse(jobId="1")
    assert plain == parse(PERSISTENCE="Persistent", JOBID="1", checkpointlocation="/x")
    assert (plain.queue, plain.manager, plain.dead_letter_queue, plain.persistence) == (
        None,
        None,
        "",
        1,
    )
    assert parse(persistence="asQueue").persistence is None
    assert parse(persistence="nonPersistent").persistence == 0
    assert parse().job_id != parse().job_id
    assert parse().transaction is None
    assert parse(TXNAPPID="app", txnversion="0").transaction == ("app", 0)
    assert parse(txnAppId="app", txnVersion=str(2**63 - 1)).transaction == ("app", 2**63 - 1)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"url": "http://x:1"}, "option url 'http://x:1' is not grpc"),
        ({"persistence": "1"}, "option persistence: '1' is none of persistent, nonPersistent"),
        ({"queue": ""}, "option queue is empty"),
        ({"jobId": ""}, "option jobId is empty"),
        (
            {
                "asyncProgressTrackingEnabled": "true",
                "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
            },
            "option asyncProgressTrackingEnabled: a batch",
        ),
        ({"txnAppId": "a"}, "option txnVersion is missing: txnAppId and txnVersion go together"),
        ({"txnVersion": "1"}, "option txnAppId is missing"),
        ({"txnAppId": "", "txnVersion": "1"}, "option txnAppId is missing"),
        ({"txnAppId": "a", "txnVersion": "-1"}, "option txnVersion: '-1' is not a whole number"),
        (
            {"txnAppId": "a", "txnVersion": str(2**63)},
            "option txnVersion: '9223372036854775808' is not a whole number",
        ),
        ({"txnAppId": "job:1", "txnVersion": "1"}, "option txnAppId: 'job:1' begins with 'job:'"),
        (
            {"txnAppId": "a", "txnVersion": "1", "JobId": "1"},
            "option jobId beside txnAppId",
        ),
        ({"deadLetterQ": "X"}, "option deadLetterQ \\('X'\\) is not one"),
    ],
)
def test_a_bad_option_is_refused_by_name_and_value(changed: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        parse(**changed)


def test_a_missing_url_is_refused() -> None:
    with pytest.raises(OptionError, match="option url is missing"):
        SinkOptions.parse({})


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (t.StructType(PLAIN.fields[:1]), "column payload is missing"),
        (t.StructType(PLAIN.fields[1:]), "column queue is missing, and option queue"),
        (with_column("Payload", t.BinaryType()), "column payload is there 2 times"),
        (with_column("exprire_at_ms", t.LongType()), "column exprire_at_ms is none that a message"),
        (with_column("msg_id", t.StringType()), "column msg_id is string, a message has binary"),
        (with_column("delay_ms", t.DoubleType()), "column delay_ms is double, a message has bigi"),
        (
            with_column("expire_at_ms", t.StringType()),
            "column expire_at_ms is string, a message has bigint or timestamp there",
        ),
        (
            with_column("deliver_at_ms", t.TimestampNTZType()),
            "column deliver_at_ms is timestamp_ntz, a message has bigint or timestamp there",
        ),
        (with_column("delay_ms", t.TimestampType()), "delay_ms is timestamp, a message has bigint"),
        (
            with_column("expire_at", t.LongType()),
            "column expire_at is bigint; it must be timestamp, ms since 1970 are expire_at_ms",
        ),
        (
            t.StructType(
                [
                    *with_column("deliver_at", t.TimestampType()).fields,
                    t.StructField("DELIVER_AT_MS", t.LongType()),
                ]
            ),
            "columns deliver_at and deliver_at_ms say the same: drop one of them",
        ),
        (
            t.StructType([PLAIN.fields[0], t.StructField("payload", t.DoubleType())]),
            "column payload is double, a message has binary or string there",
        ),
        (with_column("reply_to_q", t.IntegerType()), "column reply_to_q is int, a message has str"),
    ],
)
def test_a_column_that_does_not_fit_is_refused_by_name(schema: t.StructType, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        check_columns(schema, None)


def test_rows_of_a_queue_can_be_written_as_they_were_read() -> None:
    check_columns(MESSAGE_TYPE, None)
    check_columns(with_column("delay_ms", t.ShortType()), None)
    check_columns(with_column("PRIORITY", t.LongType()), None)
    check_columns(t.StructType(PLAIN.fields[1:]), "Q1")


def test_columns_that_no_message_has_are_ignored_where_an_option_says_so() -> None:
    schema = with_column("carrier", t.StringType())
    with pytest.raises(OptionError, match=r"column carrier .* set option ignoreExtraColumns"):
        batch_sink({"url": URL}, schema, overwrite=False)
    batch_sink({"url": URL, "ignoreExtraColumns": "true"}, schema, overwrite=False)
    wrong = t.StructType([*schema.fields, t.StructField("priority", t.StringType())])
    with pytest.raises(OptionError, match="column priority is string"):
        batch_sink({"url": URL, "ignoreExtraColumns": "true"}, wrong, overwrite=False)


def test_modes_that_would_empty_a_queue_are_refused() -> None:
    with pytest.raises(OptionError, match="overwrite"):
        batch_sink({"url": URL}, PLAIN, overwrite=True)
    with pytest.raises(OptionError, match="complete"):
        stream_sink({"url": URL}, PLAIN, overwrite=True)


def test_a_stream_takes_no_transaction_beside_its_own() -> None:
    given = {"url": URL, "txnAppId": "a", "txnVersion": "1"}
    with pytest.raises(OptionError, match="option txnAppId: a stream has its own"):
        stream_sink(given, PLAIN, overwrite=False)
    batch_sink(given, PLAIN, overwrite=False)


def test_options_say_what_rows_leave_open() -> None:
    rows = pa.RecordBatch.from_pylist(
        [
            {"Payload": b"a", "queue": None, "priority": 3},
            {"Payload": b"b", "queue": "Q2", "priority": None},
        ],
        schema=pa.schema(
            [("Payload", pa.binary()), ("queue", pa.string()), ("priority", pa.int16())]
        ),
    )
    found = staged_rows(rows, parse(queue="Q1"))
    assert found.schema == STAGED
    said = found.select(["queue", "persistence", "priority", "payload", "msg_id"]).to_pylist()
    assert [tuple(row.values()) for row in said] == [
        ("Q1", 1, 3, b"a", None),
        ("Q2", 1, None, b"b", None),
    ]


def test_text_becomes_utf_8_and_timestamps_ms() -> None:
    at = datetime(2026, 11, 28, 12, 0, 0, 1_999, UTC)
    rows = pa.RecordBatch.from_pylist(
        [{"payload": "Grüße", "Deliver_At": at, "expire_at_ms": at}, {"payload": None}],
        schema=pa.schema(
            [
                ("payload", pa.string()),
                ("Deliver_At", pa.timestamp("us", "UTC")),
                ("expire_at_ms", pa.timestamp("us", "Europe/Paris")),
            ]
        ),
    )
    found = staged_rows(rows, parse(queue="Q1"))
    assert found.schema == STAGED
    at_ms = 1_795_867_200_001
    said = found.select(["payload", "deliver_at_ms", "expire_at_ms"]).to_pylist()
    assert [tuple(row.values()) for row in said] == [
        ("Grüße".encode(), at_ms, at_ms),
        (None, None, None),
    ]


# Spark itself


def numbered(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    """Rows whose data is their number, for Q0, Q1 and Q2 in turn."""
    number = f.col("id")
    return spark.range(0, count, 1, partitions).select(
        f.concat(f.lit("Q"), (number % 3).cast("string")).alias("queue"),
        number.cast("string").cast("binary").alias("payload"),
    )


def options(server: FlightServer, token_file: Path, **more: str) -> dict[str, str]:
    return {"url": server.url, "tokenFile": str(token_file), **more}


def all_numbers(manager: QueueManager, *queues: str) -> list[int]:
    with manager.session(transacted=True) as session:
        return [int(body) for queue in queues for body in bodies(session, queue)]


@pytest.mark.spark
@pytest.mark.slow
def test_a_dataframe_is_written_once_whatever_the_number_of_calls(
    spark: SparkSession, manager: QueueManager, manager_server: FlightServer, token_file: Path
) -> None:
    given = options(manager_server, token_file, jobId="load-1")
    for _ in range(2):
        numbered(spark, 3_000).write.format("mayfly").options(**given).mode("append").save()
    assert sorted(all_numbers(manager, "Q0", "Q1", "Q2")) == list(range(3_000))
    own = options(manager_server, token_file)
    for _ in range(2):
        numbered(spark, 30).write.format("mayfly").options(**own).mode("append").save()
    assert Counter(all_numbers(manager, "Q0", "Q1", "Q2")) == dict.fromkeys(range(30), 2)
    assert manager.verify().ok


@pytest.mark.spark
@pytest.mark.slow
def test_a_version_that_is_not_above_the_last_one_changes_nothing(
    spark: SparkSession, manager: QueueManager, manager_server: FlightServer, token_file: Path
) -> None:
    """What foreachBatch needs: the fence of a stream, and one for each application."""

    def write(application: str, version: int, first: int) -> None:
        given = options(
            manager_server, token_file, txnAppId=application, txnVersion=str(version), queue="Q1"
        )
        rows = numbered(spark, 20).select(
            (f.col("payload").cast("string").cast("int") + first)
            .cast("string")
            .cast("binary")
            .alias("payload")
        )
        rows.write.format("mayfly").options(**given).mode("append").save()

    write("app/a", 0, 0)
    write("app/a", 0, 100)
    write("app/a", 3, 200)
    write("app/a", 2, 300)
    write("app/b", 2, 400)
    found = sorted(all_numbers(manager, "Q1"))
    assert found == [*range(20), *range(200, 220), *range(400, 420)]
    states = [manager.stages.state(name) for name in ("app/a", "app/b")]
    assert [(s.batch, s.is_done) for s in states if s is not None] == [(3, True), (2, True)]
    assert manager.verify().ok


@pytest.mark.spark
@pytest.mark.slow
def test_refused_rows_are_dead_letters_and_the_job_goes_on(
    spark: SparkSession, manager: QueueManager, manager_server: FlightServer, token_file: Path
) -> None:
    rows = numbered(spark, 90).select(
        f.when(f.col("queue") == "Q2", "NOWHERE").otherwise(f.col("queue")).alias("queue"),
        f.when(f.col("queue") == "Q1", "QM2").alias("manager"),
        "payload",
    )
    given = options(manager_server, token_file, deadLetterQueue=DEAD)
    rows.write.format("mayfly").options(**given).mode("append").save()
    assert len(all_numbers(manager, "Q0")) == 30
    assert all_numbers(manager, "Q1", "Q2") == []
    with manager.session() as session:
        letters = [DLH.unpack(body) for body in bodies(session, DEAD)]
    assert Counter((h["Reason"], h["DestQName"]) for h in letters) == {
        (rc.MQRC_UNKNOWN_OBJECT_NAME, "NOWHERE"): 30,
        (rc.MQRC_UNKNOWN_REMOTE_Q_MGR, "Q1"): 30,
    }


@pytest.mark.spark
@pytest.mark.slow
def test_each_row_goes_to_the_queue_manager_it_names(
    spark: SparkSession, manager: QueueManager, token_file: Path, tmp_path: Path
) -> None:
    with QueueManager("QM2", tmp_path / "QM2") as other:
        local(other, "Q1")
        with FlightServer([manager, other], port=0, token=TOKEN) as server:
            rows = spark.range(40).select(
                f.when(f.col("id") % 4 == 0, "QM2")
                .when(f.col("id") % 4 == 1, "QM1")
                .alias("manager"),
                f.col("id").cast("string").cast("binary").alias("payload"),
            )
            given = options(server, token_file, queue="Q1", manager="QM1")
            rows.write.format("mayfly").options(**given).mode("append").save()
            del given["manager"]
            with pytest.raises(PySparkException, match="option manager: no queue manager None"):
                rows.write.format("mayfly").options(**given).mode("append").save()
        assert sorted(all_numbers(other, "Q1")) == list(range(0, 40, 4))
    assert sorted(all_numbers(manager, "Q1")) == [n for n in range(40) if n % 4]


@pytest.mark.spark
@pytest.mark.slow
def test_errors_reach_the_user_of_spark_in_our_words_and_put_nothing(
    spark: SparkSession, manager: QueueManager, manager_server: FlightServer, token_file: Path
) -> None:
    def write(rows: DataFrame, **more: str) -> None:
        given = options(manager_server, token_file, **more)
        rows.write.format("mayfly").options(**given).mode("append").save()

    rows = numbered(spark, 10)
    with pytest.raises(PySparkException, match="column payload is missing"):
        write(rows.drop("payload"))
    with pytest.raises(PySparkException, match="column payload is double, a message has binary or"):
        write(rows.withColumn("payload", f.lit(1.5).cast("double")))
    with pytest.raises(PySparkException, match="option color"):
        write(rows, color="red")
    with pytest.raises(PySparkException, match=r"deadLetterQueue.*2085"):
        write(rows.withColumn("queue", f.lit("NOWHERE")), deadLetterQueue="GONE")
    assert all_numbers(manager, "Q0", "Q1", "Q2") == []


@pytest.mark.spark
@pytest.mark.slow
def test_text_and_timestamps_of_a_dataframe_are_put_as_the_message_they_mean(
    spark: SparkSession, manager: QueueManager, manager_server: FlightServer, token_file: Path
) -> None:
    """The session is in Paris; a moment is the same there, and the extra column is left out."""
    now_ms = manager.now_ms()
    moment = f.timestamp_millis(f.lit(now_ms + 3_600_000))
    rows = spark.range(1).select(
        f.lit("Grüße").alias("payload"), moment.alias("expire_at"), f.lit(1).alias("carrier")
    )
    given = options(manager_server, token_file, queue="Q1", ignoreExtraColumns="true")
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Paris")
    try:
        rows.write.format("mayfly").options(**given).mode("append").save()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    read = spark.read.format("mayfly").options(**options(manager_server, token_file, queue="Q1"))
    [found] = read.load().select("payload", "expire_at_ms").collect()
    assert (found.payload.decode(), found.expire_at_ms) == ("Grüße", now_ms + 3_600_000)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_any_thread_of_a_pool_writes(
    spark: SparkSession,
    manager: QueueManager,
    manager_server: FlightServer,
    token_file: Path,
    tmp_path: Path,
) -> None:
    """A table, and a stream, that another thread has planned."""
    rows = numbered(spark, 10)
    given = options(manager_server, token_file)
    (tmp_path / "in").mkdir()
    rows.write.mode("append").parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "in"))

    def write() -> None:
        rows.write.format("mayfly").options(**given).mode("append").save()

    def write_stream() -> None:
        writer = stream.writeStream.format("Mayfly").options(**given)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(write), pool.submit(write), pool.submit(write_stream)]:
            done.result()
    assert sorted(all_numbers(manager, "Q0", "Q1", "Q2")) == sorted([*range(10)] * 3)


@pytest.mark.spark
@pytest.mark.slow
def test_a_stream_is_written_batch_by_batch_and_goes_on_from_its_checkpoint(
    spark: SparkSession,
    manager: QueueManager,
    manager_server: FlightServer,
    token_file: Path,
    tmp_path: Path,
) -> None:
    def feed(number: int, count: int) -> None:
        lines = [json.dumps({"n": number * 1_000 + n}) for n in range(count)]
        part = tmp_path / f"part{number}.json"
        part.write_text("\n".join(lines))
        # Spark takes files in the order of their times: two written within a moment have the same.
        os.utime(part, (FIRST_FILE_S + number, FIRST_FILE_S + number))
        part.rename(tmp_path / "in" / part.name)

    def run(**more: str) -> Any:
        rows = spark.readStream.schema("n long").option("maxFilesPerTrigger", "1")
        query = (
            rows.json(str(tmp_path / "in"))
            .select(f.col("n").cast("string").cast("binary").alias("payload"))
            .writeStream.format("mayfly")
            .options(**options(manager_server, token_file, queue="Q1", **more))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query.id

    (tmp_path / "in").mkdir()
    feed(0, 100)
    feed(1, 50)
    query_id = run()
    state = manager.stages.state(str(query_id))
    assert state is not None
    assert (state.batch, state.is_done, state.put_count) == (1, True, 50)
    feed(2, 20)
    # The last batch is done again, as after a kill between its promotion and Spark's own log.
    (tmp_path / "checkpoint" / "commits" / "1").unlink()
    (tmp_path / "checkpoint" / "commits" / ".1.crc").unlink(missing_ok=True)
    assert run() == query_id
    assert all_numbers(manager, "Q1") == [*range(100), *range(1000, 1050), *range(2000, 2020)]
    # Spark refuses it for a sink like this one; told not to, it is told again by SinkOptions.
    with pytest.raises(PySparkException, match="mayfly does not support async progress tracking"):
        run(asyncProgressTrackingEnabled="true")
    assert manager.verify().ok


def test_what_a_source_gives_is_what_a_sink_takes() -> None:
    assert {*MESSAGE.names} - {*STAGED.names} == {"put_ms", "backout_count"}
