"""The delay line over tables: the scalar rules row by row, and what is refused by name."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from mayfly.lifetime.moments import is_due, is_expired
from mayfly.lifetime.window import LATEST_DUE_MS, LONGEST_LIFE_MS, check_life_ms, window_at_put
from mayfly.mqi.errors import MQError
from mayfly.mqi.reasons import MQRC_MD_ERROR
from mayfly.pipeline.errors import CheckpointError, OptionError
from mayfly.pipeline.spark.delay_line import (
    ADDED_COLUMNS,
    SESSION_SETTINGS,
    TtlRule,
    check_session,
    lifetime,
    prepare_session,
    write_stream,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]

T = 1_700_000_000_000
LOWEST, HIGHEST = -(2**63), 2**63 - 1


class Asked(NamedTuple):
    """The columns from which a window follows."""

    put_ms: int | None
    life_ms: int | None
    delay_ms: int | None
    cap_ms: int | None
    deliver_at_ms: int | None
    expire_at_ms: int | None


class Answer(NamedTuple):
    deliver_at_ms: int | None
    expire_at_ms: int | None
    reason: int
    outcome: str
    ended_ms: int | None


_NEAR: list[int | None] = [None, None, 0, 1, 2, 99, 100, 101]
_FAR: list[int | None] = [
    -1,
    LOWEST,
    HIGHEST,
    LONGEST_LIFE_MS,
    LONGEST_LIFE_MS + 1,
    LATEST_DUE_MS - T,
]
_MOMENTS: list[int | None] = [None, None, T - 1, T, T + 1, T + 99, T + 100, T + 101, LATEST_DUE_MS]
_CHOICES: tuple[list[int | None], ...] = (
    [T, T, T, T, T, None, -1, 0, LATEST_DUE_MS, LATEST_DUE_MS + 1, HIGHEST],
    _NEAR * 2 + _FAR,
    _NEAR * 2 + _FAR + [LATEST_DUE_MS - T + 1],
    [None] * 8 + _NEAR + _FAR,
    [None] * 8 + _MOMENTS + _FAR,
    [None] * 8 + _MOMENTS + _FAR,
)


def some_rows(count: int, seed: int) -> list[Asked]:
    """Few distinct values close together, so that equal and one-apart pairs are common."""
    rng = random.Random(seed)
    return [Asked(*(rng.choice(choices) for choices in _CHOICES)) for _ in range(count)]


def scalar(row: Asked, ttl_rule: TtlRule, cap_ms: int | None, now_ms: int) -> Answer:
    """What the rules of one message say, without a column in sight."""
    put_ms, life_ms, delay_ms, own_cap_ms, deliver_at_ms, expire_at_ms = row
    if put_ms is None or not 0 <= put_ms <= LATEST_DUE_MS:
        return Answer(None, None, MQRC_MD_ERROR, "dead_lettered", now_ms)
    deadline_ms = None
    try:
        check_life_ms(life_ms)
        if life_ms is None and expire_at_ms is not None:
            deadline_ms = max(expire_at_ms, put_ms)
            life_ms = deadline_ms - put_ms if ttl_rule == "send" else None
        if delay_ms is None:
            delay_ms = 0 if deliver_at_ms is None else max(deliver_at_ms - put_ms, 0)
        caps = [cap for cap in (own_cap_ms, cap_ms) if cap is not None and cap >= 0]
        window = window_at_put(
            put_ms,
            life_ms,
            delay_ms,
            min([*caps, LATEST_DUE_MS]) if caps else None,
            from_release=ttl_rule == "release",
        )
    except MQError as refusal:
        return Answer(None, None, refusal.reason, "dead_lettered", now_ms)
    ends = [end for end in (window.expire_at_ms, deadline_ms) if end is not None]
    expire = min(ends) if ends else None
    if is_expired(expire, now_ms):
        return Answer(window.deliver_at_ms, expire, 0, "expired", now_ms)
    if is_due(window.deliver_at_ms, now_ms):
        return Answer(window.deliver_at_ms, expire, 0, "released", now_ms)
    return Answer(window.deliver_at_ms, expire, 0, "delayed", None)


def table(spark: SparkSession, rows: list[Asked]) -> DataFrame:
    columns = {
        name: pa.array(values, pa.int64())
        for name, values in zip(Asked._fields, zip(*rows, strict=True), strict=True)
    }
    made = spark.createDataFrame(pa.table({"n": range(len(rows)), **columns}))
    return made.withColumns({"queue": f.lit("Q1"), "payload": f.lit(b"x")})


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session whose settings are its own, ready for a delay line."""
    return prepare_session(spark.newSession())


