"""What becomes of a message at a moment, and the report it then owes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.lifetime.moments import is_expired
from mayfly.lifetime.reports import Cause, Original, build_report, is_owed
from mayfly.lifetime.window import remaining_ms
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.reasons import MQRC_EXPIRY_ERROR
from mayfly.pipeline.bulk.schema import MESSAGE
from mayfly.pipeline.spark.delay_line import end_rows
from mayfly.pipeline.spark.messages import REPORT

T = 1_700_000_000_000
WITH_REASON = MESSAGE.append(pa.field("reason", pa.int32()))


def message(**changed: Any) -> dict[str, Any]:
    """A message as a row: put at T, due 100 ms later, gone 200 ms later."""
    return {
        "manager": "QM9",
        "queue": "Q1",
        "msg_id": b"M" * 24,
        "correl_id": b"C" * 24,
        "put_ms": T,
        "deliver_at_ms": T + 100,
        "expire_at_ms": T + 200,
        "priority": 5,
        "persistence": 1,
        "report": 0,
        "reply_to_q": "R1",
        "reply_to_q_mgr": "QM2",
        "msg_type": c.MQMT_REQUEST,
        "format": "MQSTR",
        "encoding": 546,
        "coded_char_set_id": 1208,
        "backout_count": 3,
        "user_identifier": "ann",
        "payload": b"p" * 150,
        "reason": 0,
        **changed,
    }


def end(now_ms: int, *rows: dict[str, Any]) -> list[dict[str, Any]]:
    made = end_rows(pa.RecordBatch.from_pylist(list(rows), WITH_REASON), now_ms, "LINE")
    ended: list[dict[str, Any]] = made.to_pylist()
    return ended


def owed(now_ms: int, **changed: Any) -> Any:
    [row] = end(now_ms, message(**changed))
    return row["report_owed"]


@pytest.mark.parametrize(
    ("now_ms", "outcome", "ended_ms"),
    [
        (T + 99, "delayed", None),
        (T + 100, "released", T + 100),
        (T + 199, "released", T + 199),
        (T + 200, "expired", T + 200),
        (T + 201, "expired", T + 201),
    ],
)
def test_D1_E4_outcome_at_both_ends_of_the_window(
    now_ms: int, outcome: str, ended_ms: int | None
) -> None:
    [row] = end(now_ms, message())
    assert (row["outcome"], row["ended_ms"]) == (outcome, ended_ms)


def test_D18_a_delay_as_long_as_the_life_is_never_released() -> None:
    same = message(expire_at_ms=T + 100)
    assert [end(T + n, same)[0]["outcome"] for n in (99, 100, 101)] == [
        "delayed",
        "expired",
        "expired",
    ]


def test_D7_a_refused_row_leaves_with_its_reason_whatever_the_time() -> None:
    refused = message(deliver_at_ms=None, expire_at_ms=None, reason=MQRC_EXPIRY_ERROR)
    [row] = end(T, refused)
    assert (row["outcome"], row["ended_ms"], row["reason"]) == ("dead_lettered", T, 2013)


def test_E13_only_who_asked_and_only_who_expired_is_owed_an_expiration_report() -> None:
    asked = {"report": c.MQRO_EXPIRATION}
    assert owed(T + 200, **asked) is not None
    assert owed(T + 199, **asked) is None
    assert owed(T + 99, **asked) is None
    assert owed(T + 200) is None
    assert owed(T + 200, report=None) is None
    assert owed(T + 200, report=c.MQRO_EXCEPTION | c.MQRO_COA | c.MQRO_COD) is None
    assert owed(T, reason=MQRC_EXPIRY_ERROR, **asked) is None


def test_R2_an_expiration_report_is_a_message_to_the_reply_queue() -> None:
    report = owed(T + 205, report=c.MQRO_EXPIRATION | c.MQRO_PASS_CORREL_ID)
    assert report == {
        "manager": "QM2",
        "queue": "R1",
        "msg_id": None,
        "correl_id": b"C" * 24,
        "put_ms": T + 205,
        "deliver_at_ms": T + 205,
        "expire_at_ms": None,
        "priority": 5,
        "persistence": 1,
        "report": 0,
        "reply_to_q": "",
        "reply_to_q_mgr": "LINE",
        "msg_type": c.MQMT_REPORT,
        "format": "",
        "encoding": 546,
        "coded_char_set_id": 1208,
        "backout_count": 0,
        "user_identifier": "ann",
        "payload": b"",
        "feedback": c.MQFB_EXPIRATION,
        "original_length": c.MQOL_UNDEFINED,
        "put_appl_type": c.MQAT_QMGR,
        "put_appl_name": "LINE",
    }


def test_D22_an_exception_report_carries_the_reason_as_feedback() -> None:
    report = owed(T, reason=MQRC_EXPIRY_ERROR, report=c.MQRO_EXCEPTION_WITH_DATA)
    assert report["feedback"] == MQRC_EXPIRY_ERROR
    assert report["payload"] == b"p" * 100
    assert report["format"] == "MQSTR"


def report_by_rule(row: dict[str, Any], now_ms: int) -> dict[str, Any] | None:
    """The report a message owes at ``now_ms``, from the rule for one message."""
    cause = Cause.EXCEPTION if row["reason"] else Cause.EXPIRATION
    given_fields = row.keys() & set(Descriptor._fields)
    descriptor = Descriptor(**{n: row[n] for n in given_fields if row[n] is not None})
    gone = bool(row["reason"]) or is_expired(row["expire_at_ms"], now_ms)
    if not (gone and is_owed(cause, descriptor)):
        return None
    original = Original(
        descriptor,
        row["msg_id"] or b"",
        row["correl_id"] or b"",
        row["payload"],
        remaining_ms(row["expire_at_ms"], now_ms),
    )
    made = build_report(cause, original, "LINE", row["reason"])
    fields = made.descriptor._asdict()
    return {
        **{name: fields[name] for name in REPORT.names if name in fields},
        "manager": descriptor.reply_to_q_mgr,
        "queue": made.reply_to_q,
        "msg_id": made.msg_id,
        "correl_id": made.correl_id,
        "put_ms": now_ms,
        "deliver_at_ms": now_ms,
        "expire_at_ms": None if made.life_ms is None else now_ms + made.life_ms,
        "backout_count": 0,
        "payload": made.body,
    }


_options = st.integers(-(2**31), 2**31 - 1) | st.sampled_from(
    [c.MQRO_EXPIRATION, c.MQRO_EXPIRATION_WITH_FULL_DATA, c.MQRO_EXCEPTION_WITH_DATA]
)
_ends = st.sampled_from(
    [
        {},
        {"expire_at_ms": None},
        {"deliver_at_ms": T + 301},
        {"expire_at_ms": T + 300},
        {"reason": MQRC_EXPIRY_ERROR, "expire_at_ms": None, "deliver_at_ms": None},
        {"reason": MQRC_EXPIRY_ERROR, "expire_at_ms": T + 400},
    ]
)
_messages = st.builds(
    lambda changed, end: message(**changed, **end),
    st.fixed_dictionaries(
        {"report": st.none() | _options, "payload": st.binary(max_size=120)},
        optional={
            "format": st.sampled_from([None, "", "MQDEAD", "MQXMIT"]),
            "msg_id": st.none(),
            "correl_id": st.none() | st.just(b""),
            "priority": st.none() | st.integers(0, 9),
            "reply_to_q": st.none() | st.just("R2"),
            "reply_to_q_mgr": st.none(),
            "user_identifier": st.text("ab", max_size=2),
        },
    ),
    _ends,
)


@given(st.lists(_messages, min_size=1, max_size=12))
def test_reports_of_many_rows_are_those_of_the_rule_for_one(rows: list[dict[str, Any]]) -> None:
    """Every option bit, whatever stands beside: what the queue manager would send, or none."""
    ended = end(T + 300, *rows)
    assert [row["report_owed"] for row in ended] == [report_by_rule(row, T + 300) for row in rows]


def test_a_column_that_is_no_part_of_a_message_says_nothing_in_a_report() -> None:
    """A column of Kafka's, say; a descriptor has fields of these names."""
    rows = pa.RecordBatch.from_pylist([message(report=c.MQRO_EXPIRATION)], WITH_REASON)
    beside = rows.append_column("version", pa.array(["2"])).append_column("offset", pa.array([7]))
    [row] = end_rows(beside, T + 200, "LINE").to_pylist()
    assert row["report_owed"] == owed(T + 200, report=c.MQRO_EXPIRATION)
    assert (row["version"], row["offset"]) == ("2", 7)


def test_a_row_without_optional_columns_owes_nothing_and_ends_all_the_same() -> None:
    small = pa.RecordBatch.from_pylist(
        [{"payload": b"", "deliver_at_ms": T, "expire_at_ms": None, "reason": 0}],
        pa.schema(
            [
                pa.field("payload", pa.binary()),
                pa.field("deliver_at_ms", pa.int64()),
                pa.field("expire_at_ms", pa.int64()),
                pa.field("reason", pa.int32()),
            ]
        ),
    )
    [row] = end_rows(small, T, "LINE").to_pylist()
    assert (row["outcome"], row["ended_ms"], row["report_owed"]) == ("released", T, None)
