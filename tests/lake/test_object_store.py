"""A lake in an object store, whose S3 is moto's; ``make interop`` runs it where that is there."""

from __future__ import annotations

from contextlib import closing

import pytest

from mayfly.lifetime.life import State
from mayfly.pipeline.errors import LakeError
from mayfly.pipeline.lake import answers
from mayfly.pipeline.lake.check import check_lake
from mayfly.pipeline.lake.delta import DeltaLake, compact_tables
from tests.bulk.books import life
from tests.object_store import needs_object_store, store
from tests.spark.lakes import INSTANCE, balance, rows_of

pytestmark = [pytest.mark.object_store, needs_object_store]
__all__ = ["store"]
LAKE = "s3://lakes/mayfly"


@pytest.mark.usefixtures("store")
def test_a_lake_in_an_object_store_has_each_row_once_and_answers() -> None:
    """Two writers, a run that goes on, a compaction, a report and the proof."""
    entries = [life(1), life(2, outcome=State.EXPIRED), balance("Q1", 2, got=1, expired=1)]
    with closing(DeltaLake(LAKE, INSTANCE)) as first, closing(DeltaLake(LAKE, INSTANCE)) as second:
        first.add(rows_of(*entries), 3)
        with pytest.raises(LakeError, match="another process has written the same ledger"):
            second.add(rows_of(*entries), 3)
    with closing(DeltaLake(LAKE, INSTANCE)) as again:
        assert again.position == 3
        again.add(rows_of(*entries, life(3)), 4)
    assert compact_tables(LAKE)["lives"] == (2, 1)
    [report] = answers.ledger_report(LAKE)
    assert (report.lives, report.outcomes["got"], report.outcomes["expired"]) == (3, 2, 1)
    found = check_lake(LAKE)
    assert (found.rows, found.balances, found.texts) == (4, 1, [])


@pytest.mark.usefixtures("store")
def test_a_bucket_that_is_not_there_ends_with_one_line() -> None:
    with pytest.raises(LakeError) as refused:
        answers.ledger_report("s3://nowhere/lake")
    assert str(refused.value).startswith("lake s3://nowhere/lake: ")
    assert "\n" not in str(refused.value)
