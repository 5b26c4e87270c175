"""What refuses a delayed put, rules D7, D11, D13, D14, D19, D31."""

import re
from functools import partial
from pathlib import Path

import pytest

from mayfly import MQError, QueueManager
from mayfly.engine import Session
from mayfly.engine.api.administration import alter_topic
from mayfly.engine.api.programs import inquire
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.pubsub_scene import BASE, available_only, topic
from tests.spec.scene import (
    STAGING,
    alias,
    alter,
    body,
    local,
    refused,
)

CSQ4INSG = Path(__file__).parents[2] / "examples/zos/CSQ4INSG.mqsc"


@pytest.mark.parametrize(("life_ms", "is_taken"), [(4_999, False), (5_000, True), (5_001, True)])
def test_D7_life_shorter_than_the_delay_is_refused(
    queue_manager: QueueManager, session: Session, life_ms: int, is_taken: bool
) -> None:
    """Equal is allowed."""
    local(queue_manager)
    if is_taken:
        session.put("Q1", b"x", time_to_live_ms=life_ms, delay_ms=5_000)
    else:
        with refused(rc.MQRC_EXPIRY_ERROR):
            session.put("Q1", b"x", time_to_live_ms=life_ms, delay_ms=5_000)
    assert queue_manager.curdepth(STAGING) == int(is_taken)


def test_D14_staging_queue_is_default_on_distributed_and_must_be_defined_on_zos(
    clock: VirtualClock,
    new_session: NewSession,
) -> None:
    with QueueManager("ZQM", clock=clock, platform="zos") as qm, new_session(qm) as session:
        local(qm)
        with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
            session.put("Q1", b"x", delay_ms=1)
        local(qm, STAGING, INDXTYPE=c.MQIT_NONE, MSGDLVSQ=c.MQMDS_FIFO)
        session.put("Q1", b"x", delay_ms=1)
        clock.advance(1)
        assert body(session.get("Q1")) == b"x"
        assert qm.verify().ok


def test_D14_the_definition_for_zos_that_ships_is_one_that_zos_takes(
    clock: VirtualClock, new_session: NewSession
) -> None:
    """``examples/zos/CSQ4INSG.mqsc``: delayed messages as long as the queue manager allows pass."""
    longest = 104_857_600 - 208
    with QueueManager("ZQM", clock=clock, platform="zos") as qm, new_session(qm) as session:
        local(qm, MAXMSGL=104_857_600)
        assert qm.mqsc("ALTER QMGR MAXMSGL(104857600)").ok
        result = qm.mqsc(CSQ4INSG.read_text("utf-8"))
        assert result.ok, result.text
        (shown,) = qm.mqsc(f"DISPLAY QLOCAL({STAGING}) ALL").rows
        assert (shown["INDXTYPE"], shown["MSGDLVSQ"]) == ("NONE", "FIFO")
        assert shown["STGCLASS"] == "DEFAULT"
        (status,) = qm.mqsc(f"DISPLAY QSTATUS({STAGING}) DDELAY").rows
        assert status["DDELAY"] == "RUNNING"
        session.put("Q1", bytes(longest), delay_ms=1)
        with refused(rc.MQRC_MSG_TOO_BIG_FOR_Q):
            session.put("Q1", bytes(longest + 1), delay_ms=1)
        clock.advance(1)
        message = session.get("Q1")
        assert message is not None
        assert len(message.body) == longest


@pytest.mark.in_process
@pytest.mark.parametrize("platform", ["distributed", "zos"])
def test_D14_STGCLASS_is_kept_and_shown(
    clock: VirtualClock, platform: str, new_session: NewSession
) -> None:
    with QueueManager("ZQM", clock=clock, platform=platform) as qm, new_session(qm) as session:
        assert qm.mqsc("DEFINE QLOCAL(Q1) STGCLASS(PS01)\nDEFINE QLOCAL(Q2)").ok
        rows = qm.mqsc("DISPLAY QLOCAL(Q*) STGCLASS").rows
        assert [row["STGCLASS"] for row in rows] == ["PS01", "DEFAULT"]
        assert not qm.mqsc("ALTER QLOCAL(Q1) STGCLASS(NINECHARS)").ok
        handle = session.open("Q1", c.MQOO_INQUIRE)
        assert inquire(qm.engine, handle, [c.MQCA_STORAGE_CLASS]).values == ["PS01"]


