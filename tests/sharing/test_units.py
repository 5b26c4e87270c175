"""Units of work over shared and private queues, whose stores are several."""

from __future__ import annotations

import logging
import subprocess
from pathlib import Path

import apsw
import pytest

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.store.prepare_records import carried_out, pack_unit, unpack_unit
from mayfly.store.units import Bulk, EndedRows, KeyRange, StagedMove, Unit
from tests.sharing.scene import PRIVATE, SHARED, Sharing
from tests.spec.scene import STAGING, bodies, lives, local, refused
from tests.spec.test_claims import full_disk
from tests.store.scene import failing_disk, opened, put_unit

#: No page of a database has room for it.
LONG = b"x" * 100_000
PACKED = tuple("inserts deletes backouts lives moves bulks ended_rows statements".split())


def intents(sharing: Sharing) -> int:
    [(number,)] = sharing.group.engine.store.persistent.fetch("SELECT count(*) FROM intent", ())
    return int(number)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("private", [False, True])
def test_P9_a_unit_is_seen_by_itself_alone_until_its_commit(
    sharing: Sharing, shared: bool, private: bool
) -> None:
    with sharing.qm1.session(transacted=True) as one, sharing.qm2.session() as two:
        one.put(SHARED, b"s", persistent=shared)
        one.put(PRIVATE, b"p", persistent=private)
        assert two.get(SHARED) is None
        assert sharing.qm2.counts(SHARED).uncommitted == 1
        assert [m.body for m in (one.get(SHARED), one.get(PRIVATE)) if m] == [b"s", b"p"]
        one.backout()
        assert (sharing.qm1.curdepth(SHARED), sharing.qm1.curdepth(PRIVATE)) == (0, 0)
        one.put(SHARED, b"s", persistent=shared)
        one.put(PRIVATE, b"p", persistent=private)
        one.commit()
        assert bodies(two, SHARED) == [b"s"]
        assert sharing.qm1.curdepth(PRIVATE) == 1


@pytest.mark.parametrize("replies", [SHARED, PRIVATE])
@pytest.mark.parametrize("persistent", [False, True])
def test_E17_what_expired_before_its_commit_is_discarded_and_reported_in_every_store(
    sharing: Sharing, replies: str, persistent: bool
) -> None:
    """Both reports go where the member that puts finds the reply queue."""
    name = sharing.shared("MORE")
    local(sharing.qm1, "OWN")
    with sharing.qm1.session(transacted=True) as one:
        for queue in (name, "OWN"):
            one.put(queue, b"live", persistent=persistent)
            one.put(
                queue,
                queue.encode(),
                time_to_live_ms=1_000,
                report=c.MQRO_EXPIRATION_WITH_FULL_DATA,
                reply_to_q=replies,
                persistent=persistent,
            )
        sharing.clock.advance(1_000)
        one.commit()
        assert sorted(bodies(one, replies)) == [b"MORE", b"OWN"]
        for manager, queue in ((sharing.group, name), (sharing.qm1, "OWN")):
            assert sharing.qm1.curdepth(queue) == 1
            assert [life.outcome for life in lives(manager, queue)] == ["expired"]
            assert bodies(one, queue) == [b"live"]


def test_G8_a_kill_counts_as_a_backout_on_both(tmp_path: Path) -> None:
    """What a kill leaves is a copy of the folders, taken while the unit of work is open."""
    sharing = Sharing(tmp_path / "running")
    with sharing.qm1.session(transacted=True) as one:
        for name in (SHARED, PRIVATE):
            one.put(name, b"1", persistent=True)
            one.put(name, b"2", persistent=True)
        one.commit()
        assert one.get(SHARED) is not None
        assert one.get(PRIVATE) is not None
        subprocess.run(["cp", "-r", tmp_path / "running", tmp_path / "killed"], check=True)
        one.commit()
    sharing.end()
    for again in range(2):
        killed = Sharing.again(tmp_path / "killed", sharing.clock)
        with killed.qm1.session() as session:
            for name in (SHARED, PRIVATE):
                counts = [message.backout_count for message in session.browse(name)]
                assert counts == [1, 0], (name, again)
        killed.end()
    assert not list(tmp_path.glob("*/*/mayfly.db-gets"))


def test_G8_a_backout_gives_both_back_with_their_counts(sharing: Sharing) -> None:
    with sharing.qm1.session(transacted=True) as one, sharing.qm2.session() as two:
        for name in (SHARED, PRIVATE):
            one.put(name, b"x", persistent=True)
        one.commit()
        assert one.get(SHARED) is not None
        assert one.get(PRIVATE) is not None
        assert two.get(SHARED) is None
        assert sharing.qm2.counts(SHARED).locked == 1
        one.backout()
        found = one.get(PRIVATE)
        shared = two.get(SHARED)
        assert found is not None
        assert shared is not None
        assert (found.backout_count, shared.backout_count) == (1, 1)


