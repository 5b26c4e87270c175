"""What-if questions about the ledger: a replay, and advice for a listener."""

from __future__ import annotations

from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.servers.http.experiments import Experiment, ExperimentProgress
from mayfly.testing import VirtualClock
from tests.facts import wait_until
from tests.servers.http.conftest import Site, Web

QM1 = "/mayfly/v1/qmgr/QM1"


def answered(web: Web, path: str, body: dict[str, Any]) -> Any:
    """Begin an experiment, and return what is told of it when it has ended."""
    begun = web.ask("POST", path, body)
    assert (begun.status, begun.content["state"], begun.content["result"]) == (202, "running", None)
    path = f"{path}/{begun.content['id']}"
    wait_until(lambda: web.ask("GET", path).content["state"] != "running")
    return web.ask("GET", path).content


@pytest.mark.slow
def test_lives_are_replayed_under_another_cap(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with queue_manager.session() as session:
        for _ in range(3):
            session.put("Q1", b"x")
        clock.advance(500)
        assert session.get("Q1") is not None
        clock.advance(1_000)
        for _ in range(2):
            assert session.get("Q1") is not None
    told = answered(web, f"{QM1}/replay", {"settings": [{"queue": "Q1", "cap_ms": 1_000}]})
    assert (told["state"], told["error"], told["is_cut"]) == ("done", "", False)
    [queue] = told["result"]["queues"]
    assert (queue["queue"], queue["before"]["got"], queue["after"]["got"]) == ("Q1", 3, 1)
    assert queue["after"]["expired"] == 2


@pytest.mark.slow
def test_a_setting_that_makes_no_sense_is_an_answer(web: Web, queue_manager: QueueManager) -> None:
    with queue_manager.session() as session:
        session.put("Q1", b"x")
        session.get("Q1")
    told = answered(web, f"{QM1}/replay", {"settings": [{"service_ms": 5}]})
    assert (told["state"], told["result"]) == ("failed", None)
    assert "service_ms" in told["error"]


@pytest.mark.slow
def test_a_listener_is_advised(web: Web, queue_manager: QueueManager, clock: VirtualClock) -> None:
    with queue_manager.session() as session:
        for _ in range(3):
            session.put("Q1", b"x")
            clock.advance(60_000)
            session.get("Q1")
    asked = {"queue": "Q1", "longest_on_message_ms": 15_000, "receive_timeout_ms": 110_000}
    told = answered(web, f"{QM1}/advice", asked)
    assert told["state"] == "done"
    assert told["result"]["problems"] != []
    recommended = told["result"]["recommended"]
    assert recommended["receive_timeout_ms"] <= 120_000 - 15_000


def test_experiments_are_bounded_and_of_one_kind(site: Site, queue_manager: QueueManager) -> None:
    service = site.listener.service
    assert service is not None
    for state in (ExperimentProgress.RUNNING, ExperimentProgress.RUNNING, ExperimentProgress.DONE):
        one = Experiment(queue_manager.engine, "replay", [], where=None, state=state)  # type: ignore[arg-type] # it is not run
        service.experiments._known[one.number] = one
    web = site.web
    assert web.ask("POST", f"{QM1}/replay", {"settings": []}).said == (
        429,
        "two experiments run already: try again when one is done",
        None,
    )
    assert web.ask("GET", f"{QM1}/replay/{one.number}").content["state"] == "done"
    assert web.ask("GET", f"{QM1}/advice/{one.number}").status == 404
    assert web.ask("POST", f"{QM1}/replay", {"settings": [{"queue": "-x"}]}).status == 400
