"""``format("mayfly")`` over a real server: what comes, in which batches, and what is refused."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from mayfly.lifetime.life import LifeRecord
from mayfly.pipeline.bulk import client as bulk_client
from mayfly.pipeline.bulk.errors import ServerNotReachable
from mayfly.pipeline.bulk.schema import LEDGER_ROW_BYTES_MAX
from mayfly.pipeline.errors import CheckpointError, OptionError
from mayfly.pipeline.spark.source import LedgerStreamReader, SourceOptions, split_range
from mayfly.servers.flight import FlightServer
from tests.bulk.books import TOKEN, KeptBooks, kept_books, life

URL = "grpc://127.0.0.1:9414"


class Options(dict[str, str]):
    """Options as Spark hands them over: by name in any case."""


def parse(**changed: str) -> SourceOptions:
    return SourceOptions.parse(Options({"url": URL, "ledger": "true", **changed}))


def stream_reader(server: FlightServer, token_file: Path, **changed: str) -> LedgerStreamReader:
    return LedgerStreamReader(parse(url=server.url, tokenFile=str(token_file), **changed))


def read(spark: SparkSession, server: FlightServer, token_file: Path, **options: str) -> DataFrame:
    given = {"url": server.url, "tokenFile": str(token_file), "ledger": "true", **options}
    return spark.read.format("mayfly").options(**given).load()


# Options


def test_options_are_known_in_any_case_and_have_defaults() -> None:
    assert parse() == parse(PARTITIONS="4", MaxRowsPerBatch="200000", startingposition="EARLIEST")
    assert parse(startingPosition="latest").starting_position is None
    assert parse(startingPosition="17").starting_position == 17


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"ledger": "false"}, 'option ledger must be "true"'),
        ({"url": "http://x:1"}, "option url 'http://x:1' is not grpc"),
        ({"partitions": "0"}, "option partitions: '0'"),
        ({"partitions": "two"}, "option partitions: 'two'"),
        ({"maxRowsPerBatch": "-1"}, "option maxRowsPerBatch: '-1'"),
        ({"maxBytesPerBatch": "1.5"}, "option maxBytesPerBatch: '1.5'"),
        ({"startingPosition": "0"}, "option startingPosition: '0' is neither earliest"),
        ({"startingPosition": "first"}, "option startingPosition: 'first' is neither earliest"),
        ({"failOnDataLoss": "false"}, "option failOnDataLoss \\('false'\\) is not one"),
    ],
)
def test_a_bad_option_is_refused_by_name_and_value(changed: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        parse(**changed)


def test_a_missing_url_is_refused() -> None:
    with pytest.raises(OptionError, match="option url is missing"):
        SourceOptions.parse(Options(ledger="true"))


def test_a_byte_limit_is_kept_by_the_largest_rows_and_lets_one_through() -> None:
    assert parse(maxBytesPerBatch=str(10 * LEDGER_ROW_BYTES_MAX)).batch_rows_max == 10
    assert parse(maxBytesPerBatch="1").batch_rows_max == 1
    assert parse(maxBytesPerBatch="999999999999", maxRowsPerBatch="7").batch_rows_max == 7


@pytest.mark.parametrize("row_count", [1, 9_999, 10_000, 10_001, 25_000, 1_000_003])
def test_shares_cover_a_range_without_gap_or_overlap(row_count: int) -> None:
    shares = split_range(5, 5 + row_count, "i", parse(maxBytesPerTask=str(2**40)))
    assert shares[0].after == 5
    assert shares[-1].until == 5 + row_count
    assert [share.after for share in shares[1:]] == [share.until for share in shares[:-1]]
    assert len(shares) == min(4, -(-row_count // 10_000))
    assert all(share.after < share.until for share in shares)


def test_an_empty_range_has_no_share() -> None:
    assert split_range(5, 5, "i", parse()) == []


def test_a_share_has_at_most_the_bytes_of_a_task() -> None:
    """By the largest row there can be; without the option 64 MiB."""
    shares = split_range(0, 1_000_000, "i", parse())
    assert len(shares) == 15
    assert max(s.until - s.after for s in shares) * LEDGER_ROW_BYTES_MAX <= 64 * 2**20
    few = split_range(0, 25, "i", parse(maxBytesPerTask=str(10 * LEDGER_ROW_BYTES_MAX)))
    assert [(s.after, s.until) for s in few] == [(0, 10), (10, 20), (20, 25)]


# Offsets, asked of the reader itself


def test_an_offset_holds_version_position_and_instance(
    books: KeptBooks, server: FlightServer, token_file: Path
) -> None:
    books.end_many(10)
    reader = stream_reader(server, token_file, maxRowsPerBatch="4")
    start = reader.initialOffset()
    instance = books.ledger.instance_id
    assert start == {"version": 1, "position": 0, "instance": instance}
    assert json.loads(json.dumps(start)) == start
    assert reader.getDefaultReadLimit() == ReadMaxRows(4)
    assert reader.latestOffset(start, ReadMaxRows(4))["position"] == 4
    assert reader.latestOffset(start, ReadAllAvailable())["position"] == 10
    assert reader.reportLatestOffset()["position"] == 10


def test_a_stream_can_start_at_the_end_or_at_a_position(
    books: KeptBooks, server: FlightServer, token_file: Path
) -> None:
    books.end_many(10)
    books.trim(6)
    for given, position in (("latest", 10), ("earliest", 4), ("5", 4), ("9", 8)):
        reader = stream_reader(server, token_file, startingPosition=given)
        assert reader.initialOffset()["position"] == position
    with pytest.raises(OptionError, match=r"startingPosition: 4 is trimmed.* held is 5"):
        stream_reader(server, token_file, startingPosition="4").initialOffset()


def test_available_now_ends_where_the_ledger_ended(
    books: KeptBooks, server: FlightServer, token_file: Path
) -> None:
    books.end_many(10)
    reader = stream_reader(server, token_file)
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    books.end_many(5)
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end["position"] == 10
    assert reader.latestOffset(end, ReadAllAvailable()) == end


def test_an_offset_of_another_store_is_refused(
    books: KeptBooks, server: FlightServer, token_file: Path
) -> None:
    books.end_many(10)
    reader = stream_reader(server, token_file)
    foreign = {**reader.initialOffset(), "instance": "feed"}
    with pytest.raises(CheckpointError, match="belongs to store feed, but queue manager QM1"):
        reader.latestOffset(foreign, ReadAllAvailable())


def test_an_offset_of_another_version_is_refused(
    books: KeptBooks, server: FlightServer, token_file: Path
) -> None:
    reader = stream_reader(server, token_file)
    with pytest.raises(CheckpointError, match="is not one of version 1"):
        reader.latestOffset({**reader.initialOffset(), "version": 2}, ReadAllAvailable())


def test_a_trimmed_offset_and_one_past_the_end_are_refused(
    books: KeptBooks, server: FlightServer, token_file: Path
) -> None:
    books.end_many(10)
    reader = stream_reader(server, token_file)
    offset = reader.initialOffset()
    books.trim(4)
    with pytest.raises(CheckpointError, match=r"goes on at position 6, which is trimmed.* at 7"):
        reader.latestOffset({**offset, "position": 5}, ReadAllAvailable())
    assert reader.latestOffset({**offset, "position": 6}, ReadMaxRows(1))["position"] == 7
    with pytest.raises(CheckpointError, match=r"read to position 11, but .* ends at 10"):
        reader.latestOffset({**offset, "position": 11}, ReadAllAvailable())


def test_a_reader_travels_without_connection_or_token(
    books: KeptBooks, server: FlightServer, token_file: Path
) -> None:
    books.end_many(3)
    reader = stream_reader(server, token_file)
    reader.initialOffset()
    travelled = pickle.dumps(reader)
    assert TOKEN.encode() not in travelled
    shares = reader.partitions(reader.initialOffset(), reader.reportLatestOffset())
    [batch] = pickle.loads(travelled).read(pickle.loads(pickle.dumps(shares))[0])
    assert batch.column("position").to_pylist() == [1, 2, 3]


def test_nobody_there_names_the_url(token_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_client, "RETRY_WAITS_SECONDS", (0.01,))
    with pytest.raises(
        ServerNotReachable, match=r"no Mayfly server answers at grpc://127\.0\.0\.1:1: "
    ):
        LedgerStreamReader(
            parse(url="grpc://127.0.0.1:1", tokenFile=str(token_file))
        ).initialOffset()


# Spark itself


@pytest.mark.spark
@pytest.mark.slow
def test_a_batch_read_gives_the_ledger_as_it_is(
    spark: SparkSession, books: KeptBooks, server: FlightServer, token_file: Path
) -> None:
    books.end(*(life(number, f"Q{number % 3}") for number in range(1, 25_001)))
    books.balance()
    rows = read(spark, server, token_file, partitions="3")
    last = books.ledger.last_position()
    assert rows.rdd.getNumPartitions() == 3
    assert [row[0] for row in rows.orderBy("position").select("position").collect()] == list(
        range(1, last + 1)
    )
    one: Any = rows.where("position = 7").first()
    assert LifeRecord(*(one[name] for name in LifeRecord._fields))._asdict() == {
        **life(7, "Q1")._asdict(),
        "msg_id": bytearray(life(7).msg_id),
        "correl_id": bytearray(24),
    }
    balances = rows.where("kind = 1 and position > 25000").orderBy("queue").collect()
    assert [(row["queue"], row["puts"], row["ended"]["got"]) for row in balances][-3:] == [
        ("Q0", 8333, 8333),
        ("Q1", 8334, 8334),
        ("Q2", 8333, 8333),
    ]


@pytest.mark.spark
@pytest.mark.slow
def test_a_batch_read_of_an_empty_ledger_is_empty(
    spark: SparkSession, server: FlightServer, token_file: Path
) -> None:
    assert read(spark, server, token_file).count() == 0


@pytest.mark.spark
@pytest.mark.slow
def test_errors_reach_the_user_of_spark_in_our_words(
    spark: SparkSession, books: KeptBooks, server: FlightServer, token_file: Path, tmp_path: Path
) -> None:
    books.end_many(3)
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong")
    with pytest.raises(PySparkException, match="the token is missing or wrong"):
        read(spark, server, wrong).count()
    with pytest.raises(PySparkException, match="option color"):
        read(spark, server, token_file, color="red").count()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_a_checkpoint_of_another_store_fails_the_query(
    spark: SparkSession, books: KeptBooks, server: FlightServer, token_file: Path, tmp_path: Path
) -> None:
    def run(at: FlightServer) -> None:
        query = (
            spark.readStream.format("mayfly")
            .options(url=at.url, tokenFile=str(token_file), ledger="true")
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    books.end_many(10)
    run(server)
    with kept_books() as other, FlightServer(other, port=0, token=TOKEN) as second:
        other.end_many(20)
        with pytest.raises(PySparkException, match=f"belongs to store {books.ledger.instance_id}"):
            run(second)
    books.end_many(10)
    books.trim(5)
    with pytest.raises(PySparkException, match="goes on at position 11, which is trimmed"):
        run(server)
