"""What-if replay: each boundary of a get, gets that compete, and Spark against one process."""

import random
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mayfly.cli.airport import flights
from mayfly.lifetime import columns, moments, window
from mayfly.mqi.errors import MQError
from mayfly.mqi.reasons import MQRC_EXPIRY_ERROR, MQRC_NONE, MQRC_OPTIONS_ERROR
from mayfly.pipeline.spark.replay import (
    AS_IT_WAS,
    EXPIRED,
    GOT,
    LEFT,
    REFUSED,
    TRACE_SCHEMA,
    WhatIf,
    changed,
    ordered,
    replay_in_process,
    replay_in_spark,
)

PUT_MS = 1_700_000_000_000
DELAY_MS = 5_000
LIFE_MS = 20_000
Message = dict[str, Any]


def _message(seq: int, get_ms: int | None, **fields: Any) -> Message:
    message = {"queue": "Q1", "seq": seq, "put_ms": PUT_MS, "delay_ms": DELAY_MS}
    message |= {"life_ms": LIFE_MS, "correl_id": b"%024d" % seq, "get_ms": get_ms}
    return message | fields


def _trace(messages: Iterable[Message]) -> pa.Table:
    return pa.Table.from_pylist(list(messages), schema=TRACE_SCHEMA)


def _ends(trace: pa.Table, what_if: WhatIf = AS_IT_WAS) -> list[tuple[str, int | None]]:
    rows = replay_in_process(trace, what_if)
    return list(zip(rows["outcome"].to_pylist(), rows["ended_ms"].to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("get_ms", "end"),
    [
        (PUT_MS + DELAY_MS - 1, (EXPIRED, PUT_MS + LIFE_MS)),
        (PUT_MS + DELAY_MS, (GOT, PUT_MS + DELAY_MS)),
        (PUT_MS + DELAY_MS + 1, (GOT, PUT_MS + DELAY_MS + 1)),
        (PUT_MS + LIFE_MS - 1, (GOT, PUT_MS + LIFE_MS - 1)),
        (PUT_MS + LIFE_MS, (EXPIRED, PUT_MS + LIFE_MS)),
        (PUT_MS + LIFE_MS + 1, (EXPIRED, PUT_MS + LIFE_MS)),
        (None, (EXPIRED, PUT_MS + LIFE_MS)),
    ],
)
def test_D1_E4_a_get_finds_its_message_from_delivery_until_the_deadline(
    get_ms: int | None, end: tuple[str, int]
) -> None:
    """Half-open: the delivery time is in, the deadline is out; too early finds nothing."""
    assert _ends(_trace([_message(1, get_ms)])) == [end]


def test_D18_delay_equal_to_the_life_is_never_gettable() -> None:
    """D18: accepted, and expired at the moment of its delivery."""
    trace = _trace([_message(1, PUT_MS + LIFE_MS, delay_ms=LIFE_MS)])
    assert _ends(trace) == [(EXPIRED, PUT_MS + LIFE_MS)]


def test_D7_a_delay_longer_than_the_life_is_refused_at_the_put() -> None:
    """D7: 2013, no window, ended at its put; the messages beside it live on."""
    rows = replay_in_process(
        _trace([_message(1, PUT_MS, delay_ms=LIFE_MS + 1), _message(2, PUT_MS + DELAY_MS)])
    )
    assert rows["outcome"].to_pylist() == [REFUSED, GOT]
    assert rows["reason"].to_pylist() == [MQRC_EXPIRY_ERROR, MQRC_NONE]
    assert rows["ended_ms"].to_pylist() == [PUT_MS, PUT_MS + DELAY_MS]
    assert rows["deliver_at_ms"].to_pylist() == [None, PUT_MS + DELAY_MS]


def test_a_message_without_end_that_nobody_asks_for_is_left() -> None:
    """Unlimited and never asked for, or asked for too early; asked for in time it is got."""
    early = _message(2, PUT_MS + DELAY_MS - 1, life_ms=None)
    got = _message(3, PUT_MS + DELAY_MS, life_ms=None)
    trace = _trace([_message(1, None, life_ms=None), early, got])
    assert _ends(trace) == [(LEFT, None), (LEFT, None), (GOT, PUT_MS + DELAY_MS)]


def test_X3_a_cap_is_tried_on_the_whole_trace() -> None:
    """X3: the cap shortens what is longer or unlimited; D31: and refuses a delay above it."""
    trace = _trace(
        [
            _message(1, PUT_MS + 9_999, life_ms=None),
            _message(2, PUT_MS + 10_000),
            _message(3, PUT_MS + 10_000, delay_ms=10_001),
        ]
    )
    assert _ends(trace, WhatIf(cap_ms=10_000)) == [
        (GOT, PUT_MS + 9_999),
        (EXPIRED, PUT_MS + 10_000),
        (REFUSED, PUT_MS),
    ]


def test_gets_that_share_a_correlation_id_take_messages_in_delivery_order() -> None:
    """The first get takes what was delivered first, whoever put it; the expired is passed over."""
    one_key = {"correl_id": b"same"}
    trace = _trace(
        [
            _message(1, PUT_MS + 12_000, delay_ms=9_000, **one_key),
            _message(2, None, delay_ms=1_000, life_ms=9_000, **one_key),
            _message(3, PUT_MS + 9_000, delay_ms=2_000, **one_key),
        ]
    )
    assert _ends(trace) == [
        (GOT, PUT_MS + 12_000),
        (EXPIRED, PUT_MS + 9_000),
        (GOT, PUT_MS + 9_000),
    ]


def test_equal_moments_are_decided_by_seq_whatever_the_order_of_the_rows() -> None:
    """Twenty equal messages, ten gets in one millisecond: the ten lowest seq are got, always."""
    messages = [
        _message(seq, PUT_MS + DELAY_MS if seq % 2 else None, correl_id=b"same")
        for seq in range(1, 21)
    ]
    shuffled = messages.copy()
    random.Random(7).shuffle(shuffled)
    expected = replay_in_process(_trace(messages))
    assert expected["seq"].to_pylist() == list(range(1, 21))
    assert expected["outcome"].to_pylist() == [GOT] * 10 + [EXPIRED] * 10
    assert replay_in_process(_trace(shuffled)) == expected


def test_a_seq_that_occurs_twice_in_one_queue_is_an_error() -> None:
    """The order of two such rows would be undefined; in two queues it is fine."""
    with pytest.raises(ValueError, match="seq 1 occurs twice in queue 'Q1'"):
        replay_in_process(_trace([_message(1, None), _message(1, None)]))
    assert len(replay_in_process(_trace([_message(1, None), _message(1, None, queue="Q2")]))) == 2


def test_changed_names_the_messages_that_a_longer_life_saves() -> None:
    """Only the rows whose end differs, with both ends."""
    trace = _trace([_message(1, PUT_MS + DELAY_MS), _message(2, PUT_MS + LIFE_MS)])
    before = replay_in_process(trace)
    after = replay_in_process(trace, WhatIf(life_ms=LIFE_MS + 1))
    (row,) = changed(before, after).to_pylist()
    assert (row["seq"], row["outcome"], row["new_outcome"]) == (2, EXPIRED, GOT)
    assert (row["ended_ms"], row["new_ended_ms"]) == (PUT_MS + LIFE_MS, PUT_MS + LIFE_MS)
    with pytest.raises(ValueError, match="seq"):
        changed(before.slice(0, 1), after.slice(1, 1))


_small = st.integers(0, 6)
_messages = st.lists(
    st.fixed_dictionaries(
        {
            "queue": st.sampled_from(["Q1", "Q2"]),
            "put_ms": _small,
            "delay_ms": st.none() | _small,
            "life_ms": st.none() | _small,
            "correl_id": st.sampled_from([b"a", b"b", b"c"]),
            "get_ms": st.none() | st.integers(0, 12),
        }
    ),
    max_size=12,
).map(lambda messages: [message | {"seq": seq} for seq, message in enumerate(messages)])


def _walk(messages: list[Message]) -> list[tuple[str, int | None]]:
    """Decide a trace by walking through every millisecond, as a queue manager would."""
    windows: dict[int, window.Window] = {}
    ends: dict[int, tuple[str, int | None]] = {}
    by_put = sorted(messages, key=lambda m: (m["put_ms"], m["seq"]))
    for m in by_put:
        try:
            windows[m["seq"]] = window.window_at_put(
                m["put_ms"], m["life_ms"], 0 if m["delay_ms"] is None else m["delay_ms"]
            )
        except MQError:
            ends[m["seq"]] = (REFUSED, m["put_ms"])
    for now_ms in range(25):
        on_queue = [m for m in by_put if m["seq"] not in ends]
        for m in on_queue:
            if moments.is_expired(windows[m["seq"]].expire_at_ms, now_ms):
                ends[m["seq"]] = (EXPIRED, now_ms)
        ready = [m for m in on_queue if m["seq"] not in ends]
        ready = [m for m in ready if moments.is_due(windows[m["seq"]].deliver_at_ms, now_ms)]
        ready.sort(key=lambda m: windows[m["seq"]].deliver_at_ms)
        for getter in (m for m in by_put if m["get_ms"] == now_ms):
            key = (getter["queue"], getter["correl_id"])
            found = next((m for m in ready if (m["queue"], m["correl_id"]) == key), None)
            if found is not None:
                ready.remove(found)
                ends[found["seq"]] = (GOT, now_ms)
    by_queue = sorted(by_put, key=lambda m: str(m["queue"]))
    return [ends.get(m["seq"], (LEFT, None)) for m in by_queue]


@given(_messages)
def test_replay_ends_every_life_as_a_walk_through_time_does(messages: list[Message]) -> None:
    """An independent model, one millisecond after the other, with ids alone and shared."""
    trace = _trace(messages)
    assert _ends(trace) == _walk(messages)


# make test compares every 40th flight of the year (tests/demo/test_run.py).
@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.slow
def test_the_year_in_spark_equals_the_year_in_process_and_the_known_answer(
    spark: SparkSession,
) -> None:
    """design §7: 280,230 got and 56,546 expired; row for row the same both ways."""
    trace = flights.trace_of(flights.flights_table())
    alone = replay_in_process(trace)
    together = ordered(replay_in_spark(spark.createDataFrame(trace)).toArrow())
    counts = {row["values"]: row["counts"] for row in pc.value_counts(together["outcome"]).tolist()}
    assert counts == {GOT: flights.YEAR_GOT_COUNT, EXPIRED: flights.YEAR_EXPIRED_COUNT}
    assert together == alone


@pytest.mark.spark
@pytest.mark.slow
def test_every_kind_of_end_and_setting_is_the_same_in_spark(spark: SparkSession) -> None:
    """Nulls, refusals, shared ids and a what-if setting travel through Spark unchanged."""
    chance = random.Random(2013)
    messages = [
        _message(
            seq,
            chance.choice([None, PUT_MS + chance.randrange(30_000)]),
            queue=f"Q{chance.randrange(5)}",
            put_ms=PUT_MS + chance.randrange(1_000),
            delay_ms=chance.choice([None, -1, 0, 5_000, 20_000, 20_001]),
            life_ms=chance.choice([None, 5_000, 20_000]),
            correl_id=b"%d" % chance.randrange(300),
        )
        for seq in range(500)
    ]
    trace = _trace(messages)
    for what_if in (WhatIf(), WhatIf(cap_ms=15_000), WhatIf(delay_ms=100, life_ms=2_000)):
        alone = replay_in_process(trace, what_if)
        frame = replay_in_spark(spark.createDataFrame(trace), what_if)
        assert ordered(frame.toArrow()) == alone
    everything = set(replay_in_process(trace)["outcome"].to_pylist())
    assert everything == {GOT, EXPIRED, REFUSED, LEFT}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("from_release", [False, True])
def test_D7_D31_X3_the_rules_as_spark_expressions_agree_with_the_columns(
    spark: SparkSession, from_release: bool
) -> None:
    """Every boundary of delay against life and cap, with nulls, in one Spark job."""
    from pyspark.sql import functions as f

    lives = [None, 0, 4_999, 5_000, 5_001, window.LONGEST_LIFE_MS]
    due = window.LATEST_DUE_MS - PUT_MS
    delays = [None, -1, 0, 4_999, 5_000, 5_001, due, due + 1, 2**63 - 1]
    rows = [(PUT_MS, life, delay, cap) for life in lives for delay in delays for cap in lives]
    names = ["put_ms", "life_ms", "delay_ms", "cap_ms"]
    table = pa.table([pa.array(c, pa.int64()) for c in zip(*rows, strict=True)], names)
    made = columns.windows_at_put(*table.columns, from_release=from_release)
    expression = columns.spark_window(f, *(f.col(n) for n in names), from_release=from_release)
    frame = spark.createDataFrame(table).select(
        expression.deliver_at_ms.alias("deliver_at_ms"),
        expression.expire_at_ms.alias("expire_at_ms"),
        expression.reason.alias("reason"),
    )
    answer = frame.toArrow()
    assert answer["deliver_at_ms"].to_pylist() == columns.nullable(made.deliver_at_ms).to_pylist()
    assert answer["expire_at_ms"].to_pylist() == columns.nullable(made.expire_at_ms).to_pylist()
    assert answer["reason"].to_pylist() == made.reason.tolist()
    reasons = {MQRC_NONE, MQRC_OPTIONS_ERROR} | (set() if from_release else {MQRC_EXPIRY_ERROR})
    assert set(made.reason.tolist()) == reasons
