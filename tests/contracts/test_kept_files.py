"""What pipelines and lakes keep on a disk has its form: today's code reads and writes it.

A change of a text here is a change that a checkpoint or lake of the version before does not
survive: it needs a number of its own, and a reader of the old one (docs/PIPELINE.md, Upgrades).
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from mayfly.pipeline.build import MARK, check_mark, identity
from mayfly.pipeline.bulk.batch_log import (
    CheckpointState,
    ClaimOffset,
    LocalFiles,
    checkpoint_state,
    claim_offset,
    written_claims,
)
from mayfly.pipeline.bulk.schema import LEDGER
from mayfly.pipeline.config import load
from mayfly.pipeline.errors import CheckpointError
from mayfly.pipeline.lake import delta
from mayfly.pipeline.lake.files import DateEntry, Manifest
from mayfly.pipeline.lake.parquet import ParquetLake, position_of
from mayfly.pipeline.progress import KeptProgress, Progress
from mayfly.pipeline.spark import source

STORE = "4d12811191712024c5eaddc3054e1ae7"
HEAD = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{}}\n'
QUEUE_OFFSET = (
    f'{{"version": 1, "claim": 7, "consumer": "billing", "queue": "CALLS", "instance": "{STORE}"}}'
)
LEDGER_OFFSET = f'{{"version": 1, "position": 812100, "instance": "{STORE}"}}'
PIPELINE_MARK = (
    '{"id": "00112233445566778899aabbccddeeff", '
    '"sources": [{"kind": "queue", "queue": "CALLS", "consumer": "billing"}, '
    '{"kind": "files", "format": "json", "path": "/in"}]}'
)
PROGRESS = '{"batch": 7, "held": 10}'
MANIFEST = (
    '{"version": 2, "generation": 3, "retired": {}, "dates": {"2026-11-20": {"runs": '
    '["run-3-ab.parquet"], "hidden": [], "through": {"4d12811191712024": 7}, "since": 0}}}'
)
PIPELINE = """
name = "calls"
checkpoint = "checkpoint"
dead_letter = "out"
[[source]]
kind = "queue"
url = "grpc://127.0.0.1:9414"
queue = "CALLS"
consumer = "billing"
[[source]]
kind = "files"
format = "json"
path = "/in"
schema = "n bigint"
[source.columns]
queue = "'CALLS'"
payload = "cast(n as binary)"
put_ms = "0"
[[sink]]
name = "out"
kind = "files"
path = "out"
"""


def keep(folder: Path, batch: int, *offsets: str, is_committed: bool = True) -> None:
    """Write what Spark keeps of a batch."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "offsets" / str(batch)).write_text(HEAD + "\n".join(offsets))
    if is_committed:
        (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def test_the_offset_of_a_queue(tmp_path: Path) -> None:
    offset = ClaimOffset("billing", "CALLS", STORE, 7)
    assert json.dumps(offset.as_json()) == QUEUE_OFFSET
    assert claim_offset(json.loads(QUEUE_OFFSET)) == offset
    keep(tmp_path, 0, '{"logOffset":0}', QUEUE_OFFSET)
    [written] = written_claims(LocalFiles(tmp_path))
    assert (written.offset, written.unfinished_batch) == (offset, None)


def test_the_offset_of_a_ledger() -> None:
    assert json.dumps(source._offset(812_100, STORE)) == LEDGER_OFFSET


def test_the_batches_of_a_checkpoint(tmp_path: Path) -> None:
    assert checkpoint_state(tmp_path) == CheckpointState(None, None, None)
    keep(tmp_path, 0, LEDGER_OFFSET, is_committed=False)
    assert checkpoint_state(tmp_path) == CheckpointState(None, None, 0)
    keep(tmp_path, 0, LEDGER_OFFSET)
    state = checkpoint_state(tmp_path)
    assert (state.committed, state.unfinished, (state.committed_ms or 0) > 0) == (0, None, True)


def test_the_mark_of_a_pipeline(tmp_path: Path) -> None:
    (tmp_path / "calls.toml").write_text(PIPELINE)
    config = load(tmp_path / "calls.toml")
    assert MARK == "_mayfly_pipeline.json"
    assert check_mark(PIPELINE_MARK, config) == "00112233445566778899aabbccddeeff"
    sources = [identity(each) for each in config.sources]
    assert sources == json.loads(PIPELINE_MARK)["sources"]
    with pytest.raises(CheckpointError, match="was kind queue queue OTHER consumer billing"):
        check_mark(PIPELINE_MARK.replace('"CALLS"', '"OTHER"'), config)


def test_the_progress_beside_it(tmp_path: Path) -> None:
    kept = KeptProgress(str(tmp_path))
    (tmp_path / "_mayfly_progress.json").write_text(PROGRESS)
    assert kept.load("calls") == Progress("calls", batch=7, held=10)
    kept.save(Progress("calls", batch=7, held=10, rows_in=5))
    assert (tmp_path / "_mayfly_progress.json").read_text() == PROGRESS


def test_the_manifest_of_a_lake(tmp_path: Path) -> None:
    (tmp_path / "_mayfly").mkdir()
    (tmp_path / "_mayfly" / "manifest.json").write_text(MANIFEST)
    manifest = Manifest.load(tmp_path)
    entry = DateEntry(["run-3-ab.parquet"], [], {"4d12811191712024": 7}, 0)
    assert manifest == Manifest(3, {"2026-11-20": entry}, {})
    manifest.generation = 2
    manifest.publish(tmp_path)
    assert (tmp_path / "_mayfly" / "manifest.json").read_text() == MANIFEST


def test_the_mark_of_a_ledger_in_a_lake_of_parquet_files(tmp_path: Path) -> None:
    with closing(ParquetLake(tmp_path, STORE)) as lake:
        assert lake.position == 0
        lake.add(LEDGER.empty_table(), 812_100)
    mark = tmp_path / "_mayfly" / f"{STORE}.json"
    assert mark.read_text() == '{"position": 812100, "batch": 0}'
    assert position_of(tmp_path, STORE) == 812_100
    # That of Spark's stream of earlier versions: the rows say the position.
    mark.write_text('{"stream": "ab"}')
    assert position_of(tmp_path, STORE) == 0


def test_the_name_by_which_a_ledger_writes_to_delta_tables() -> None:
    assert delta._app(STORE) == f"mayfly-ledger-{STORE}"