def test_G9_a_session_that_is_dropped_gives_back_what_it_had_of_shared_queues(
    sharing: Sharing,
) -> None:
    session = sharing.qm1.session(transacted=True)
    with sharing.qm2.session() as two:
        two.put(SHARED, b"x", persistent=True)
        assert session.get(SHARED) is not None
        del session
        found = two.get(SHARED)
        assert found is not None
        assert found.backout_count == 1


def test_G9_a_member_that_closes_gives_back_what_its_sessions_had(sharing: Sharing) -> None:
    session = sharing.qm1.session(transacted=True)
    session.put(SHARED, b"withdrawn")
    with sharing.qm2.session() as two:
        two.put(SHARED, b"x", persistent=False)
        two.put(SHARED, b"y", persistent=True)
        assert session.get(SHARED) is not None
        assert session.get(SHARED) is not None
        sharing.qm1.close()
        assert bodies(two, SHARED) == [b"x", b"y"]
        assert sharing.qm2.curdepth(SHARED) == 0


def test_a_unit_may_change_the_stores_of_all_members(sharing: Sharing) -> None:
    local(sharing.qm2, "OTHER")
    with sharing.qm1.session(transacted=True) as one, sharing.qm2.session() as two:
        for name in (SHARED, PRIVATE, "OTHER@QM2"):
            one.put(name, b"x", persistent=True)
        one.commit()
        assert bodies(two, SHARED) == bodies(two, "OTHER") == [b"x"]
        assert bodies(one, PRIVATE) == [b"x"]
        one.commit()


def test_intents_are_gone_once_they_are_carried_out(sharing: Sharing) -> None:
    """The next unit forgets them in the group, the one after it in the member."""
    with sharing.qm1.session(transacted=True) as one:
        for _ in range(5):
            one.put(SHARED, b"x", persistent=True)
            one.put(PRIVATE, b"x", persistent=True)
            one.commit()
            assert intents(sharing) == 1
            assert len(carried_out(sharing.qm1.engine.store.persistent)) <= 2
    sharing.qm1.close()
    assert intents(sharing) == 0


def test_what_concerns_one_store_alone_needs_no_intent(sharing: Sharing) -> None:
    with sharing.qm1.session(transacted=True) as one:
        one.put(SHARED, b"x", persistent=True)
        one.put(PRIVATE, b"x", persistent=False)
        one.commit()
        one.put(PRIVATE, b"x", persistent=True)
        one.put(SHARED, b"x", persistent=False)
        one.commit()
    assert intents(sharing) == 0


@pytest.mark.slow
def test_on_a_full_disk_of_the_group_nothing_of_the_unit_happens(on_disk: Sharing) -> None:
    with on_disk.qm1.session() as one, on_disk.qm1.session(transacted=True) as unit:
        one.put(PRIVATE, b"got", persistent=True)
        assert unit.get(PRIVATE) is not None
        unit.put(SHARED, LONG, persistent=True)
        with full_disk(on_disk.group), refused(rc.MQRC_STORAGE_MEDIUM_FULL):
            unit.commit()
        assert on_disk.qm2.curdepth(SHARED) == 0
        assert on_disk.qm1.counts(PRIVATE).locked == 0
        assert bodies(one, PRIVATE) == [b"got"]


