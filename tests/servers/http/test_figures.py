"""Figures over time, and hours in which messages expire, as resources."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.cli.lake_engine import LakeArchive
from mayfly.lifetime.life import State
from mayfly.testing import VirtualClock
from tests.bulk.books import START_MS, life
from tests.servers.http.conftest import Web
from tests.spark.lakes import write_lake

FIGURES = "/mayfly/v1/qmgr/QM1/figures"
HOURS = "/mayfly/v1/qmgr/QM1/ledger/hours"
HOUR_MS = 3_600_000


def test_figures_over_time_are_told_of_all_queues_and_of_one(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    start_ms = clock.now_ms()
    step_ms = start_ms - start_ms % 10_000
    with queue_manager.session() as session:
        session.put("Q1", b"x", time_to_live_ms=1_000)
        session.put("Q2", b"x", delay_ms=2_000)
        clock.advance(3_000)
        assert session.get("Q1") is None
        clock.advance(step_ms + 10_000 - clock.now_ms())
    found = web.ask("GET", FIGURES).content
    now_ms = clock.now_ms()
    assert (found["now_ms"], found["from_ms"], found["step_ms"]) == (
        now_ms,
        now_ms - HOUR_MS,
        10_000,
    )
    [step] = found["steps"]
    assert step == {
        "start_ms": step_ms,
        "covered_ms": now_ms - start_ms,
        "put_count": 2,
        "got_count": 0,
        "expired_count": 1,
        "ended_count": 1,
        "depth": 1,
        "delayed": 0,
        "oldest_age_ms": now_ms - start_ms,
        "released_count": 1,
        "release_lateness_ms": 0.0,
        "discarded_count": 1,
        "discard_lateness_ms": 2_000.0,
    }
    [of_queue] = web.ask("GET", f"{FIGURES}?over=week&queue=Q1").content["steps"]
    assert (of_queue["expired_count"], of_queue["depth"]) == (1, 0)
    assert of_queue["release_lateness_ms"] is None
    [unknown] = web.ask("GET", f"{FIGURES}?over=day&queue=NONE").content["steps"]
    assert unknown["put_count"] == 0
    totals = web.ask("GET", f"{FIGURES}/queues?over=hour&limit=1").content["queues"]
    assert [(one["name"], one["expired_count"], one["put_count"]) for one in totals] == [
        ("Q1", 1, 1)
    ]


def test_a_wrong_span_is_refused(web: Web) -> None:
    status, said, _reason = web.ask("GET", f"{FIGURES}?over=year").said
    assert status == 400
    assert "year" in said
    status, said, _reason = web.ask("GET", f"{HOURS}?from_ms=0&hours=8786").said
    assert (status, said) == (400, "hours '8786' is not a whole number from 1 to 8785")


def test_hours_of_expiry_are_those_of_the_deadlines(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    start_ms = clock.now_ms()
    with queue_manager.session() as session:
        session.put("Q1", b"x", time_to_live_ms=HOUR_MS)
        session.put("Q1", b"x", time_to_live_ms=HOUR_MS - 1)
        session.put("Q1", b"x", delay_ms=HOUR_MS)
        session.put("Q2", b"x")
        clock.advance(3 * HOUR_MS + 1)
        assert session.get("Q1") is not None
        assert session.get("Q2") is not None
    asked = f"{HOURS}?from_ms={start_ms}&hours=4"
    found = web.ask("GET", asked).content
    assert (found["expired"], found["ended"]) == ([1, 1, 0, 0], [1, 1, 0, 2])
    assert (found["from_ms"], found["is_cut"]) == (start_ms, False)
    assert web.ask("GET", f"{asked}&queue=Q2").content["ended"] == [0, 0, 0, 1]
    # Later than the first hour that is asked for, and before it.
    later = f"{HOURS}?from_ms={start_ms + HOUR_MS}&hours=1&queue=Q1"
    assert web.ask("GET", later).content["expired"] == [1]
    assert web.ask("GET", f"{HOURS}?from_ms={start_ms + HOUR_MS + 1}").content["expired"][0] == 0


def test_hours_of_expiry_come_from_a_lake_too(
    web: Web, queue_manager: QueueManager, tmp_path: Path
) -> None:
    assert web.ask("GET", f"{HOURS}?from_ms=0").content["lake"] is None
    asked = f"{HOURS}?from_ms={START_MS}&hours=2&source=lake"
    status, said, _reason = web.ask("GET", asked).said
    assert (status, said) == (400, "source 'lake': QM1 has no lake in the file of the server")
    pytest.importorskip("duckdb")
    lake = tmp_path / "lake"
    queue_manager.traces.archives.append(LakeArchive(lake))
    status, said, _reason = web.ask("GET", asked).said
    assert (status, said) == (
        503,
        f"lake {lake} cannot be read: there is no lake at {lake}",
    )
    lake.mkdir()
    expired = life(1, outcome=State.EXPIRED, expire_at_ms=START_MS + HOUR_MS)
    write_lake(lake, [expired, life(2), life(3, queue="Q2")])
    found = web.ask("GET", f"{asked}&queue=Q1").content
    assert (found["ended"], found["expired"]) == ([1, 1], [0, 1])
    assert (found["lake"], found["is_cut"]) == (f"lake {lake}", False)
    assert web.ask("GET", f"{HOURS}?from_ms={START_MS}&hours=2").content["ended"] == [0, 0]
