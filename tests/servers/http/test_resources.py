"""Mayfly's own resources: queues, the trace of a message, the schedule, dead letters."""

from __future__ import annotations

from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.testing import VirtualClock
from tests.servers.http.conftest import ADMIN, APP, Answer, Site, Web

QM1 = "/mayfly/v1/qmgr/QM1"
SCHEDULE = f"{QM1}/schedule"


@pytest.fixture
def delayed(site: Site, queue_manager: QueueManager) -> list[str]:
    """MsgIds of four messages that are due on Q1 and Q2 after 1, 2, 3 and 4 s."""
    with queue_manager.session(user="anna") as session:
        return [
            session.put(f"Q{1 + n % 2}", b"x", delay_ms=1_000 * (n + 1)).hex() for n in range(4)
        ]


def ids(answer: Answer) -> list[str]:
    assert answer.status == 200
    return [message["msg_id"] for message in answer.content["messages"]]


# The trace of a message


def test_E10_the_story_of_a_message_that_expired_names_its_report(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with queue_manager.session(user="anna") as session:
        msg_id = session.put(
            "Q1", b"hello", time_to_live_ms=1_000, report=c.MQRO_EXPIRATION, reply_to_q="Q2"
        )
        path = f"{QM1}/messages/{msg_id.hex()}/trace"
        clock.advance(999)
        assert web.ask("GET", path).content["entries"][0]["state"] == "available"
        clock.advance(1)
        assert session.get("Q1") is None
    told = web.ask("GET", path).content
    assert told["is_known"] is True
    assert told["sentence"].endswith("and nobody had got it; its report is on Q2.")
    assert [step["what"] for step in told["steps"]] == [
        "put",
        "expired",
        "report",
        "report available",
    ]
    assert [entry["queue"] for entry in told["entries"]] == ["Q1", "Q2"]


def test_a_message_that_nobody_knows_has_a_story_that_says_so(web: Web) -> None:
    told = web.ask("GET", f"{QM1}/messages/c3/trace").content
    assert (told["is_known"], told["entries"]) == (False, [])
    assert told["sentence"].startswith("QM1 knows no message with this MsgId or CorrelId")


@pytest.mark.parametrize("identifier", ["nothex", "00", "ff" * 25])
def test_what_is_no_id_is_refused(web: Web, identifier: str) -> None:
    status, _said, reason = web.ask("GET", f"{QM1}/messages/{identifier}/trace").said
    assert (status, reason) == (400, rc.MQRC_MD_ERROR)


# The schedule


def test_delayed_messages_are_listed_page_by_page(web: Web, delayed: list[str]) -> None:
    first = web.ask("GET", f"{SCHEDULE}?limit=3")
    assert ids(first) == delayed[:3]
    assert first.content["messages"][0] | {"msg_id": "", "position": ""} == {
        "position": "",
        "msg_id": "",
        "correl_id": "00" * 24,
        "target": "Q1",
        "put_ms": first.content["messages"][0]["deliver_at_ms"] - 1_000,
        "deliver_at_ms": first.content["messages"][0]["deliver_at_ms"],
        "expire_at_ms": None,
        "priority": 0,
        "persistent": False,
        "body_bytes": 1,
        "user_identifier": "anna",
    }
    second = web.ask("GET", f"{SCHEDULE}?limit=3&after={first.content['next']}")
    assert (ids(second), second.content["next"]) == (delayed[3:], None)


def test_delayed_messages_are_found_by_queue_sender_and_time(
    web: Web, delayed: list[str], clock: VirtualClock
) -> None:
    now_ms = clock.now_ms()
    assert ids(web.ask("GET", f"{SCHEDULE}?queue=Q1")) == [delayed[0], delayed[2]]
    assert ids(web.ask("GET", f"{SCHEDULE}?sender=berta")) == []
    span = f"due_from_ms={now_ms + 2_000}&due_before_ms={now_ms + 3_000}"
    assert ids(web.ask("GET", f"{SCHEDULE}?{span}")) == [delayed[1]]


def test_D3_a_message_is_cancelled_once(
    web: Web, delayed: list[str], queue_manager: QueueManager
) -> None:
    one = f"{SCHEDULE}/{delayed[0]}"
    assert web.ask("GET", one).content["target"] == "Q1"
    answer = web.ask("POST", f"{one}/cancel")
    undo = answer.content.pop("undo")
    assert len(undo) == 16
    assert (answer.status, answer.content) == (
        200,
        {"msg_id": delayed[0], "receipt": "cancelled", "message_count": 1},
    )
    assert web.ask("GET", one).status == 404
    # As the command: that it is cancelled already is no mistake.
    assert web.ask("POST", f"{one}/cancel").content["receipt"] == "cancelled"
    assert queue_manager.counts("Q1").staged == 1
    [change] = web.ask("GET", f"{SCHEDULE}/audit?limit=1").content["changes"]
    assert (change["action"], change["msg_id"], change["user"]) == (
        "cancel",
        delayed[0],
        ADMIN[0],
    )


@pytest.mark.parametrize(
    ("action", "receipt"),
    [("cancel", "cancelled"), ("release", "released"), ("reschedule", "rescheduled")],
)
def test_D3_all_messages_of_one_msg_id_are_changed_and_counted(
    web: Web, queue_manager: QueueManager, delayed: list[str], action: str, receipt: str
) -> None:
    one = f"{SCHEDULE}/{delayed[0]}"
    with queue_manager.session() as session:
        session.put("Q2", b"of the same id", delay_ms=9_000, msg_id=delayed[0])
    seen = web.ask("GET", one)
    assert seen.content["target"] == "Q1"
    body = {"delay_ms": 5_000} if action == "reschedule" else None
    answer = web.ask("POST", f"{one}/{action}", body)
    assert (answer.status, answer.content["receipt"]) == (200, receipt)
    assert answer.content["message_count"] == 2
    waiting = [one for one in ids(web.ask("GET", SCHEDULE)) if one == delayed[0]]
    assert len(waiting) == (2 if action == "reschedule" else 0)


def test_D3_if_match_takes_one_of_several_messages_of_one_msg_id(
    web: Web, queue_manager: QueueManager, delayed: list[str]
) -> None:
    """The one that the ETag was given for: the next one due."""
    one = f"{SCHEDULE}/{delayed[0]}"
    with queue_manager.session() as session:
        session.put("Q2", b"of the same id", delay_ms=9_000, msg_id=delayed[0])
    etag = web.ask("GET", one).headers["etag"]
    answer = web.ask("POST", f"{one}/cancel", if_match=etag)
    assert (answer.status, answer.content["message_count"]) == (200, 1)
    assert web.ask("GET", one).content["target"] == "Q2"


def test_D1_a_message_that_is_released_can_be_got_at_once(
    web: Web, delayed: list[str], queue_manager: QueueManager, clock: VirtualClock
) -> None:
    assert web.ask("POST", f"{SCHEDULE}/{delayed[3]}/release").content["receipt"] == "released"
    assert queue_manager.counts("Q2").live == 1
    late = web.ask("POST", f"{SCHEDULE}/{delayed[3]}/cancel")
    assert late.said == (409, f"message {delayed[3]}: already-released", None)
    assert late.content["receipt"] == "already-released"
    unknown = web.ask("POST", f"{SCHEDULE}/{'ab' * 24}/release")
    assert (unknown.status, unknown.content["receipt"]) == (404, "unknown")


def test_D1_a_message_is_given_another_delivery_time(
    web: Web, delayed: list[str], queue_manager: QueueManager, clock: VirtualClock
) -> None:
    path = f"{SCHEDULE}/{delayed[0]}/reschedule"
    answer = web.ask("POST", path, {"delay_ms": 5_000})
    assert (answer.status, answer.content["receipt"]) == (200, "rescheduled")
    assert ids(web.ask("GET", SCHEDULE)) == [*delayed[1:], delayed[0]]
    at_ms = clock.now_ms() + 500
    assert web.ask("POST", path, {"deliver_at_ms": at_ms}).status == 200
    clock.advance(499)
    assert queue_manager.counts("Q1").live == 0
    clock.advance(1)
    assert queue_manager.counts("Q1").live == 1


def test_all_that_match_are_changed_and_a_dry_run_only_counts(
    web: Web, delayed: list[str], queue_manager: QueueManager
) -> None:
    asked: dict[str, Any] = {"action": "cancel", "where": {"queue": "Q1"}}
    assert web.ask("POST", SCHEDULE, {**asked, "dry_run": True}).content == {
        "receipt": "cancelled",
        "message_count": 2,
        "dry_run": True,
        "undo": None,
    }
    assert queue_manager.counts("Q1").staged == 2
    changed = web.ask("POST", SCHEDULE, asked).content
    assert len(changed.pop("undo")) == 16
    assert changed == {"receipt": "cancelled", "message_count": 2, "dry_run": False}
    assert (queue_manager.counts("Q1").staged, queue_manager.counts("Q2").staged) == (0, 2)
    moved = {"action": "reschedule", "where": {"sender": "anna"}, "by_ms": 60_000}
    assert web.ask("POST", SCHEDULE, moved).content["message_count"] == 2
    released = {"action": "release", "where": {}, "all": True}
    assert web.ask("POST", SCHEDULE, released).content["message_count"] == 2
    assert queue_manager.counts("Q2").live == 2


def test_D7_a_time_behind_the_expiry_of_one_message_changes_none(
    web: Web, delayed: list[str], queue_manager: QueueManager
) -> None:
    with queue_manager.session() as session:
        session.put("Q1", b"x", delay_ms=100, time_to_live_ms=1_000)
    before = web.ask("GET", SCHEDULE).content
    answer = web.ask(
        "POST", SCHEDULE, {"action": "reschedule", "where": {"queue": "Q1"}, "delay_ms": 5_000}
    )
    assert (answer.status, answer.content["reason"]) == (400, rc.MQRC_EXPIRY_ERROR)
    assert web.ask("GET", SCHEDULE).content == before


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "action None is not cancel or release or reschedule"),
        ({"action": "cancel"}, "where None is not an object"),
        ({"action": "cancel", "where": {}}, 'where is empty: {"all": true} means all delayed'),
        ({"action": "cancel", "where": {"q": "Q1"}}, "where 'q' is not one of queue, sender"),
        ({"action": "cancel", "where": {"queue": 1}}, "where {'queue': 1} is not a filter"),
        ({"action": "cancel", "where": {"due_from_ms": "1"}}, "due_from_ms is '1': it is a whole"),
        ({"action": "cancel", "where": {"queue": "Q1"}, "dry_run": 1}, "dry_run 1 is not true or"),
        ({"action": "reschedule", "where": {"queue": "Q1"}}, "the body has not one of delay_ms"),
        (
            {"action": "reschedule", "where": {"queue": "Q1"}, "delay_ms": 1, "by_ms": 1},
            "the body has not one of delay_ms",
        ),
        (
            {"action": "cancel", "where": {"queue": "Q1"}, "delay_ms": 1},
            "action 'cancel' is not reschedule, and a time is given",
        ),
    ],
)
def test_a_wrong_change_of_many_is_refused_and_nothing_changes(
    web: Web, delayed: list[str], queue_manager: QueueManager, body: object, said: str
) -> None:
    status, detail, _reason = web.ask("POST", SCHEDULE, body).said
    assert status == 400
    assert detail.startswith(said)
    assert queue_manager.counts("Q1").staged == 2


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("limit=0", "limit '0' is not a whole number from 1 to 1000"),
        ("limit=1001", "limit '1001' is not a whole number from 1 to 1000"),
        ("limit=1&limit=2", "query parameter 'limit' is given twice"),
        ("due_from_ms=-1", "due_from_ms '-1' is not a whole number from 0 to 4398046511103"),
        ("after=x", "after 'x' is not a position of the schedule"),
        (f"after={2**63}", f"after '{2**63}' is not a position of the schedule"),
        ("colour=red", "query parameter 'colour' is none of queue, sender"),
    ],
)
def test_a_wrong_query_is_refused(web: Web, query: str, said: str) -> None:
    status, detail, _reason = web.ask("GET", f"{SCHEDULE}?{query}").said
    assert status == 400
    assert detail.startswith(said)