@pytest.mark.slow
def test_what_is_decided_is_done_when_the_disk_of_the_member_has_room(
    on_disk: Sharing, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody sees it before, and nothing of it is lost."""
    with on_disk.qm1.session() as one, on_disk.qm1.session(transacted=True) as unit:
        unit.put(SHARED, b"decided", persistent=True)
        unit.put(PRIVATE, LONG, persistent=True)
        with full_disk(on_disk.qm1), caplog.at_level(logging.CRITICAL):
            unit.commit()
            with on_disk.qm2.session() as two:
                assert bodies(two, SHARED) == [b"decided"]
            assert one.get(PRIVATE) is None
            on_disk.clock.advance(2_000)
            assert one.get(PRIVATE) is None
        assert on_disk.qm1.counts(PRIVATE).uncommitted == 1
        on_disk.clock.advance(1_000)
        assert bodies(one, PRIVATE) == [LONG]


@pytest.mark.slow
def test_what_is_decided_is_done_at_the_next_start(
    on_disk: Sharing, caplog: pytest.LogCaptureFixture
) -> None:
    with on_disk.qm1.session() as one, on_disk.qm1.session(transacted=True) as unit:
        one.put(PRIVATE, b"got", persistent=True)
        assert unit.get(PRIVATE) is not None
        unit.put(SHARED, b"decided", persistent=True)
        unit.put(PRIVATE, LONG, persistent=True)
        unit.put(PRIVATE, b"lost with the process", persistent=False)
        with caplog.at_level(logging.CRITICAL):
            writer = on_disk.qm1.engine.store.persistent.writer
            [(pages,)] = writer.execute("PRAGMA page_count").fetchall()
            writer.execute(f"PRAGMA max_page_count = {pages}").fetchall()
            unit.commit()
            on_disk.qm1.close()
    assert intents(on_disk) == 1
    on_disk.qm1 = on_disk.member("QM1")
    assert intents(on_disk) == 0
    with on_disk.qm1.session() as one, on_disk.qm2.session() as two:
        assert bodies(one, PRIVATE) == [LONG]
        assert bodies(two, SHARED) == [b"decided"]
    assert [life.outcome for life in lives(on_disk.qm1, PRIVATE)][:1] == ["got"]


@pytest.mark.slow
def test_D21_a_release_on_a_full_disk_of_the_group_stays_on_staging(
    on_disk: Sharing, caplog: pytest.LogCaptureFixture
) -> None:
    with on_disk.qm1.session() as one, on_disk.qm2.session() as two:
        one.put(SHARED, LONG, delay_ms=1_000, persistent=True)
        with full_disk(on_disk.group), caplog.at_level(logging.CRITICAL):
            on_disk.clock.advance(1_000)
            assert on_disk.qm1.curdepth(STAGING) == 1
        on_disk.clock.advance(1_000)
        assert bodies(two, SHARED) == [LONG]
        assert on_disk.qm1.curdepth(STAGING) == 0


def test_a_group_that_has_stopped_refuses_shared_queues_and_nothing_else(
    sharing: Sharing,
) -> None:
    with sharing.qm1.session() as one:
        one.put(PRIVATE, b"x", persistent=True)
        sharing.group.engine.store.group.is_broken = True
        with refused(rc.MQRC_CONNECTION_BROKEN):
            one.put(SHARED, b"x", persistent=True)
        assert bodies(one, PRIVATE) == [b"x"]


def test_G8_a_backout_that_fails_in_one_store_is_done_in_the_others(sharing: Sharing) -> None:
    with sharing.qm1.session() as one:
        one.put(SHARED, b"shared", persistent=True)
        one.put(PRIVATE, b"private", persistent=True)
    unit = sharing.qm1.session(transacted=True)
    assert unit.get(SHARED) is not None
    unit.put(f"{PRIVATE}@QM2", b"there", persistent=True)
    assert unit.get(PRIVATE) is not None
    assert [sharing.qm1.curdepth(PRIVATE), sharing.qm2.curdepth(PRIVATE)] == [0, 1]
    sharing.group.engine.store.group.is_broken = True
    with refused(rc.MQRC_CONNECTION_BROKEN):
        unit.backout()
    assert [sharing.qm1.curdepth(PRIVATE), sharing.qm2.curdepth(PRIVATE)] == [1, 0]


def test_a_packed_unit_is_the_same_unit() -> None:
    store = opened(None)
    unit = put_unit(store)
    unit.deletes, unit.backouts = [(5,)], [(6,)]
    unit.moves.append(StagedMove("{}", 0, "Q", 1, "released", 0, 0, "", "", 208))
    unit.bulks.append(Bulk("[]", 0, 1, b"d", b"", b"", b"", KeyRange(1, 2, None)))
    unit.ended_rows.append(EndedRows(1, 2, "Q", 3, "got", [(b"d", 0, 1, 2, "R", "u")]))
    unit.statements.append(("DELETE FROM meta WHERE name = ?", (b"\xff",)))
    unit.delta(1).ended["discarded"] = 2
    unit.delta(-7).present_volatile = -1
    packed = pack_unit(unit)
    again = unpack_unit(packed)
    assert pack_unit(again) == packed
    for name in PACKED:
        assert getattr(again, name) == getattr(unit, name), name
    assert again.deltas[1].ended == {"discarded": 2}
    assert isinstance(again, Unit)
    store.close()


@pytest.mark.slow
def test_when_the_group_fails_in_the_very_commit_the_unit_is_in_doubt_until_all_is_opened_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody sees a part of it before, and afterwards it is whole or nothing."""
    with failing_disk() as disk:
        sharing = Sharing(tmp_path)
        with sharing.qm1.session() as one, caplog.at_level(logging.CRITICAL):
            one.put(PRIVATE, b"moves", persistent=True)
            with refused(rc.MQRC_CONNECTION_BROKEN), sharing.qm1.session(transacted=True) as unit:
                assert unit.get(PRIVATE) is not None
                unit.put(SHARED, b"moves", persistent=True)
                disk.error, disk.failing = apsw.IOError, "sync .db-wal"
                try:
                    unit.commit()
                finally:
                    disk.failing = ""
            assert sharing.group.is_stopped
            assert one.get(PRIVATE) is None
            one.put(PRIVATE, b"goes on", persistent=True)
            assert bodies(one, PRIVATE) == [b"goes on"]
        sharing.end()
        sharing.open()
        with sharing.qm1.session() as one, sharing.qm2.session() as two:
            assert bodies(one, PRIVATE) + bodies(two, SHARED) == [b"moves"]
        sharing.end()
