"""A lake in an object store, whose S3 is moto's; ``make interop`` runs it where that is there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from mayfly.lifetime.life import State
from mayfly.pipeline.lake import answers
from mayfly.pipeline.lake.check import check_lake
from mayfly.pipeline.lake.delta import DeltaLake, compact_tables
from mayfly.pipeline.lake.errors import LakeError
from tests.bulk.books import life
from tests.spark.lakes import INSTANCE, balance, rows_of

pytestmark = [
    pytest.mark.object_store,
    pytest.mark.skipif(
        find_spec("moto") is None, reason="moto is missing: pip install 'moto[server]==5.2.5'"
    ),
]
LAKE = "s3://lakes/mayfly"


@pytest.fixture(scope="module")
def store() -> Iterator[None]:
    """An S3 of this machine with one empty bucket, named by the variables that tools of S3 read."""
    boto3 = import_module("boto3")

    # A process of its own: delta-rs holds the interpreter's lock while it waits for an answer.
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.lake.drive_object_store"],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    assert url.startswith("http://127.0.0.1:"), (url, server.communicate())
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {
            "AWS_ENDPOINT_URL": url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            environment.setenv(name, value)
        try:
            boto3.client("s3").create_bucket(Bucket="lakes")
            yield
        finally:
            server.communicate()


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