@pytest.fixture
def stream(session: SparkSession) -> DataFrame:
    """A stream of messages."""
    rows = session.readStream.format("rate").load()
    return rows.select(
        f.lit("Q1").alias("queue"),
        f.unix_millis("timestamp").alias("put_ms"),
        f.lit(b"x").alias("payload"),
    )


@pytest.mark.parametrize(
    ("ttl_rule", "cap_ms", "now_ms"),
    [("send", None, T + 100), ("send", 100, T + 99), ("release", None, T + 101), ("release", 1, T)],
)
def test_D7_D18_D31_E2_X3_a_table_gets_what_the_scalar_rules_say(
    session: SparkSession, ttl_rule: TtlRule, cap_ms: int | None, now_ms: int
) -> None:
    rows = some_rows(3_000, seed=now_ms)
    ended = lifetime(table(session, rows), ttl_rule=ttl_rule, cap_ms=cap_ms, as_of_ms=now_ms)
    answers = ended.orderBy("n").select(*Answer._fields).collect()
    expected = [scalar(row, ttl_rule, cap_ms, now_ms) for row in rows]
    assert {answer.outcome for answer in expected} == {
        "dead_lettered",
        "released",
        "expired",
        "delayed",
    }
    for row, answer, wanted in zip(rows, answers, expected, strict=True):
        assert tuple(answer) == wanted, row


def test_without_a_moment_a_table_is_judged_now(session: SparkSession) -> None:
    rows = [Asked(T, 1_000, None, None, None, None), Asked(T, None, None, None, None, None)]
    ended = lifetime(table(session, [*rows, Asked(T, None, None, None, LATEST_DUE_MS, None)]))
    outcomes = [row.outcome for row in ended.orderBy("n").collect()]
    assert outcomes == ["expired", "released", "delayed"]


def test_all_other_columns_pass_unchanged_and_what_was_asked_is_gone(session: SparkSession) -> None:
    rows = table(session, [Asked(T, 5, 0, None, None, None)]).withColumn("tags", f.array(f.lit(1)))
    ended = lifetime(rows.withColumn("report", f.lit(0).cast("smallint")), as_of_ms=T)
    given = [name for name in rows.columns if name not in ("life_ms", "delay_ms", "cap_ms")]
    assert ended.columns == [*given, "report", *ADDED_COLUMNS]
    assert ended.schema["report"].dataType.simpleString() == "int"
    row = ended.first()
    assert row is not None
    assert row["tags"] == [1]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"slot_ms": 0}, "slot_ms 0 is not a whole number from 1 to 3600000"),
        ({"slot_ms": True}, "slot_ms True"),
        ({"slot_ms": 0.5}, "slot_ms 0.5"),
        ({"shards": 0}, "shards 0"),
        ({"cap_ms": 0}, "cap_ms 0"),
        ({"cap_ms": LONGEST_LIFE_MS + 1}, f"cap_ms {LONGEST_LIFE_MS + 1}"),
        ({"ttl_rule": "put"}, "ttl_rule 'put' is neither 'send' nor 'release'"),
        ({"manager_name": ""}, "manager_name ''"),
        ({"as_of_ms": -1}, "as_of_ms -1"),
    ],
)
def test_a_bad_option_is_refused_by_name_and_value(
    session: SparkSession, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(OptionError, match=text):
        lifetime(table(session, [Asked(T, *[None] * 5)]), **options)


def test_text_and_timestamps_are_taken_as_the_message_they_mean(session: SparkSession) -> None:
    rows = table(session, [Asked(T, None, None, None, T + 5, T + 9)])
    meant = rows.select(
        f.lit("Grüße").alias("payload"),
        "queue",
        f.timestamp_micros(f.col("put_ms") * 1_000 + 999).alias("put_ms"),
        f.timestamp_millis("deliver_at_ms").alias("Deliver_At"),
        f.timestamp_millis("expire_at_ms").alias("expire_at"),
    )
    [found] = lifetime(meant, as_of_ms=T + 5).collect()
    assert bytes(found.payload).decode() == "Grüße"
    assert (found.put_ms, found.deliver_at_ms, found.expire_at_ms) == (T, T + 5, T + 9)
    assert (found.outcome, "expire_at" in found) == ("released", False)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda rows: rows.drop("payload"), "column payload is missing"),
        (
            lambda rows: rows.withColumn("put_ms", f.localtimestamp()),
            "column put_ms is timestamp_ntz; it must be bigint or timestamp",
        ),
        (
            lambda rows: rows.withColumn("payload", f.lit(1)),
            "column payload is int; it must be binary or string",
        ),
        (
            lambda rows: rows.withColumn("delay_ms", f.current_timestamp()),
            "column delay_ms is timestamp; it must be bigint$",
        ),
        (
            lambda rows: rows.drop("expire_at_ms").withColumn("Expire_At", f.lit("12:00")),
            "column Expire_At is string; it must be timestamp, ms since 1970 are expire_at_ms",
        ),
        (
            lambda rows: rows.withColumn("deliver_at", f.current_timestamp()),
            "columns deliver_at and deliver_at_ms say the same: drop one of them",
        ),
        (
            lambda rows: rows.withColumn("report", f.lit(1).cast("bigint")),
            "report is bigint; .* int",
        ),
        (lambda rows: rows.withColumn("delay_ms", f.lit("5s")), "column delay_ms is string"),
        (
            lambda rows: rows.withColumn("outcome", f.lit(1)),
            "column outcome is what the delay line",
        ),
        (lambda rows: rows.withColumn("x.y", f.lit(1)), "column x.y: .* rename it before"),
        (lambda rows: rows.select("*", "put_ms"), "column put_ms is there 2 times"),
    ],
)
def test_a_wrong_column_is_refused_by_name_and_type(
    session: SparkSession, change: Any, text: str
) -> None:
    with pytest.raises(OptionError, match=text):
        lifetime(change(table(session, [Asked(T, *[None] * 5)])), as_of_ms=T)


