"""Metrics as Prometheus reads them: the text, the file, the server."""

from __future__ import annotations

import contextlib
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.parser import text_string_to_metric_families

from mayfly.pipeline.metrics import MetricsFile, MetricsServer, metrics_text
from mayfly.pipeline.progress import LedgerProgress, Progress

STANDING = Progress(
    "calls",
    batch=41,
    batch_ended_ms=1_700_000_000_500,
    batch_rows=5,
    batches=3,
    rows_in=12,
    held=2,
    released=8,
    expired=1,
    dead_lettered=1,
    reports=1,
    releasing=3,
    lag_ms=1_700,
    rows_per_second=12.5,
    restarts=4,
)


def samples(text: str) -> dict[str, float]:
    """Return the values by name with labels, as Prometheus reads them."""
    found: dict[str, float] = {}
    for metric in text_string_to_metric_families(text):
        assert metric.documentation
        # A sample without its TYPE line before it would be "unknown".
        assert metric.type == ("counter" if f"# TYPE {metric.name}_total " in text else "gauge")
        for sample in metric.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def test_every_count_is_there_with_its_unit() -> None:
    assert samples(metrics_text(STANDING)) == {
        'mayfly_pipeline_rows_in_total{pipeline="calls"}': 12,
        'mayfly_pipeline_rows_out_total{outcome="released",pipeline="calls"}': 8,
        'mayfly_pipeline_rows_out_total{outcome="expired",pipeline="calls"}': 1,
        'mayfly_pipeline_rows_out_total{outcome="dead_lettered",pipeline="calls"}': 1,
        'mayfly_pipeline_reports_total{pipeline="calls"}': 1,
        'mayfly_pipeline_batches_total{pipeline="calls"}': 3,
        'mayfly_pipeline_restarts_total{pipeline="calls"}': 4,
        'mayfly_pipeline_held_rows{pipeline="calls"}': 2,
        'mayfly_pipeline_releasing_rows{pipeline="calls"}': 3,
        'mayfly_pipeline_lag_seconds{pipeline="calls"}': 1.7,
        'mayfly_pipeline_rows_per_second{pipeline="calls"}': 12.5,
        'mayfly_pipeline_last_batch{pipeline="calls"}': 41,
        'mayfly_pipeline_last_batch_rows{pipeline="calls"}': 5,
        'mayfly_pipeline_last_batch_timestamp_seconds{pipeline="calls"}': 1_700_000_000.5,
        'mayfly_pipeline_up{pipeline="calls"}': 1,
    }


def test_what_is_not_known_is_left_out() -> None:
    found = samples(metrics_text(STANDING._replace(held=None, lag_ms=None), is_up=False))
    assert [name for name in found if "held" in name or "lag" in name] == []
    assert found['mayfly_pipeline_up{pipeline="calls"}'] == 0


def test_a_ledger_run_says_how_far_the_lake_is_behind() -> None:
    begun = LedgerProgress("QM1", "s3://bucket/lake")
    labels = '{lake="s3://bucket/lake",queue_manager="QM1"}'
    assert samples(metrics_text(begun, is_up=False)) == {
        f"mayfly_ledger_run_rows_total{labels}": 0,
        f"mayfly_ledger_run_commits_total{labels}": 0,
        f"mayfly_ledger_run_up{labels}": 0,
    }
    after = begun._replace(position=100, end_position=500)
    after = after.with_commit(300, 200, 1_700_000_000_000).with_commit(350, 50, 1_700_000_001_500)
    assert samples(metrics_text(after)) == {
        f"mayfly_ledger_run_rows_total{labels}": 250,
        f"mayfly_ledger_run_commits_total{labels}": 2,
        f"mayfly_ledger_run_position{labels}": 350,
        f"mayfly_ledger_run_lag_rows{labels}": 150,
        f"mayfly_ledger_run_last_commit_timestamp_seconds{labels}": 1_700_000_001.5,
        f"mayfly_ledger_run_up{labels}": 1,
    }


def test_a_lake_is_not_behind_a_ledger_whose_end_was_asked_for_before_its_last_commit() -> None:
    asked = LedgerProgress("QM1", "lake", position=1, end_position=10)
    assert (asked.lag_rows, asked.with_commit(12, 11, 0).lag_rows) == (9, 0)
    assert asked._replace(position=12).lag_rows == 0
    assert asked._replace(position=None).lag_rows is None


def test_a_name_with_quotes_stays_one_label() -> None:
    text = metrics_text(Progress('a "b"\\\n'))
    assert 'mayfly_pipeline_up{pipeline="a \\"b\\"\\\\\\n"} 1.0\n' in text


def test_the_file_holds_the_last_snapshot(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "calls.prom")
    file.show(Progress("calls"), is_up=True)
    file.show(STANDING, is_up=True)
    assert (tmp_path / "calls.prom").read_text() == metrics_text(STANDING)


@pytest.mark.slow
def test_the_server_answers_with_the_last_snapshot_and_nothing_else() -> None:
    with contextlib.closing(MetricsServer("127.0.0.1", 0)) as server:
        assert server.url.startswith("http://127.0.0.1:")
        for progress in (Progress("calls"), STANDING):
            server.show(progress, is_up=True)
            with urllib.request.urlopen(server.url) as answer:
                assert answer.headers["Content-Type"] == CONTENT_TYPE_PLAIN_0_0_4
                assert answer.read().decode() == metrics_text(progress)
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(server.url.replace("/metrics", "/other"))
        assert caught.value.code == 404
        caught.value.close()
        with pytest.raises(OSError, match="in use"):
            MetricsServer("127.0.0.1", int(server.url.split(":")[2].partition("/")[0]))
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(server.url)