@pytest.mark.parametrize(
    ("attribute", "value", "reason"),
    [
        ("PUT", c.MQQA_PUT_INHIBITED, rc.MQRC_PUT_INHIBITED),
        ("MAXDEPTH", 0, rc.MQRC_Q_FULL),
        ("MAXMSGL", 208, rc.MQRC_MSG_TOO_BIG_FOR_Q),
    ],
)
def test_D11_D14_trouble_of_the_staging_queue_reaches_the_sender(
    queue_manager: QueueManager, session: Session, attribute: str, value: int, reason: int
) -> None:
    local(queue_manager)
    alter(queue_manager, STAGING, **{attribute: value})
    with refused(reason):
        session.put("Q1", b"x", delay_ms=1_000)
    assert queue_manager.curdepth(STAGING) == 0
    session.put("Q1", b"at once")


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"PUT": c.MQQA_PUT_INHIBITED}, rc.MQRC_PUT_INHIBITED),
        ({"MAXMSGL": 3}, rc.MQRC_MSG_TOO_BIG_FOR_Q),
        ({"MAXDEPTH": 0}, rc.MQRC_Q_FULL),
    ],
)
def test_D19_target_is_checked_at_the_send(
    queue_manager: QueueManager, session: Session, attributes: dict[str, int], reason: int
) -> None:
    local(queue_manager)
    alter(queue_manager, "Q1", **attributes)
    with refused(reason):
        session.put("Q1", b"data", delay_ms=1_000)
    assert queue_manager.curdepth(STAGING) == 0


def test_D19_where_staging_queue_and_target_refuse_the_error_names_both(
    queue_manager: QueueManager, session: Session
) -> None:
    """The reason is that of the target (seed 002: the error may apply to both)."""
    local(queue_manager, PUT=c.MQQA_PUT_INHIBITED)
    alter(queue_manager, STAGING, MAXDEPTH=0)
    with pytest.raises(MQError) as both:
        session.put("Q1", b"data", delay_ms=1_000)
    assert both.value.reason == rc.MQRC_PUT_INHIBITED
    assert both.value.detail == (
        "PUT(DISABLED) on the way to Q1; the staging queue refuses it, too: "
        f"MQRC_Q_FULL (2053): {STAGING} holds MAXDEPTH(0)"
    )
    alter(queue_manager, STAGING, MAXDEPTH=1)
    with pytest.raises(MQError) as one:
        session.put("Q1", b"data", delay_ms=1_000)
    assert (one.value.reason, one.value.detail) == (
        rc.MQRC_PUT_INHIBITED,
        "PUT(DISABLED) on the way to Q1",
    )
    alter(queue_manager, "Q1", PUT=c.MQQA_PUT_ALLOWED)
    session.put("Q1", b"data", delay_ms=1_000)


def test_D19_unknown_target_is_refused_at_the_send(
    queue_manager: QueueManager, session: Session
) -> None:
    with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        session.put("NOBODY", b"data", delay_ms=1_000)
    assert queue_manager.curdepth(STAGING) == 0


DELAYED = "delay_ms 5001 is longer than the lifetime of {} ms"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("ALTER QLOCAL(Q1) CAPEXPRY(50)", "5000 ms, which is CAPEXPRY(50) of QLOCAL(Q1)"),
        ("ALTER QALIAS(A1) CAPEXPRY(40)", "4000 ms, which is CAPEXPRY(40) of QALIAS(A1)"),
        (
            "ALTER QALIAS(A1) CAPEXPRY(40)\nALTER QLOCAL(Q1) CUSTOM('CAPEXPRY(30)')",
            "3000 ms, which is CAPEXPRY(30) of QLOCAL(Q1)",
        ),
        ("ALTER QALIAS(A1) CAPEXPRY(20)\nALTER QLOCAL(Q1) CAPEXPRY(50)", "QALIAS(A1)"),
    ],
)
@pytest.mark.parametrize("life_ms", [None, 5_001, 60_000])
def test_D31_the_error_names_the_object_whose_cap_it_is(
    queue_manager: QueueManager, session: Session, script: str, said: str, life_ms: int | None
) -> None:
    local(queue_manager)
    alias(queue_manager, "A1", "Q1")
    assert queue_manager.mqsc(script).ok
    with pytest.raises(MQError) as caught:
        session.put("A1", b"x", delay_ms=5_001, time_to_live_ms=life_ms)
    assert caught.value.reason == rc.MQRC_EXPIRY_ERROR
    assert caught.value.detail.endswith(said)


