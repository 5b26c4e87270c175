"""The timeline of delayed messages as a resource."""

from __future__ import annotations

from mayfly import QueueManager
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.servers.http.conftest import Web

TIMELINE = "/mayfly/v1/qmgr/QM1/schedule/timeline"


def test_D26_a_timeline_is_told_and_can_be_zoomed(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    start_ms = clock.now_ms()
    with queue_manager.session() as session:
        for n in range(10):
            session.put(f"Q{1 + n % 2}", b"x", delay_ms=1_000 * (n + 1))
    whole = web.ask("GET", f"{TIMELINE}?steps=3").content
    assert whole == {
        "now_ms": start_ms,
        "from_ms": start_ms + 1_000,
        "before_ms": start_ms + 10_001,
        "step_ms": 3_001,
        "counts": [4, 3, 3],
        "earlier": 0,
        "later": 0,
        "first_due_ms": start_ms + 1_000,
        "last_due_ms": start_ms + 10_000,
    }
    zoomed = f"from_ms={start_ms + 2_000}&before_ms={start_ms + 4_000}&steps=2000&queue=Q1"
    part = web.ask("GET", f"{TIMELINE}?{zoomed}").content
    assert (part["step_ms"], len(part["counts"]), sum(part["counts"])) == (1, 2_000, 1)
    assert (part["counts"][1_000], part["earlier"], part["later"]) == (1, 1, 3)


def test_a_wrong_timeline_is_refused(web: Web) -> None:
    for query, said in (
        ("steps=0", "steps '0' is not a whole number from 1 to 2000"),
        ("steps=2001", "steps '2001' is not a whole number from 1 to 2000"),
        ("from_ms=2&before_ms=1", "from_ms 2 is behind before_ms 1"),
    ):
        assert web.ask("GET", f"{TIMELINE}?{query}").said == (400, said, None)
    status, _said, reason = web.ask("GET", f"{TIMELINE}?queue=NONE").said
    assert (status, reason) == (404, rc.MQRC_UNKNOWN_OBJECT_NAME)
