"""Queues that all members of a queue-sharing group have together."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly import QueueManager, QueueSharingGroup
from mayfly.engine import GetRequest, PutRequest
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import StoreError
from mayfly.queue_manager import managers_here as open_managers
from mayfly.store.keys import id_hash
from mayfly.testing import VirtualClock
from tests.sharing.scene import PRIVATE, SHARED, Sharing
from tests.spec.scene import BROWSE, INPUT, alter_manager, bodies, local, refused, take, waiting


def test_what_one_member_puts_every_member_gets_once_in_order(sharing: Sharing) -> None:
    with sharing.qm1.session() as one, sharing.qm2.session() as two:
        for n in range(6):
            (one, two)[n % 2].put(SHARED, b"%d" % n, persistent=bool(n % 3))
        assert sharing.qm1.curdepth(SHARED) == sharing.qm2.curdepth(SHARED) == 6
        assert [m.body for m in two.browse(SHARED)] == [b"%d" % n for n in range(6)]
        got = [(two, one)[n % 2].get(SHARED) for n in range(6)]
        assert [m.body for m in got if m is not None] == [b"%d" % n for n in range(6)]
        assert one.get(SHARED) is None
        assert sharing.qm2.curdepth(SHARED) == 0


@pytest.mark.parametrize("persistent", [False, True])
def test_every_member_tells_where_a_message_on_a_shared_queue_is(
    sharing: Sharing, persistent: bool
) -> None:
    with sharing.qm1.session() as session:
        msg_id = session.put(SHARED, b"x", persistent=persistent)
        for member in (sharing.qm1, sharing.qm2):
            found = member.why(msg_id)
            assert found.sentence == f"It is on {SHARED} and can be got; it never expires."
        with sharing.qm2.session("bob", transacted=True) as unit:
            assert unit.get(SHARED) is not None
            assert "the open unit of work of bob" in sharing.qm2.why(msg_id).sentence
        for member in (sharing.qm1, sharing.qm2):
            assert member.why(msg_id).sentence.startswith(f"It was got from {SHARED} at ")


def test_P1_each_message_has_a_MsgId_of_its_own_on_shared_and_private_queues(
    sharing: Sharing,
) -> None:
    """A MsgId has the number of its key, but on a shared queue: there members number together."""
    with sharing.qm1.session() as one, sharing.qm2.session() as two:
        ids = [
            session.put(queue, b"x")
            for _ in range(20)
            for queue in (SHARED, PRIVATE, SHARED)
            for session in (one, two)
        ]
        assert len(set(ids)) == len({id_hash(msg_id) for msg_id in ids}) == len(ids)
        for msg_id in ids:
            # Found by the index of MsgIds.
            queue = SHARED if one.get(SHARED, msg_id=msg_id) else PRIVATE
            if queue == PRIVATE:
                assert one.get(PRIVATE, msg_id=msg_id) or two.get(PRIVATE, msg_id=msg_id)


def test_private_queues_of_one_name_are_apart(sharing: Sharing) -> None:
    with sharing.qm1.session() as one, sharing.qm2.session() as two:
        one.put(PRIVATE, b"of one")
        assert two.get(PRIVATE) is None
        assert bodies(one, PRIVATE) == [b"of one"]


def test_a_name_that_is_defined_privately_leads_there(sharing: Sharing) -> None:
    local(sharing.qm2, SHARED)
    with sharing.qm1.session() as one, sharing.qm2.session() as two:
        one.put(SHARED, b"shared")
        assert two.get(SHARED) is None
        two.put(SHARED, b"private")
        assert bodies(one, SHARED) == [b"shared"]
        sharing.qm2.mqsc(f"CLEAR QLOCAL({SHARED})\nDELETE QLOCAL({SHARED})")
        one.put(SHARED, b"shared again")
        assert bodies(two, SHARED) == [b"shared again"]


@pytest.mark.parametrize("persistent", [False, True])
def test_a_get_that_waits_at_one_member_has_what_another_puts(
    sharing: Sharing, persistent: bool
) -> None:
    got: list[bytes] = []

    def wait() -> None:
        with sharing.qm1.session() as one:
            message = one.get(SHARED, wait_ms=10_000)
            got.append(b"" if message is None else message.body)

    thread = waiting(sharing.group, SHARED, wait)
    with sharing.qm2.session() as two:
        two.put(SHARED, b"come", persistent=persistent)
    thread.finish()
    assert got == [b"come"]


def test_D1_a_wait_that_ends_as_a_member_releases_has_the_message(sharing: Sharing) -> None:
    got: list[bytes] = []

    def wait() -> None:
        with sharing.qm2.session() as two:
            message = two.get(SHARED, wait_ms=5_000)
            got.append(b"" if message is None else message.body)

    with sharing.qm1.session() as one:
        one.put(SHARED, b"in time", delay_ms=5_000, persistent=True)
    thread = waiting(sharing.group, SHARED, wait)
    sharing.clock.advance(5_000)
    thread.finish()
    assert got == [b"in time"]


def test_G3_a_wait_ends_at_its_moment_when_nothing_comes(sharing: Sharing) -> None:
    ended: list[int] = []

    def wait() -> None:
        with sharing.qm2.session() as two:
            assert two.get(SHARED, wait_ms=5_000) is None
            ended.append(sharing.clock.now_ms())

    begun_ms = sharing.clock.now_ms()
    thread = waiting(sharing.group, SHARED, wait)
    sharing.clock.advance(4_999)
    assert sharing.group.engine.waits.next_end_ms() == begun_ms + 5_000
    sharing.clock.advance(1)
    thread.finish()
    assert ended == [begun_ms + 5_000]


def test_a_wait_ends_when_its_member_closes_and_the_others_go_on(sharing: Sharing) -> None:
    reasons: list[int] = []

    def wait() -> None:
        with refused(rc.MQRC_Q_MGR_STOPPING), sharing.qm1.session() as one:
            try:
                one.get(SHARED, wait_ms=-1)
            finally:
                reasons.append(1)

    thread = waiting(sharing.group, SHARED, wait)
    sharing.qm1.close()
    thread.finish()
    assert reasons == [1]
    with sharing.qm2.session() as two:
        two.put(SHARED, b"x")
        assert bodies(two, SHARED) == [b"x"]


def test_E8_what_has_expired_is_discarded_by_whoever_meets_it(sharing: Sharing) -> None:
    sharing.shared("REPLIES")
    with sharing.qm1.session() as one, sharing.qm2.session() as two:
        one.put(SHARED, b"old", time_to_live_ms=1_000, report=c.MQRO_EXPIRATION, reply_to_q="R")
        local(sharing.qm1, "R")
        sharing.clock.advance(999)
        assert [m.body for m in two.browse(SHARED)] == [b"old"]
        sharing.clock.advance(1)
        assert sharing.qm2.counts(SHARED).expired_present == 1
        assert two.get(SHARED) is None
        assert sharing.qm1.curdepth(SHARED) == 0
        # The reply queue is that of the member it was put through.
        found = one.get("R")
        assert found is not None
        assert found.descriptor.feedback == c.MQFB_EXPIRATION


def test_X9_a_member_that_scans_discards_on_shared_queues(sharing: Sharing) -> None:
    sharing.qm2.mqsc("ALTER QMGR EXPRYINT(5)")
    with sharing.qm1.session() as one:
        one.put(SHARED, b"v", time_to_live_ms=1_000)
        one.put(SHARED, b"p", time_to_live_ms=1_000, persistent=True)
        sharing.clock.advance(4_999)
        assert sharing.qm1.curdepth(SHARED) == 2
        sharing.clock.advance(1)
        assert sharing.qm1.curdepth(SHARED) == 0


def test_R2_a_reply_reaches_the_private_queue_of_another_member(sharing: Sharing) -> None:
    """Whoever serves a shared queue answers ReplyToQ at ReplyToQMgr, here without a channel."""
    local(sharing.qm1, "ANSWERS")
    with sharing.qm1.session() as one, sharing.qm2.session(transacted=True) as two:
        one.put(SHARED, b"ask", persistent=True, reply_to_q="ANSWERS")
        asked = two.get(SHARED)
        assert asked is not None
        said = asked.descriptor
        assert (said.reply_to_q, said.reply_to_q_mgr) == ("ANSWERS", "QM1")
        two.put("ANSWERS@QM1", b"answer", persistent=True)
        assert one.get("ANSWERS") is None
        two.commit()
        assert bodies(one, "ANSWERS") == [b"answer"]
        sharing.qm1.close()
        with refused(rc.MQRC_UNKNOWN_REMOTE_Q_MGR):
            two.put("ANSWERS@QM1", b"too late")


def test_C6_an_open_queue_of_another_member_that_is_deleted_is_gone(sharing: Sharing) -> None:
    local(sharing.qm2, "THERE")
    with sharing.qm1.session() as one, sharing.qm2.session() as two:
        handle = one.open("THERE@QM2", c.MQOO_OUTPUT)
        sharing.qm2.mqsc("ALTER QLOCAL(THERE) MAXDEPTH(1)")
        handle.put(b"x", PutRequest(Descriptor()))
        with refused(rc.MQRC_Q_FULL):
            handle.put(b"y", PutRequest(Descriptor()))
        assert bodies(two, "THERE") == [b"x"]
        sharing.qm2.close()
        with refused(rc.MQRC_Q_DELETED):
            handle.put(b"z", PutRequest(Descriptor()))


def test_a_reply_to_a_shared_queue_is_put_there_whatever_member_is_named(sharing: Sharing) -> None:
    with sharing.qm1.session() as one, sharing.qm2.session() as two:
        two.put(f"{SHARED}@QM1", b"by a member")
        two.put(f"{SHARED}@QSG1", b"by the group")
        assert bodies(one, SHARED) == [b"by a member", b"by the group"]


def test_COD_goes_with_the_get_to_the_member_that_asked(sharing: Sharing) -> None:
    local(sharing.qm1, "R")
    with sharing.qm1.session() as one, sharing.qm2.session(transacted=True) as two:
        for persistent in (False, True):
            one.put(SHARED, b"x", persistent=persistent, report=c.MQRO_COD, reply_to_q="R")
            assert two.get(SHARED) is not None
            two.backout()
            assert sharing.qm1.curdepth("R") == 0
            assert two.get(SHARED) is not None
            two.commit()
            found = one.get("R")
            assert found is not None
            assert found.descriptor.feedback == c.MQFB_COD


def test_B5_a_lock_hides_a_message_from_other_members_until_its_session_ends(
    sharing: Sharing,
) -> None:
    with sharing.qm1.session() as one, sharing.qm2.session() as two:
        two.put(SHARED, b"x")
        handle = one.open(SHARED, c.MQOO_BROWSE | c.MQOO_INPUT_SHARED)
        locked = handle.get(GetRequest(), c.MQGMO_BROWSE_FIRST | c.MQGMO_LOCK)
        assert locked.message.body == b"x"
        assert two.get(SHARED) is None
        assert sharing.qm2.counts(SHARED).locked == 1
        one.close()
        assert bodies(two, SHARED) == [b"x"]


def test_C4_exclusive_input_holds_for_all_members(sharing: Sharing) -> None:
    with sharing.qm1.session() as one, sharing.qm2.session() as two:
        handle = one.open(SHARED, c.MQOO_INPUT_EXCLUSIVE)
        with refused(rc.MQRC_OBJECT_IN_USE):
            two.open(SHARED, c.MQOO_INPUT_SHARED)
        handle.close()
        two.open(SHARED, c.MQOO_INPUT_SHARED).close()


@pytest.mark.slow
def test_what_is_persistent_is_there_after_a_restart_of_all(on_disk: Sharing) -> None:
    with on_disk.qm1.session() as one:
        one.put(SHARED, b"kept", persistent=True, time_to_live_ms=10_000)
        one.put(SHARED, b"lost", persistent=False)
    on_disk.group.close()
    on_disk.clock.advance(4_000)
    on_disk.open()
    with on_disk.qm2.session() as two:
        (message,) = two.browse(SHARED)
        assert (message.body, message.remaining_ms) == (b"kept", 6_000)


@pytest.mark.slow
def test_a_nonpersistent_one_survives_the_members_but_not_the_group(on_disk: Sharing) -> None:
    with on_disk.qm1.session() as one:
        one.put(SHARED, b"v", persistent=False)
    on_disk.qm1.close()
    on_disk.qm2.close()
    on_disk.qm1, on_disk.qm2 = on_disk.member("QM1"), on_disk.member("QM2")
    with on_disk.qm2.session() as two:
        assert bodies(two, SHARED) == [b"v"]


@pytest.mark.slow
def test_a_member_is_not_opened_without_its_group(on_disk: Sharing, tmp_path: Path) -> None:
    on_disk.qm1.close()
    with pytest.raises(StoreError, match="member of queue-sharing group QSG1"):
        QueueManager("QM1", on_disk.folder_of("QM1"), on_disk.clock)
    other = QueueSharingGroup("QSG2", tmp_path / "QSG2", on_disk.clock)
    with other, pytest.raises(StoreError, match="member of queue-sharing group QSG1"):
        QueueManager("QM1", on_disk.folder_of("QM1"), sharing_group=other)
    on_disk.qm1 = on_disk.member("QM1")


def test_two_members_of_one_name_and_another_clock_are_refused() -> None:
    clock = VirtualClock()
    with QueueSharingGroup("QSG1", clock=clock) as group:
        with QueueManager("QM1", sharing_group=group):
            with pytest.raises(ValueError, match="'QM1' is in use"):
                QueueManager("QM1", sharing_group=group)
            with pytest.raises(ValueError, match="clock: QM2 has that of its"):
                QueueManager("QM2", clock=VirtualClock(), sharing_group=group)
        with QueueManager("QM1", clock=clock, sharing_group=group) as again:
            assert again.now_ms() == group.now_ms()


def test_programs_connect_to_members() -> None:
    with QueueSharingGroup("QSG1", clock=VirtualClock()) as group:
        with refused(rc.MQRC_FUNCTION_NOT_SUPPORTED):
            group.session()
        assert "QSG1" not in open_managers()


@pytest.mark.parametrize("option", [c.MQGMO_NO_WAIT, c.MQGMO_MSG_UNDER_CURSOR])
def test_G9_2024_for_gets_from_a_shared_queue(sharing: Sharing, option: int) -> None:
    """They count with all others, by the member's limit; what is in the unit stays good."""
    alter_manager(sharing.group, MAXUMSGS=1)
    alter_manager(sharing.qm2, MAXUMSGS=3)
    with sharing.qm1.session() as one, sharing.qm2.session(transacted=True) as two:
        for n in range(3):
            one.put(SHARED, b"%d" % n)
        handle = two.open(SHARED, INPUT | BROWSE)

        def get() -> bytes:
            if option:
                take(handle, c.MQGMO_BROWSE_FIRST)
            return take(handle, option | c.MQGMO_SYNCPOINT).message.body

        assert [get(), get()] == [b"0", b"1"]
        two.put(PRIVATE, b"the third")
        with refused(rc.MQRC_SYNCPOINT_LIMIT_REACHED):
            get()
        with refused(rc.MQRC_SYNCPOINT_LIMIT_REACHED):
            two.put(PRIVATE, b"x")
        for name in (SHARED, f"{PRIVATE}@QM1"):
            with refused(rc.MQRC_SYNCPOINT_LIMIT_REACHED):
                two.put(name, b"x")
        two.commit()
        assert bodies(one, SHARED) == [b"2"]
        assert sharing.qm2.curdepth(PRIVATE) == 1


def test_D32_a_message_backed_out_to_a_shared_queue_comes_again_after_BODELAY(
    sharing: Sharing,
) -> None:
    """Whichever member backs it out or asks for it, and with its member gone."""
    name = sharing.shared("SLOW.Q", BODELAY=5)
    with sharing.qm1.session("bob", transacted=True) as unit:
        unit.put(name, b"x", persistent=True)
        unit.commit()
        assert unit.get(name) is not None
        unit.backout()
    sharing.qm1.close()
    with sharing.qm2.session() as other:
        sharing.clock.advance(4_999)
        assert other.get(name) is None
        assert sharing.qm2.counts(name).staged == 1
        sharing.clock.advance(1)
        message = other.get(name)
    assert message is not None
    assert message.backout_count == 1
