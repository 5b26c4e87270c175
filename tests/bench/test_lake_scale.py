"""The lakes of bench.lake_scale: complete, with as many lives as asked for, each a flight's."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.lake_scale import asked, write_lives
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.pipeline.lake.answers import ledger_report
from mayfly.pipeline.lake.check import check_lake


@pytest.mark.soak
def test_a_made_lake_is_proved_and_has_two_lives_for_each_call(tmp_path: Path) -> None:
    write_lives(tmp_path, 20)
    found = check_lake(tmp_path)
    assert found.texts == []
    assert found.rows == 20 + found.balances
    reports = {report.queue: report for report in ledger_report(tmp_path)}
    assert reports[STAGING_QUEUE].outcomes["released"] == 10
    boarded = [report for queue, report in reports.items() if queue.startswith("BOARDING.")]
    assert sum(report.outcomes["got"] + report.outcomes["expired"] for report in boarded) == 10
    assert asked("verify", tmp_path).peak_mb > 0