def test_D24_a_change_is_made_only_of_what_its_sender_has_seen(
    web: Web, delayed: list[str], queue_manager: QueueManager
) -> None:
    path = f"{SCHEDULE}/{delayed[0]}"
    seen = web.ask("GET", path)
    etag = seen.headers["etag"]
    moved = web.ask("POST", f"{path}/reschedule", {"delay_ms": 9_000}, if_match=etag)
    assert moved.content["receipt"] == "rescheduled"
    assert web.ask("GET", path, if_none_match=etag).status == 200
    for word in ("cancel", "release"):
        refused = web.ask("POST", f"{path}/{word}", if_match=etag)
        now = web.ask("GET", path).headers["etag"]
        assert refused.said == (412, f"If-Match is {etag}; the ETag is {now}", None)
        assert now != etag
        assert web.ask("GET", path, if_none_match=f"{etag}, {now}").status == 304
    assert web.ask("GET", path).content["deliver_at_ms"] == seen.content["deliver_at_ms"] + 8_000
    assert web.ask("POST", f"{path}/cancel", if_match=f'{now}, "x"').status == 200
    assert web.ask("GET", path).status == 404
    again = web.ask("POST", f"{path}/cancel", if_match=etag)
    assert (again.status, again.content["receipt"]) == (200, "cancelled")
    assert web.ask("POST", f"{SCHEDULE}/{delayed[1]}/cancel", if_match="*").status == 200
    assert web.ask("POST", f"{SCHEDULE}/{delayed[2]}/cancel").status == 200


