"""Servers of a fleet: which are named, who may read from where, what a summary holds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.servers.http.application import POLICY
from mayfly.testing import VirtualClock
from tests.connection.serving import AdmitEverybody
from tests.servers.http.conftest import Site, Web, listening

FLEET = {"north": "https://north.example.com:9443", "south": "http://127.0.0.1:9080"}


@pytest.fixture
def site(queue_manager: QueueManager) -> Iterator[Site]:
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    everybody = AdmitEverybody(operators=frozenset({"admin"}))
    yield from listening(queue_manager, admission=everybody, fleet=FLEET)


def test_the_servers_of_a_fleet_are_named(web: Web) -> None:
    assert web.ask("GET", "/mayfly/v1/fleet").content == {"servers": FLEET}
    policy = web.ask("GET", "/console/", user=None).headers["content-security-policy"]
    asked = f"connect-src 'self' {' '.join(FLEET.values())};"
    assert policy == POLICY.replace("connect-src 'self';", asked)


def test_a_page_of_the_fleet_may_read_and_no_other(web: Web) -> None:
    path = "/mayfly/v1/qmgr/QM1/summary"
    for origin, allowed in ((FLEET["south"], FLEET["south"]), ("https://elsewhere.example", None)):
        answer = web.ask("GET", path, origin=origin)
        assert answer.headers.get("access-control-allow-origin") == allowed
        credentials = answer.headers.get("access-control-allow-credentials")
        assert credentials == ("true" if allowed else None)
        # Nothing but a question: a browser sends no change from there.
        asked = {"access-control-request-method": "POST"}
        before = web.ask("OPTIONS", "/anything", user=None, origin=origin, **asked)
        assert before.status in (400, 401, 404, 405)
        assert "POST" not in before.headers.get("access-control-allow-methods", "")


def test_a_summary_has_what_is_there_now_and_what_expired_this_week(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with queue_manager.session() as session:
        session.put("Q1", b"x", time_to_live_ms=1_000)
        clock.advance(2_000)
        assert session.get("Q1") is None
        session.put("Q1", b"x", time_to_live_ms=1_000)
        session.put("Q1", b"x")
        session.put("Q1", b"x", delay_ms=3_600_000)
        clock.advance(20_000)
    found = web.ask("GET", "/mayfly/v1/qmgr/QM1/summary").content
    assert found == {
        "name": "QM1",
        "state": "ready",
        "now_ms": clock.now_ms(),
        "depth": 2,
        "delayed": 1,
        "dead_letters": 0,
        "expired_present": 1,
        "oldest_age_ms": 20_000,
        "expired_count": 1,
        "ended_count": 1,
        "replica": None,
    }
