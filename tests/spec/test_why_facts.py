"""Sentences and steps name the cap that shortened a life, who ended it, and what met it expired."""

from __future__ import annotations

import pytest

from mayfly import QueueManager
from mayfly.engine.api.bulk import ClaimLimit
from mayfly.mqi import constants as c
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.pubsub_scene import topic
from tests.spec.scene import REPLIES, STAGING, alias, alter_manager, local
from tests.spec.test_why import AT_0, AT_1_MIN, MINUTE_MS, told

CAPS = "alias A1 caps lives at 1 min"


@pytest.fixture
def qm(queue_manager: QueueManager) -> QueueManager:
    """A queue manager with Q1, an alias that caps lives at a minute, and a reply queue."""
    local(queue_manager)
    local(queue_manager, REPLIES)
    alias(queue_manager, "A1", "Q1", CAPEXPRY=600)
    return queue_manager


def texts(qm: QueueManager, msg_id: bytes) -> list[tuple[str, str]]:
    """Return what the steps say, without the sizes and ids of puts."""
    return [(step.what, step.text) for step in qm.why(msg_id).steps]


def test_X3_a_message_that_expired_for_its_cap_says_so_and_where_its_report_is(
    qm: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    with new_session(qm, "anna") as anna, new_session(qm, "app") as app:
        msg_id = anna.put(
            "A1",
            b"x",
            time_to_live_ms=10 * MINUTE_MS,
            report=c.MQRO_EXPIRATION,
            reply_to_q=REPLIES,
        )
        clock.advance(MINUTE_MS - 1)
        assert told(qm, msg_id) == (
            f"It is on Q1 and can be got, until it expires at {AT_1_MIN}, in 1 ms."
        )
        clock.advance(1)
        assert told(qm, msg_id) == (
            f"It expired on Q1 at {AT_1_MIN} because {CAPS} and is still there: the next get, "
            f"browse or expiry scan that meets it discards it and sends the report that it owes to "
            f"{REPLIES}."
        )
        clock.advance(1)
        assert app.get("Q1") is None
        assert told(qm, msg_id) == (
            f"It expired on Q1 at {AT_1_MIN} because {CAPS}; its report is on {REPLIES}."
        )
    (_put, put), (_expired, expired), *_report = texts(qm, msg_id)
    assert put.endswith(f"expires {AT_1_MIN}, {CAPS}")
    assert expired == "discarded 2023-11-14 22:14:20.001, found by a get of app (mayfly)"


def test_D18_one_that_expired_while_it_was_delayed_names_its_cap_too(
    qm: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    with new_session(qm, "anna") as anna:
        msg_id = anna.put("A1", b"x", delay_ms=MINUTE_MS)
        clock.advance(MINUTE_MS)
    assert told(qm, msg_id) == (
        f"It expired at {AT_1_MIN}, while it waited for its delivery time, {AT_1_MIN}, "
        f"because {CAPS}; it asked for no report."
    )
    step = qm.why(msg_id).steps[-1]
    assert (step.what, step.queue) == ("expired", STAGING)
    assert step.text == f"discarded {AT_1_MIN}, found by the delay processor"


@pytest.mark.parametrize("by_scan", [False, True])
def test_E8_X9_what_met_an_expired_message_is_told(
    qm: QueueManager, clock: VirtualClock, new_session: NewSession, by_scan: bool
) -> None:
    if by_scan:
        alter_manager(qm, EXPRYINT=60)
    with new_session(qm, "anna") as anna, new_session(qm, "app") as app:
        msg_id = anna.put("Q1", b"x", time_to_live_ms=MINUTE_MS)
        clock.advance(MINUTE_MS)
        if not by_scan:
            assert list(app.browse("Q1")) == []
    detected_by = "the expiry scan" if by_scan else "a browse of app (mayfly)"
    step = qm.why(msg_id).steps[-1]
    assert step.text == f"discarded {AT_1_MIN}, found by {detected_by}"
    assert (step.user, step.program) == (("", "") if by_scan else ("app", "mayfly"))


def test_G1_who_got_it_is_told(qm: QueueManager, new_session: NewSession) -> None:
    with new_session(qm, "anna") as anna, new_session(qm, "app", transacted=True) as app:
        msg_id = anna.put("Q1", b"x")
        assert app.get("Q1") is not None
        app.backout()
        assert app.get("Q1") is not None
        app.commit()
    assert told(qm, msg_id) == (
        f"It was got from Q1 at {AT_0} by app (mayfly), 0 ms after it could first be got."
    )
    assert texts(qm, msg_id)[-1] == ("got", "by app (mayfly), backout count 1")


def test_G1_a_getter_without_a_user_is_a_program_in_the_step_alone(qm: QueueManager) -> None:
    with qm.session(program="till") as session:
        msg_id = session.put("Q1", b"x")
        session.get("Q1")
    assert told(qm, msg_id) == f"It was got from Q1 at {AT_0}, 0 ms after it could first be got."
    step = qm.why(msg_id).steps[-1]
    assert (step.what, step.text, step.user, step.program) == ("got", "", "", "till")


def test_D3_who_released_it_early_is_told(
    qm: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    with new_session(qm, "anna") as anna, new_session(qm, "boss") as boss:
        msg_id = anna.put("Q1", b"x", delay_ms=MINUTE_MS)
        boss.schedule.release(msg_id)
        clock.advance(0)
    assert ("released", "by boss") in texts(qm, msg_id)


@pytest.mark.in_process
def test_X1_each_kind_of_object_that_caps_has_its_word(
    qm: QueueManager, clock: VirtualClock
) -> None:
    topic(qm, "NEWS", "news", CAPEXPRY=600)
    qm.mqsc(
        "DEFINE SUB(S) TOPICSTR('news') DEST(Q1)\n"
        "DEFINE QLOCAL(X) USAGE(XMITQ)\n"
        "DEFINE QREMOTE(R) RNAME(Q) RQMNAME(FAR) XMITQ(X) CAPEXPRY(600)\n"
        "DEFINE QLOCAL(Q2) CAPEXPRY(600)"
    )
    with qm.session() as session:
        sent = [session.put(queue, b"x") for queue in ("R", "Q2")]
        sent.append(session.publish("news", b"x").msg_id)
        clock.advance(MINUTE_MS)
        for queue in ("X", "Q2", "Q1"):
            assert session.get(queue) is None
    sentences = [told(qm, msg_id) for msg_id in sent]
    assert [said.partition(" because ")[2] for said in sentences] == [
        "remote definition R caps lives at 1 min; it asked for no report.",
        "queue Q2 caps lives at 1 min; it asked for no report.",
        "topic object NEWS caps lives at 1 min; it asked for no report.",
    ]


def test_a_claim_that_meets_an_expired_message_and_one_that_ends_are_told(
    qm: QueueManager, clock: VirtualClock
) -> None:
    with qm.session("anna") as anna:
        late = anna.put("Q1", b"x", time_to_live_ms=MINUTE_MS, msg_id=b"late")
        clock.advance(MINUTE_MS)
        got = anna.put("Q1", b"x", msg_id=b"got")
    claims = qm.claims
    epoch = claims.attach("reader", "Q1").epoch
    claims.claim("reader", epoch, 0, ClaimLimit(10, 2**20))
    claims.end("reader", epoch, 1)
    expired, ended = (qm.why(msg_id).steps[-1] for msg_id in (late, got))
    assert expired.text == f"discarded {AT_1_MIN}, found by a claim of consumer reader"
    assert (ended.what, ended.program) == ("got", "reader")