@pytest.mark.parametrize("name", SESSION_SETTINGS)
def test_a_stream_in_a_session_that_is_not_prepared_is_refused_by_setting(
    session: SparkSession, stream: DataFrame, name: str
) -> None:
    check_session(session)
    wrong = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "1"}.get(name, "false")
    session.conf.set(name, wrong)
    with pytest.raises(OptionError, match=f"setting {name} is '{wrong}'"):
        lifetime(stream)


def test_a_moment_is_refused_for_a_stream(stream: DataFrame) -> None:
    with pytest.raises(OptionError, match="as_of_ms is for what is no stream"):
        lifetime(stream, as_of_ms=T)


def test_asynchronous_progress_is_refused_by_name(stream: DataFrame, tmp_path: Any) -> None:
    rows = lifetime(stream)
    for name in ("asyncProgressTrackingEnabled", "ASYNCPROGRESSTRACKINGENABLED"):
        with pytest.raises(OptionError, match="option asyncProgressTrackingEnabled must be off"):
            write_stream(rows, tmp_path / "c", options={name: "true"})
    with pytest.raises(OptionError, match="checkpointLocation is the argument"):
        write_stream(rows, tmp_path / "c", options={"checkpointLocation": "x"})
    with pytest.raises(OptionError, match="rows are no stream of lifetime"):
        write_stream(stream, tmp_path / "c")
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_of_another_query_or_of_other_columns_is_refused(
    stream: DataFrame, tmp_path: Any
) -> None:
    (tmp_path / "other" / "offsets").mkdir(parents=True)
    rows = lifetime(stream)
    with pytest.raises(CheckpointError, match="is that of another query, no delay line"):
        write_stream(rows, tmp_path / "other")
    own = tmp_path / "own"
    write_stream(rows, own)
    write_stream(lifetime(stream, slot_ms=1_000, shards=9, cap_ms=5), f"file://{own}")
    drifted = stream.withColumn("tenant", f.lit(1))
    with pytest.raises(CheckpointError, match="column tenant is missing, in this query it is int"):
        write_stream(lifetime(drifted), own)
    (own / "_mayfly_delay_line.json").write_text("{}")
    (own / "._mayfly_delay_line.json.crc").unlink()
    with pytest.raises(CheckpointError, match="is damaged"):
        write_stream(rows, own)


def test_importing_the_package_loads_no_pandas() -> None:
    code = (
        "import mayfly.spark, sys; print('pandas' in sys.modules);"
        "print(mayfly.spark.lifetime.__module__, 'pandas' in sys.modules)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == ["False", "mayfly.pipeline.spark.delay_line", "True"]
