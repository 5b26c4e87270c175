"""The ledger and expired messages as resources."""

from __future__ import annotations

from mayfly import QueueManager
from mayfly.testing import VirtualClock
from tests.servers.http.conftest import Web

QM1 = "/mayfly/v1/qmgr/QM1"


def test_ended_lives_are_listed_page_by_page_and_counted(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    start_ms = clock.now_ms()
    with queue_manager.session(user="anna", program="till") as session:
        ids = [session.put("Q1", b"hello", time_to_live_ms=1_000).hex() for _ in range(2)]
        clock.advance(400)
        assert session.get("Q1") is not None
        clock.advance(600)
        assert session.get("Q1") is None
    first = web.ask("GET", f"{QM1}/ledger?limit=1").content
    [life] = first["lives"]
    assert life == {
        "position": life["position"],
        "queue": "Q1",
        "msg_id": ids[1],
        "correl_id": "",
        "origin_id": None,
        "put_ms": start_ms,
        "deliver_at_ms": start_ms,
        "expire_at_ms": start_ms + 1_000,
        "ended_ms": start_ms + 1_000,
        "outcome": "expired",
        "reason": 0,
        "reason_name": None,
        "priority": 0,
        "persistent": False,
        "body_bytes": 5,
        "report": 0,
        "reply_to_q": "",
        "backout_count": 0,
        "user_identifier": "anna",
        "capped_by": None,
        "detected_by": "get",
        "ended_by": "anna",
        "ended_program": "till",
    }
    assert first["next"] == str(life["position"])
    second = web.ask("GET", f"{QM1}/ledger?limit=1&after={first['next']}").content
    assert [one["msg_id"] for one in second["lives"]] == [ids[0]]
    by_id = web.ask("GET", f"{QM1}/ledger?id={ids[0]}").content
    assert ([one["outcome"] for one in by_id["lives"]], by_id["next"]) == (["got"], None)
    span = f"from_ms={start_ms + 500}&before_ms={start_ms + 2_000}"
    summary = web.ask("GET", f"{QM1}/ledger/summary?{span}").content
    assert summary["counts"] == [{"queue": "Q1", "outcome": "expired", "count": 1}]
    assert (summary["others"], summary["is_cut"]) == (0, False)


def test_E12_expired_messages_are_told_before_and_after_they_are_met(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    start_ms = clock.now_ms()
    with queue_manager.session() as session:
        session.put("Q1", b"x", time_to_live_ms=10)
        clock.advance(50)
        assert web.ask("GET", f"{QM1}/expired").content == {
            "now_ms": start_ms + 50,
            "present": [{"queue": "Q1", "message_count": 1, "oldest_deadline_ms": start_ms + 10}],
            "latest": [],
        }
        assert session.get("Q1") is None
    met = web.ask("GET", f"{QM1}/expired").content
    assert met["present"] == []
    assert [(one["queue"], one["detected_by"]) for one in met["latest"]] == [("Q1", "get")]
    assert web.ask("GET", f"{QM1}/expired?limit=0").content["latest"] == []


def test_a_wrong_question_to_the_ledger_is_refused(web: Web) -> None:
    for query, said in (
        ("from_ms=2&before_ms=1", "from_ms 2 is behind before_ms 1"),
        ("id=xyz", "id 'xyz' is not 1 to 24 bytes in hexadecimal"),
        ("limit=0", "limit '0' is not a whole number from 1 to 1000"),
    ):
        assert web.ask("GET", f"{QM1}/ledger?{query}").said == (400, said, None)
