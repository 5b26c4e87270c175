"""Ledger rows as Arrow: types, nulls, and pages that stay under a limit."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from mayfly.lifetime.life import KIND_BALANCE, KIND_LIFE, LEDGER_COLUMNS, OUTCOMES, Cap
from mayfly.pipeline.bulk.schema import ENDED, LEDGER, LEDGER_ROW_BYTES_MAX, ledger_batch, pages
from mayfly.verbs.contracts.outcomes import DetectedBy
from tests.bulk.books import START_MS, life

INSTANCE = "ab" * 16
LIFE_ROW = (1, KIND_LIFE, *life(7, expire_at_ms=START_MS + 9_000), None, None, None)
BALANCE_ROW = (2, KIND_BALANCE, "Q1", *[None] * 6, START_MS, *[None] * 13, 5, 2)


def balance_row(ended: list[int] | dict[str, int]) -> tuple[object, ...]:
    return (*BALANCE_ROW, json.dumps(ended))


def test_a_life_keeps_every_field_and_has_no_counts() -> None:
    [row] = ledger_batch([LIFE_ROW], "QM1", INSTANCE).to_pylist()
    expected = dict(zip(LEDGER_COLUMNS, LIFE_ROW, strict=True))
    assert row == {"manager": "QM1", "instance_id": INSTANCE, **expected}


def test_a_balance_has_counts_by_outcome_and_no_life() -> None:
    [row] = ledger_batch([balance_row({"got": 3})], "QM1", INSTANCE).to_pylist()
    assert (row["puts"], row["present"], row["ended_ms"]) == (5, 2, START_MS)
    assert row["ended"] == {**dict.fromkeys([o.value for o in OUTCOMES], 0), "got": 3, "other": 0}
    assert row["msg_id"] is row["put_ms"] is row["outcome"] is None


def test_counts_are_by_code_and_unknown_codes_are_counted_together() -> None:
    """A later version has written them."""
    stored = [
        {"expired": 2, "unheard_of": 3, "unknown": 1},
        {},
    ]
    found = ledger_batch([balance_row(ended) for ended in stored], "QM1", INSTANCE).to_pylist()
    counted = [{name: n for name, n in row["ended"].items() if n} for row in found]
    assert counted == [{"expired": 2, "other": 4}, {}]
    assert all(None not in row["ended"].values() for row in found)


def test_lives_and_balances_share_a_batch() -> None:
    batch = ledger_batch([LIFE_ROW, balance_row({"got": 3})], "QM1", INSTANCE)
    assert batch.schema == LEDGER
    assert batch.column("ended").is_valid().to_pylist() == [False, True]
    batch.validate(full=True)


def test_counts_that_are_no_object_are_refused() -> None:
    with pytest.raises(ValueError, match="does not say how often lives ended"):
        ledger_batch([balance_row([1] * 9)], "QM1", INSTANCE)


def test_a_row_whose_every_field_is_full_stays_under_the_row_limit() -> None:
    full = life(1, queue="Q" * 48, origin_id=bytes(24), expire_at_ms=START_MS)
    full = full._replace(reply_to_q="R" * 48, user_identifier="u" * 12, outcome="lost_at_restart")
    cap = Cap(999_999_999, "QREMOTE", "C" * 48)
    full = full._replace(capped_by=cap.text, detected_by="m" * 16)
    full = full._replace(ended_by="e" * 64, ended_program="p" * 64)
    batch = ledger_batch([(1, KIND_LIFE, *full, None, None, None)] * 100, "M" * 48, INSTANCE)
    assert batch.nbytes / 100 <= LEDGER_ROW_BYTES_MAX


@pytest.mark.parametrize("max_bytes", [1, 300, 5_000, 10**9])
def test_pages_hold_every_row_in_order_and_keep_to_the_limit(max_bytes: int) -> None:
    rows = [(n, KIND_LIFE, *life(n), None, None, None) for n in range(1, 101)]
    batch = ledger_batch(rows, "QM1", INSTANCE)
    split = list(pages(batch, max_bytes))
    assert pa.Table.from_batches(split).column("position").to_pylist() == list(range(1, 101))
    assert all(page.nbytes <= max_bytes or page.num_rows == 1 for page in split)
    assert (len(split) == 1) == (batch.nbytes <= max_bytes)


def test_a_large_row_among_small_ones_goes_alone() -> None:
    rows = [(n, KIND_LIFE, *life(n), None, None, None) for n in range(1, 5)]
    large = life(5, reply_to_q="R" * 10_000)
    rows.append((5, KIND_LIFE, *large, None, None, None))
    split = list(pages(ledger_batch(rows, "QM1", INSTANCE), 2_000))
    assert [page.num_rows for page in split if page.nbytes > 2_000] == [1]


def test_ended_names_each_outcome_once() -> None:
    names = [ENDED.field(n).name for n in range(ENDED.num_fields)]
    assert names == [*(o.value for o in OUTCOMES), "other"]


def table_of(heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading of docs/LEDGER.md, without marks."""
    page = (Path(__file__).parents[2] / "docs" / "LEDGER.md").read_text("utf-8")
    section = re.split(r"^## ", page, flags=re.MULTILINE)
    [text] = [part for part in section if part.startswith(f"{heading}\n")]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_docs_tell_of_every_column_kind_and_outcome() -> None:
    kinds = {"struct": ENDED, **{str(field.type): field.type for field in LEDGER}}
    told = [(name, kinds[kind]) for name, kind, _meaning in table_of("Columns")]
    assert told == [(field.name, field.type) for field in LEDGER]
    assert [int(kind) for kind, *_ in table_of("Kinds")] == [KIND_LIFE, KIND_BALANCE]
    assert [outcome for outcome, _when in table_of("Outcomes")] == [o.value for o in OUTCOMES]
    detected_by = table_of("What detected an expired message")
    assert [word for word, _what in detected_by] == [word.value for word in DetectedBy]