def test_D31_a_life_below_every_cap_is_nobody_else_s(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager, CAPEXPRY=50)
    with pytest.raises(MQError) as caught:
        session.put("Q1", b"x", delay_ms=5_001, time_to_live_ms=5_000)
    assert caught.value.detail == DELAYED.format(5_000)


def test_D31_the_error_names_the_remote_queue_or_the_transmission_queue(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager, "QM2", USAGE=c.MQUS_TRANSMISSION, CAPEXPRY=50)
    definition = "DEFINE QREMOTE(R1) RNAME(Q9) RQMNAME(QM2) XMITQ(QM2)"
    assert queue_manager.mqsc(definition).ok
    for name, said in (("R1", "CAPEXPRY(50) of QLOCAL(QM2)"), ("Q9@QM2", "of QLOCAL(QM2)")):
        with pytest.raises(MQError, match=re.escape(said)):
            session.put(name, b"x", delay_ms=5_001)
    assert queue_manager.mqsc("ALTER QREMOTE(R1) CAPEXPRY(10)").ok
    with pytest.raises(MQError, match=re.escape("CAPEXPRY(10) of QREMOTE(R1)")):
        session.put("R1", b"x", delay_ms=5_001)


@pytest.mark.parametrize(
    ("string", "through", "said"),
    [
        ("a/b", "", "5000 ms, which is CAPEXPRY(50) of TOPIC(A)"),
        ("a/low/x", "", "2000 ms, which is CAPEXPRY(20) of TOPIC(LOW)"),
        ("other", "", "6000 ms, which is CAPEXPRY(60) of TOPIC(SYSTEM.BASE.TOPIC)"),
        ("", "SLOW", "5000 ms, which is CAPEXPRY(50) of TOPIC(A)"),
        ("", "FAST", "1000 ms, which is CAPEXPRY(10) of QALIAS(FAST)"),
    ],
)
def test_D31_the_error_names_the_topic_object_or_its_alias(
    queue_manager: QueueManager, session: Session, string: str, through: str, said: str
) -> None:
    """The nearest topic object that gives a cap, however far above the topic string."""
    available_only(queue_manager)
    topic(queue_manager, "A", "a", CAPEXPRY=50)
    topic(queue_manager, "LOW", "a/low", CAPEXPRY=20)
    alter_topic(queue_manager.engine, BASE, {"CAPEXPRY": 60})
    alias(queue_manager, "SLOW", "A", TARGTYPE=c.MQOT_TOPIC, CAPEXPRY=50)
    alias(queue_manager, "FAST", "A", TARGTYPE=c.MQOT_TOPIC, CAPEXPRY=10)
    send = partial(session.put, through) if through else partial(session.publish, string)
    with pytest.raises(MQError) as caught:
        send(b"x", delay_ms=6_001)
    assert caught.value.reason == rc.MQRC_EXPIRY_ERROR
    assert caught.value.detail.endswith(said)


def test_D31_delay_longer_than_the_capped_life_is_refused(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager, CAPEXPRY=50)
    session.put("Q1", b"x", delay_ms=5_000)
    with refused(rc.MQRC_EXPIRY_ERROR):
        session.put("Q1", b"x", delay_ms=5_001)
    with refused(rc.MQRC_EXPIRY_ERROR):
        session.put("Q1", b"x", delay_ms=5_001, time_to_live_ms=60_000)
    assert queue_manager.curdepth(STAGING) == 1
