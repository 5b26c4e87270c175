"""What a comparison says of queues and messages, each number worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mayfly.pipeline.errors import ReplayError
from mayfly.pipeline.replay.compare import compare, turned
from mayfly.pipeline.replay.run import EXPIRED, GOT, replay_in_process
from mayfly.pipeline.replay.settings import AS_IT_WAS, Settings, WhatIf
from mayfly.pipeline.replay.trace import FULL_TRACE_SCHEMA, read_split, trace_of_lives, write_split
from mayfly.pipeline.spark.replay import lives_in_lake
from tests.replay import lakes

PUT_MS = 1_700_000_000_000


def _trace(*rows: dict[str, Any]) -> pa.Table:
    empty = dict.fromkeys(FULL_TRACE_SCHEMA.names)
    default = {"queue": "Q1", "put_ms": PUT_MS, "correl_id": b""}
    return pa.Table.from_pylist(
        [empty | default | {"seq": seq} | row for seq, row in enumerate(rows, 1)],
        schema=FULL_TRACE_SCHEMA,
    )


def _queue(
    trace: pa.Table, what_if: Settings = AS_IT_WAS, late_after_ms: int = 60_000
) -> dict[str, Any]:
    [row] = compare(trace, what_if, late_after_ms=late_after_ms).after.to_pylist()
    return dict(row)


def test_waits_and_late_messages_are_counted_from_the_delivery() -> None:
    """Delivered at 1 s; got after 0, 10 and 60.001 s: one is later than a minute."""
    gets_ms = [PUT_MS + 1_000, PUT_MS + 11_000, PUT_MS + 61_001]
    row = _queue(_trace(*({"delay_ms": 1_000, "get_ms": get_ms} for get_ms in gets_ms)))
    assert (row["got"], row["late"], row["waited_p50_ms"]) == (3, 1, 10_000.0)
    assert (row["waited_max_ms"], row["waited_p99_ms"]) == (60_001, pytest.approx(59_001, abs=1))
    assert _queue(_trace({"get_ms": PUT_MS + 5}), late_after_ms=5)["late"] == 0
    assert _queue(_trace({"get_ms": PUT_MS + 6}), late_after_ms=5)["late"] == 1


def test_depth_counts_what_is_delivered_and_not_ended_yet() -> None:
    """At 10 s one expires before, and one is got after, the third is delivered: two."""
    first = {"life_ms": 10_000}
    second = {"get_ms": PUT_MS + 10_000}
    third = {"put_ms": PUT_MS + 10_000}
    assert _queue(_trace(first, second))["depth_max"] == 2
    assert _queue(_trace(first | {"life_ms": 9_999}, second, third))["depth_max"] == 2
    assert _queue(_trace({}, {}, {"delay_ms": 50_000}))["depth_max"] == 3
    assert _queue(_trace({"delay_ms": 5_000, "life_ms": 5_000}))["depth_max"] == 0


@pytest.mark.parametrize(
    ("timeout_ms", "empty", "waited_ms"),
    [(None, 1, 0), (4_000, 1, 7_000), (6_000, 0, 3_000 + 6_000)],
)
def test_an_empty_receive_costs_its_timeout(
    timeout_ms: int | None, empty: int, waited_ms: int
) -> None:
    """Two gets at the put: messages come after 3 s and after 6 s."""
    trace = _trace({"delay_ms": 3_000, "get_ms": PUT_MS}, {"delay_ms": 6_000, "get_ms": PUT_MS})
    row = _queue(trace, WhatIf(receive_timeout_ms=timeout_ms))
    if timeout_ms is None:
        assert (row["receives_empty"], row["got"]) == (2, 0)
    else:
        assert (row["receives_empty"], row["receives_waited_ms"]) == (empty, waited_ms)


@pytest.mark.parametrize(("timeout_ms", "empty"), [(999, 3), (1_000, 2), (1_001, 2), (3_000, 0)])
def test_empty_receives_of_a_consumer_are_counted_until_its_message(
    timeout_ms: int, empty: int
) -> None:
    """One consumer waits 3 s: with 1 s each, two are empty and the third ends with the message."""
    what_if = WhatIf(consumers=1, receive_timeout_ms=timeout_ms)
    row = _queue(_trace({"delay_ms": 3_000}), what_if)
    assert (row["receives_empty"], row["receives_waited_ms"]) == (empty, 3_000)
    assert _queue(_trace({"delay_ms": 3_000}), WhatIf(consumers=1))["receives_empty"] == 0


def test_changed_messages_are_told_by_what_turned_into_what() -> None:
    """A cap of 10 s: one that was got is not any more, one expires sooner, one is as it was."""
    trace = _trace(
        {"get_ms": PUT_MS + 10_000},
        {"life_ms": 20_000},
        {"get_ms": PUT_MS + 9_999, "queue": "Q2"},
    )
    compared = compare(trace, WhatIf(cap_ms=10_000))
    assert turned(compared.changed) == {(EXPIRED, EXPIRED): 1, (GOT, EXPIRED): 1}
    assert compared.changed["new_ended_ms"].to_pylist() == [PUT_MS + 10_000] * 2
    assert compared.before["queue"].to_pylist() == ["Q1", "Q2"]
    assert not len(compare(trace, AS_IT_WAS).changed)


@pytest.mark.slow
@pytest.mark.parametrize("is_by_correl_id", [False, True])
def test_lives_of_a_real_queue_manager_replayed_as_they_were_end_as_they_did(
    tmp_path: Path, is_by_correl_id: bool
) -> None:
    """Delays, expiry, priorities: every life of the ledger comes out of the rules again."""
    lives = lives_in_lake(lakes.live(tmp_path, is_by_correl_id=is_by_correl_id))
    trace = trace_of_lives(lives, is_by_correl_id=is_by_correl_id)
    rows = compare(trace, {"Q2": WhatIf(sequence="fifo")}).after.to_pylist()
    assert {row["queue"] for row in rows} >= {"Q1", "Q2"}
    for row in rows:
        assert row["as_recorded"] == row["messages"], row
    assert sum(row["messages"] for row in rows) == lakes.LIFE_COUNT
    assert min(sum(row[name] for row in rows) for name in (GOT, EXPIRED)) > 30


def test_lives_of_several_queue_managers_want_a_name(tmp_path: Path) -> None:
    """Their queues may share names: one of them is replayed, and it has to be there."""
    lake = lakes.live(tmp_path)
    with pytest.raises(
        ReplayError, match=r"no lives of queue manager 'QM2' in .*it has those of QM1"
    ):
        lives_in_lake(lake, "QM2")
    assert len(lives_in_lake(lake, "QM1")) == len(lives_in_lake(lake))


def test_a_trace_split_by_queue_is_the_same_trace(tmp_path: Path) -> None:
    """Names that are no file names included."""
    trace = _trace({"queue": "A/B"}, {"queue": "A%2FB"}, {"queue": "C", "get_ms": PUT_MS})
    write_split(trace, tmp_path)
    assert replay_in_process(read_split(tmp_path)) == replay_in_process(trace)