def test_D24_a_message_that_was_rescheduled_is_not_at_its_position_any_more(
    queue_manager: QueueManager,
) -> None:
    """Also when that happens behind the back of one who has just looked."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    with queue_manager.session() as session:
        msg_id = session.put("Q1", b"x", delay_ms=1_000)
        seen = session.schedule.show(msg_id)
        assert seen is not None
        at_first = session.schedule.at(seen.position)
        assert session.schedule.reschedule(msg_id, delay_ms=5_000) == "rescheduled"
        for change in (at_first.cancel, at_first.release):
            with pytest.raises(MQError) as raised:
                change(msg_id)
            assert raised.value.reason == rc.MQRC_OBJECT_CHANGED
        now = session.schedule.show(msg_id)
        assert now is not None
        assert session.schedule.at(now.position).cancel(msg_id) == "cancelled"


def test_the_audit_is_listed_page_by_page_the_newest_first(web: Web, delayed: list[str]) -> None:
    for msg_id in delayed:
        web.ask("POST", f"{SCHEDULE}/{msg_id}/cancel")
    first = web.ask("GET", f"{SCHEDULE}/audit?limit=3").content
    second = web.ask("GET", f"{SCHEDULE}/audit?limit=3&after={first['next']}").content
    found = [change["msg_id"] for page in (first, second) for change in page["changes"]]
    assert (found, second["next"]) == (delayed[::-1], None)


# Queues


def test_E8_queues_are_shown_by_where_their_messages_stand(
    web: Web, delayed: list[str], queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with queue_manager.session() as session:
        session.put("Q1", b"x", time_to_live_ms=500)
        session.put("Q1", b"y")
        clock.advance(500)
    shown = web.ask("GET", f"{QM1}/queues/Q1").content
    assert shown["present"] == {
        "staged": 2,
        "live": 1,
        "uncommitted": 0,
        "locked": 0,
        "expired_present": 1,
    }
    assert (shown["depth"], shown["oldest_age_ms"], shown["puts"]) == (2, 500, 2)
    with queue_manager.session() as session:
        session.get("Q1")
    listed = web.ask("GET", f"{QM1}/queues").content
    [first] = [queue for queue in listed["queues"] if queue["name"] == "Q1"]
    assert first["ended"] == {"got": 1, "expired": 1}
    assert listed["next_due_ms"] - listed["now_ms"] == 500
    few = web.ask("GET", f"{QM1}/queues?limit=1").content
    assert [queue["name"] for queue in few["queues"]] == ["Q1"]
    assert few["others"]["depth"] == sum(queue["depth"] for queue in listed["queues"][1:])


def test_queues_are_listed_page_by_page(web: Web, queue_manager: QueueManager) -> None:
    assert queue_manager.mqsc("\n".join(f"DEFINE QLOCAL(P{n})" for n in range(4))).ok
    every = [queue["name"] for queue in web.ask("GET", f"{QM1}/queues").content["queues"]]
    assert web.ask("GET", f"{QM1}/queues").content["next"] is None
    found = list[str]()
    page: dict[str, Any] = {"next": ""}
    while page["next"] is not None:
        page = web.ask("GET", f"{QM1}/queues?limit=3&after={page['next']}").content
        assert len(page["queues"]) <= 3
        found += [queue["name"] for queue in page["queues"]]
    assert found == every


def test_a_queue_is_shown_by_a_name_with_a_slash_and_one_that_is_none_is_not_found(
    web: Web, queue_manager: QueueManager
) -> None:
    assert queue_manager.mqsc("DEFINE QLOCAL('A/B')\nDEFINE QALIAS(AL) TARGET(Q1)").ok
    assert web.ask("GET", f"{QM1}/queues/A%2FB").content["name"] == "A/B"
    for name in ("NONE", "AL"):
        assert web.ask("GET", f"{QM1}/queues/{name}").status == 404


# Dead letters


@pytest.fixture
def dead(site: Site, queue_manager: QueueManager, clock: VirtualClock) -> list[str]:
    """MsgIds of two delayed messages that found Q1 and Q2 full."""
    script = """ALTER QMGR DEADQ(DLQ)
        DEFINE QLOCAL(DLQ)
        ALTER QLOCAL(Q1) MAXDEPTH(0)
        ALTER QLOCAL(Q2) MAXDEPTH(0)"""
    with queue_manager.session() as session:
        put = [session.put(name, b"late", delay_ms=1_000).hex() for name in ("Q1", "Q2")]
        assert queue_manager.mqsc(script).ok
        clock.advance(1_000)
    return put


def test_Q1_dead_letters_are_listed_with_reason_and_queue(web: Web, dead: list[str]) -> None:
    found = web.ask("GET", f"{QM1}/dead-letters").content
    assert found["queue"] == "DLQ"
    told = [(one["msg_id"], one["reason"], one["queue"], one["age_ms"]) for one in found["letters"]]
    assert told == [
        (dead[0], rc.MQRC_Q_FULL, "Q1", 0),
        (dead[1], rc.MQRC_Q_FULL, "Q2", 0),
    ]
    first = web.ask("GET", f"{QM1}/dead-letters?limit=1").content
    assert [one["msg_id"] for one in first["letters"]] == dead[:1]
    second = web.ask("GET", f"{QM1}/dead-letters?limit=2&after={first['next']}").content
    assert ([one["msg_id"] for one in second["letters"]], second["next"]) == (dead[1:], None)
    wrong = web.ask("GET", f"{QM1}/dead-letters?after=x")
    assert wrong.said == (400, "after 'x' is not a place on a queue", None)


def test_Q2_dead_letters_go_back_to_their_queues(
    web: Web, dead: list[str], queue_manager: QueueManager
) -> None:
    path = f"{QM1}/dead-letters"
    refused = web.ask("POST", path, {"action": "redrive"}).content
    assert (refused["redriven"], refused["failures"]) == (0, {"MQRC_Q_FULL": 2})
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) MAXDEPTH(9)\nALTER QLOCAL(Q2) MAXDEPTH(9)").ok
    chosen = {"action": "redrive", "where": "DESTQ(Q2)"}
    foreseen = web.ask("POST", path, {**chosen, "dry_run": True}).content
    assert (foreseen["redriven"], foreseen["left"], foreseen["dry_run"]) == (1, 1, True)
    assert (queue_manager.counts("Q2").live, queue_manager.counts("DLQ").live) == (0, 2)
    assert web.ask("POST", path, chosen).content["redriven"] == 1
    assert (queue_manager.counts("Q1").live, queue_manager.counts("Q2").live) == (0, 1)
    assert [one["msg_id"] for one in web.ask("GET", path).content["letters"]] == [dead[0]]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "action None is not redrive"),
        ({"action": "redrive", "queue": 1}, "queue 1 is not a text"),
        ({"action": "redrive", "where": "REASON("}, "where 'REASON(': "),
    ],
)
def test_a_wrong_redrive_is_refused(web: Web, dead: list[str], body: object, said: str) -> None:
    status, detail, _reason = web.ask("POST", f"{QM1}/dead-letters", body).said
    assert status == 400
    assert detail.startswith(said)
    assert len(web.ask("GET", f"{QM1}/dead-letters").content["letters"]) == len(dead)


def test_a_queue_manager_without_a_dead_letter_queue_says_so(
    web: Web, queue_manager: QueueManager
) -> None:
    assert queue_manager.mqsc("ALTER QMGR DEADQ(' ')").ok
    answer = web.ask("GET", f"{QM1}/dead-letters")
    assert answer.said == (
        404,
        "DEADQ of QM1 is blank and no queue is named",
        rc.MQRC_UNKNOWN_OBJECT_NAME,
    )


def test_a_queue_manager_that_is_not_served_has_no_resources(web: Web) -> None:
    assert web.ask("GET", "/mayfly/v1/qmgr/QM2/schedule").status == 404


def test_resources_are_for_administrators(guarded: Web) -> None:
    for method, path in (
        ("GET", SCHEDULE),
        ("POST", f"{SCHEDULE}/ab/cancel"),
        ("GET", f"{QM1}/messages/ab/trace"),
        ("GET", f"{QM1}/queues"),
        ("GET", f"{QM1}/dead-letters"),
    ):
        assert guarded.ask(method, path, user=None).status == 401
        assert guarded.ask(method, path, user=APP).status == 401
    assert guarded.ask("GET", SCHEDULE).status == 200
