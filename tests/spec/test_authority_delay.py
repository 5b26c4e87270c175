"""Authority of delayed messages, rule D13: at the send, and at the release where it is asked for.

Also what else goes in somebody's name: reports (R6), and changes of the schedule.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly import QueueManager, pymqi
from mayfly.admin.security.users import users_of
from mayfly.engine import PutRequest, Session
from mayfly.engine.api.administration import QMGR, SELF
from mayfly.engine.attributes import AUTHCHK_RELEASE
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.structures import DLH
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import ScheduleFilter
from tests.over import NewSession
from tests.spec.authority_scene import ALICE, connect, grant, revoke
from tests.spec.scene import (
    DEAD,
    OUTPUT,
    REPLIES,
    STAGING,
    V2,
    End,
    alias,
    alter_manager,
    bodies,
    ends,
    local,
    refused,
)
from tests.spec.test_authority import FULL, pages

NOT_AUTHORIZED = rc.MQRC_NOT_AUTHORIZED
EVERYTHING = ScheduleFilter()


def test_D13_the_target_is_checked_at_the_send_and_staging_is_not(
    queue_manager: QueueManager, clock: VirtualClock
) -> None:
    local(queue_manager)
    with connect(queue_manager) as session:
        grant(queue_manager, "PUT", STAGING)
        with refused(NOT_AUTHORIZED):
            session.put("Q1", b"x", delay_ms=100)
        assert queue_manager.curdepth(STAGING) == 0
        revoke(queue_manager, "PUT", STAGING)
        grant(queue_manager, "PUT", "Q1")
        session.put("Q1", b"x", delay_ms=100)
        with refused(NOT_AUTHORIZED):
            session.put(STAGING, b"x")
        clock.advance(100)
        assert queue_manager.curdepth("Q1") == 1


def test_D13_a_handle_opened_before_does_not_help_a_delayed_put(
    queue_manager: QueueManager, clock: VirtualClock
) -> None:
    """Its send is checked once more; a put without delay is not (C7)."""
    local(queue_manager)
    with connect(queue_manager) as session:
        grant(queue_manager, "PUT", "Q1")
        handle = session.open("Q1", OUTPUT)
        revoke(queue_manager, "PUT", "Q1")
        with refused(NOT_AUTHORIZED):
            handle.put(b"x", PutRequest(V2, delay_ms=100))
        handle.put(b"y", PutRequest(V2))
    clock.advance(100)
    assert queue_manager.curdepth("Q1") == 1


def test_D13_nothing_is_checked_at_the_release(
    queue_manager: QueueManager, clock: VirtualClock, persistent: bool
) -> None:
    local(queue_manager)
    with connect(queue_manager) as session:
        grant(queue_manager, "PUT", "Q1")
        session.put("Q1", b"x", delay_ms=100, persistent=persistent)
        revoke(queue_manager, "ALL", "Q1")
    clock.advance(99)
    assert queue_manager.curdepth("Q1") == 0
    clock.advance(1)
    assert queue_manager.curdepth("Q1") == 1


def test_D13_AUTHCHK_RELEASE_dead_letters_what_may_not_arrive_any_more(
    manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    alter_manager(manager, AUTHCHK=AUTHCHK_RELEASE)
    with connect(manager) as session, new_session(manager) as opener:
        grant(manager, "PUT", "Q1")
        session.put("Q1", b"refused", delay_ms=100, persistent=persistent)
        opener.put("Q1", b"the opener's", delay_ms=100, persistent=persistent)
        revoke(manager, "PUT", "Q1")
        clock.advance(99)
        assert manager.curdepth(STAGING) == 2
        clock.advance(1)
        assert bodies(opener, "Q1") == [b"the opener's"]
        dead = opener.get(DEAD)
        assert dead is not None
        header = DLH.unpack(dead.body)
        assert (header["Reason"], header["DestQName"]) == (NOT_AUTHORIZED, "Q1")
        assert dead.body.endswith(b"refused")
    assert End("dead_lettered", 100, NOT_AUTHORIZED) in ends(manager, STAGING)


def test_D13_AUTHCHK_RELEASE_lets_go_who_has_it_again(
    manager: QueueManager, clock: VirtualClock, persistent: bool
) -> None:
    alter_manager(manager, AUTHCHK=AUTHCHK_RELEASE)
    with connect(manager) as session:
        grant(manager, "PUT", "Q1")
        session.put("Q1", b"x", delay_ms=100, persistent=persistent)
        revoke(manager, "PUT", "Q1")
        clock.advance(99)
        grant(manager, "PUT", "Q1")
        clock.advance(1)
    assert manager.curdepth("Q1") == 1
    assert manager.curdepth(DEAD) == 0


def test_D13_AUTHCHK_RELEASE_asks_for_the_name_that_was_put_to(
    manager: QueueManager, clock: VirtualClock, persistent: bool
) -> None:
    """The alias, with the groups the user has connected with last."""
    alter_manager(manager, AUTHCHK=AUTHCHK_RELEASE)
    alias(manager, "A1", "Q1")
    with connect(manager, ALICE, "ops") as session:
        grant(manager, "PUT", "A1", group="ops")
        session.put("A1", b"x", delay_ms=100, persistent=persistent)
        clock.advance(100)
        assert manager.curdepth("Q1") == 1
        session.put("A1", b"y", delay_ms=100, persistent=persistent)
    connect(manager, ALICE).close()
    clock.advance(100)
    assert manager.curdepth("Q1") == 1
    assert manager.curdepth(DEAD) == 1


def test_D13_AUTHCHK_RELEASE_discards_and_reports_as_asked(
    manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    alter_manager(manager, AUTHCHK=AUTHCHK_RELEASE)
    report = c.MQRO_DISCARD_MSG | c.MQRO_EXCEPTION
    with connect(manager) as session, new_session(manager) as opener:
        grant(manager, "PUT", "Q1")
        grant(manager, "PUT", REPLIES)
        session.put(
            "Q1", b"x", delay_ms=100, persistent=persistent, report=report, reply_to_q=REPLIES
        )
        revoke(manager, "PUT", "Q1")
        clock.advance(100)
        told = opener.get(REPLIES)
        assert told is not None
        assert told.descriptor.feedback == NOT_AUTHORIZED
    assert manager.curdepth(DEAD) == 0
    assert ends(manager, STAGING) == [End("discarded", 100, NOT_AUTHORIZED)]


@pytest.mark.parametrize("checks", [1, AUTHCHK_RELEASE])
def test_D13_a_checked_release_goes_in_bulk(
    queue_manager: QueueManager, clock: VirtualClock, checks: int
) -> None:
    """One look for all messages of one descriptor and target."""
    local(queue_manager, MAXDEPTH=9_999)
    alter_manager(queue_manager, AUTHCHK=checks)
    with connect(queue_manager, transacted=True) as session:
        grant(queue_manager, "PUT", "Q1")
        for n in range(300):
            session.put("Q1", b"%d" % n, delay_ms=100, persistent=True)
    processor = queue_manager.engine.delay_processor
    with queue_manager.engine.engine_lock:
        now_ms = clock.now_ms() + 100
        works = processor.release(processor.due(now_ms, 1_000), now_ms)
    assert [len(moving.new_keys) for work in works for moving in work.moves] == [300]
    queue_manager.engine.committer.run(*works)
    assert queue_manager.curdepth("Q1") == 300


def test_R6_a_report_goes_with_the_authority_of_whose_message_it_is_about(
    manager: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    """Without PUT on the reply queue it is dead-lettered with 2035."""
    with connect(manager) as session, new_session(manager) as opener:
        grant(manager, "PUT", "Q1")
        for may_report in (False, True):
            if may_report:
                grant(manager, "PUT", REPLIES)
            session.put(
                "Q1", b"x", time_to_live_ms=100, report=c.MQRO_EXPIRATION, reply_to_q=REPLIES
            )
            clock.advance(100)
            assert opener.get("Q1") is None
            assert manager.curdepth(REPLIES) == may_report
        dead = opener.get(DEAD)
        assert dead is not None
        assert DLH.unpack(dead.body)["Reason"] == NOT_AUTHORIZED
        assert opener.get(DEAD) is None


def test_the_schedule_shows_and_changes_ones_own_messages(
    queue_manager: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    """Those of others need BROWSE to be seen and GET to be changed, on the staging queue."""
    local(queue_manager)
    grant(queue_manager, "PUT", "Q1", group="nobody")
    with connect(queue_manager) as session, connect(queue_manager, "bob") as other:
        ids = [session.put("Q1", b"%d" % n, delay_ms=100) for n in range(4)]
        own = ScheduleFilter(sender=ALICE)
        assert len(session.schedule.list(own)) == 4
        assert session.schedule.show(ids[0]) is not None
        assert session.schedule.cancel(ids[0]).value == "cancelled"
        assert session.schedule.reschedule(ids[1], delay_ms=50).value == "rescheduled"
        assert session.schedule.release(ids[1]).value == "released"
        assert list(session.schedule.cancel_all(own)) == [2]
        late = session.put("Q1", b"late", delay_ms=100)
        foreign = other.schedule
        for call in (
            foreign.list,
            foreign.audit,
            foreign.count,
            lambda: foreign.list(own),
            lambda: foreign.show(late),
            lambda: foreign.cancel(late),
            lambda: foreign.reschedule(late, delay_ms=1),
            lambda: foreign.release(late),
            lambda: list(foreign.cancel_all(own)),
            lambda: list(foreign.release_all(EVERYTHING)),
        ):
            with refused(NOT_AUTHORIZED):
                call()
        grant(queue_manager, "BROWSE", STAGING, to="bob")
        assert [m.msg_id for m in foreign.list()] == [late]
        with refused(NOT_AUTHORIZED):
            foreign.cancel(late)
        assert foreign.count() == 1
        grant(queue_manager, "GET", STAGING, to="bob")
        assert foreign.cancel(late).value == "cancelled"
    clock.advance(100)
    with new_session(queue_manager) as opener:
        assert bodies(opener, "Q1") == [b"1"]


def _expired(manager: QueueManager, clock: VirtualClock, sender: Session, opener: Session) -> None:
    """Let a message of a session expire that asks for a report."""
    sender.put("Q1", b"x", time_to_live_ms=100, report=c.MQRO_EXPIRATION, reply_to_q=REPLIES)
    clock.advance(100)
    assert opener.get("Q1") is None
    assert manager.curdepth(REPLIES) + manager.curdepth(DEAD) == 1


@pytest.mark.parametrize("user", ["mqm", "anna", "anna-maria-luise"])
def test_R6_a_report_of_a_member_of_mqm_reaches_its_queue(
    manager: QueueManager, clock: VirtualClock, new_session: NewSession, user: str
) -> None:
    """Members of mqm may do everything, and so may the user of that name."""
    grant(manager, "PUT", "Q1", to="bob")
    groups = [] if user == "mqm" else ["mqm"]
    with new_session(manager, user, groups=groups) as sender, new_session(manager) as opener:
        _expired(manager, clock, sender, opener)
    assert (manager.curdepth(REPLIES), manager.curdepth(DEAD)) == (1, 0)


def test_R6_a_report_of_a_user_with_mqm_no_longer_is_dead_lettered(
    manager: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    with connect(manager, ALICE, "mqm") as sender, new_session(manager) as opener:
        sender.put("Q1", b"x", time_to_live_ms=100, report=c.MQRO_EXPIRATION, reply_to_q=REPLIES)
        connect(manager, ALICE).close()
        clock.advance(100)
        assert opener.get("Q1") is None
    assert (manager.curdepth(REPLIES), manager.curdepth(DEAD)) == (0, 1)


def test_D13_AUTHCHK_RELEASE_lets_go_what_a_member_of_mqm_has_sent(
    manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    grant(manager, "PUT", "Q1", to="bob")
    alter_manager(manager, AUTHCHK=AUTHCHK_RELEASE)
    with new_session(manager, "anna", groups=["mqm"]) as sender:
        sender.put("Q1", b"x", delay_ms=100, persistent=persistent)
    clock.advance(100)
    assert (manager.curdepth("Q1"), manager.curdepth(DEAD)) == (1, 0)


def test_C7_an_alternate_user_of_group_mqm_may_do_everything(
    manager: QueueManager, new_session: NewSession
) -> None:
    new_session(manager, "anna", groups=["mqm"]).close()
    grant(manager, "ALTUSR", SELF, kind=QMGR)
    with connect(manager) as session:
        options = OUTPUT | c.MQOO_ALTERNATE_USER_AUTHORITY
        session.open("Q1", options, alternate_user="anna").put(b"x", PutRequest(V2))
        with refused(NOT_AUTHORIZED):
            session.open("Q1", options, alternate_user="bob")
    assert manager.curdepth("Q1") == 1


@pytest.mark.in_process
@pytest.mark.parametrize("group", ["mqm", "staff"])
@pytest.mark.parametrize("is_killed", [False, True])
def test_R6_and_D13_the_groups_of_a_user_outlive_a_restart(
    tmp_path: Path, clock: VirtualClock, group: str, is_killed: bool
) -> None:
    """Nobody connects as the user again before its messages expire, or are released."""
    with QueueManager("QM1", tmp_path, clock) as qm:
        local(qm)
        local(qm, REPLIES)
        alter_manager(qm, DEADQ=DEAD, AUTHCHK=AUTHCHK_RELEASE)
        for queue in ("Q1", REPLIES):
            grant(qm, "PUT", queue, group="staff")
        with connect(qm, ALICE, group) as sender:
            sender.put(
                "Q1",
                b"x",
                time_to_live_ms=50,
                persistent=True,
                report=c.MQRO_EXPIRATION,
                reply_to_q=REPLIES,
            )
            sender.put("Q1", b"y", delay_ms=100, persistent=True)
        if is_killed:
            qm.crash()
    with QueueManager("QM1", tmp_path, clock) as qm, qm.session() as opener:
        clock.advance(100)
        assert bodies(opener, "Q1") == [b"y"]
        assert (qm.curdepth(REPLIES), qm.curdepth(DEAD)) == (1, 0)
        connect(qm, ALICE).close()
        assert qm.engine.registry.authority.users.of(ALICE) == ()
    with QueueManager("QM1", tmp_path, clock) as qm:
        assert qm.engine.registry.authority.users.of(ALICE) == ()


@pytest.mark.in_process
def test_R6_work_that_fell_due_while_it_was_closed_knows_the_groups(
    tmp_path: Path, clock: VirtualClock
) -> None:
    """It is done while the queue manager opens."""
    with QueueManager("QM1", tmp_path, clock) as qm:
        local(qm)
        alter_manager(qm, DEADQ=DEAD, AUTHCHK=AUTHCHK_RELEASE)
        users_of(qm.engine).add("anna", "secret", ["staff"])
        grant(qm, "PUT", "Q1", group="staff")
        grant(qm, "CONNECT", SELF, group="staff", kind=QMGR)
        for user, groups in (("anna", None), ("bob", ["staff"])):
            with qm.session(user, groups=groups) as sender:
                sender.put("Q1", b"x", delay_ms=100, persistent=True)
    clock.advance(100)
    with QueueManager("QM1", tmp_path, clock) as qm:
        assert (qm.curdepth("Q1"), qm.curdepth(DEAD)) == (2, 0)


@pytest.mark.in_process
def test_R6_the_file_of_users_says_the_groups_of_its_users(
    manager: QueueManager, clock: VirtualClock
) -> None:
    """As they are at the report, whatever a program has told; a user that is removed has none."""
    users = users_of(manager.engine)
    users.add(ALICE, "secret", ["staff"])
    grant(manager, "PUT", REPLIES, group="staff")
    grant(manager, "PUT", "Q1")
    with connect(manager, ALICE, "told") as sender, manager.session() as opener:
        for has_arrived, groups in (
            (True, ["staff"]),
            (False, ["other"]),
            (True, ["mqm"]),
            (False, None),
        ):
            if groups is None:
                users.remove(ALICE)
            else:
                users.change(ALICE, groups=groups)
            _expired(manager, clock, sender, opener)
            report, dead = opener.get(REPLIES), opener.get(DEAD)
            assert (report is not None, dead is None) == (has_arrived, has_arrived)


@pytest.mark.in_process
def test_R6_a_program_that_says_nothing_of_groups_changes_none(manager: QueueManager) -> None:
    """Connections by name, of pymqi and JMS, name a user alone."""
    grant(manager, "CONNECT", SELF, group="ops", kind=QMGR)
    manager.session(ALICE, groups=["ops"]).close()
    pymqi.connect("QM1", user=ALICE).disconnect()
    assert manager.engine.registry.authority.users.of(ALICE) == ("ops",)


@pytest.mark.in_process
def test_R6_a_full_disk_refuses_nobody_whose_groups_are_new(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are known until the queue manager is closed."""
    with QueueManager("QM1", tmp_path) as qm:
        pages(qm, FULL)
        group = "g" * 100_000
        qm.session(ALICE, groups=[group]).close()
        assert qm.engine.registry.authority.users.of(ALICE) == (group,)
        assert "a restart will not know the groups of user 'alice'" in caplog.text


@pytest.mark.in_process
def test_R6_a_report_of_who_opened_it_before_reaches_its_queue(
    tmp_path: Path, clock: VirtualClock
) -> None:
    with QueueManager("QM1", tmp_path, clock, user=ALICE) as qm, qm.session(ALICE) as sender:
        local(qm)
        local(qm, REPLIES)
        alter_manager(qm, DEADQ=DEAD)
        grant(qm, "PUT", "Q1", to="bob")
        sender.put(
            "Q1",
            b"x",
            time_to_live_ms=50,
            persistent=True,
            report=c.MQRO_EXPIRATION,
            reply_to_q=REPLIES,
        )
    clock.advance(50)
    with QueueManager("QM1", tmp_path, clock, user="bob") as qm, qm.session() as opener:
        assert opener.get("Q1") is None
        assert (qm.curdepth(REPLIES), qm.curdepth(DEAD)) == (1, 0)
