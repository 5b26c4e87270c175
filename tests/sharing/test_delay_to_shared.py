"""D29: a message delayed for a shared queue waits with the queue manager it was put through."""

from __future__ import annotations

import pytest

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.structures import DLH
from mayfly.verbs.schedule import Receipt
from tests.sharing.scene import SHARED, Sharing
from tests.spec.scene import DEAD, STAGING, alter, bodies, lives, local, refused

DELAY_MS = 5_000


def test_D29_it_waits_on_the_private_staging_queue_of_its_member(sharing: Sharing) -> None:
    with sharing.qm1.session() as one, sharing.qm2.session() as two:
        one.put(SHARED, b"later", delay_ms=DELAY_MS, persistent=True)
        assert (sharing.qm1.curdepth(STAGING), sharing.qm2.curdepth(STAGING)) == (1, 0)
        assert sharing.qm2.curdepth(SHARED) == 0
        sharing.clock.advance(DELAY_MS - 1)
        assert two.get(SHARED) is None
        sharing.clock.advance(1)
        assert sharing.qm1.curdepth(STAGING) == 0
        message = two.get(SHARED)
        assert message is not None
        assert message.body == b"later"
        assert two.get(SHARED) is None


@pytest.mark.parametrize("persistent", [False, True])
def test_D3_its_ids_and_its_place_are_those_of_the_put(sharing: Sharing, persistent: bool) -> None:
    with sharing.qm1.session() as one, sharing.qm2.session() as two:
        correl_id = b"c" * 24
        msg_id = one.put(
            SHARED, b"a", delay_ms=DELAY_MS, persistent=persistent, correl_id=correl_id
        )
        sharing.clock.advance(DELAY_MS)
        two.put(SHARED, b"b", persistent=persistent)
        first, second = two.get(SHARED), two.get(SHARED)
        assert first is not None
        assert second is not None
        assert (first.body, first.msg_id, first.correl_id) == (b"a", msg_id, correl_id)
        assert second.body == b"b"


@pytest.mark.slow
def test_D29_while_its_owner_is_down_nobody_else_releases_it(on_disk: Sharing) -> None:
    with on_disk.qm1.session() as one:
        one.put(SHARED, b"later", delay_ms=DELAY_MS, persistent=True)
    on_disk.qm1.close()
    on_disk.clock.advance(DELAY_MS * 10)
    assert on_disk.qm2.curdepth(SHARED) == 0
    with on_disk.qm2.session() as two:
        assert two.get(SHARED) is None
        # Late it goes at once, as its owner starts.
        on_disk.qm1 = on_disk.member("QM1")
        message = two.get(SHARED)
    assert message is not None
    assert message.body == b"later"
    assert on_disk.qm1.curdepth(STAGING) == 0


@pytest.mark.slow
def test_D29_its_owner_back_in_time_releases_it_in_time(on_disk: Sharing) -> None:
    with on_disk.qm1.session() as one:
        one.put(SHARED, b"later", delay_ms=DELAY_MS, persistent=True)
    on_disk.qm1.close()
    on_disk.clock.advance(1_000)
    on_disk.qm1 = on_disk.member("QM1")
    with on_disk.qm2.session() as two:
        on_disk.clock.advance(DELAY_MS - 1_001)
        assert two.get(SHARED) is None
        on_disk.clock.advance(1)
        assert two.get(SHARED) is not None


@pytest.mark.slow
def test_D29_a_nonpersistent_one_is_lost_when_its_owner_stops(on_disk: Sharing) -> None:
    with on_disk.qm1.session() as one, on_disk.qm2.session() as two:
        one.put(SHARED, b"lost", delay_ms=DELAY_MS, persistent=False)
        one.put(SHARED, b"kept", delay_ms=DELAY_MS, persistent=True)
        one.put(SHARED, b"there", persistent=False)
        two.put(SHARED, b"of another", delay_ms=DELAY_MS, persistent=False)
    on_disk.qm1.close()
    on_disk.qm1 = on_disk.member("QM1")
    assert [life.outcome for life in lives(on_disk.qm1, STAGING)] == ["lost_at_restart"]
    on_disk.clock.advance(DELAY_MS)
    with on_disk.qm2.session() as two:
        # What is on the shared queue already does not need the member it came through.
        assert sorted(m.body for m in two.browse(SHARED)) == [b"kept", b"of another", b"there"]


def test_D12_in_a_unit_of_work_it_reaches_staging_at_the_commit(sharing: Sharing) -> None:
    with sharing.qm1.session(transacted=True) as one, sharing.qm2.session() as two:
        one.put(SHARED, b"now", persistent=True)
        one.put(SHARED, b"later", delay_ms=DELAY_MS, persistent=True)
        assert (sharing.qm1.curdepth(STAGING), sharing.qm1.curdepth(SHARED)) == (0, 1)
        one.commit()
        assert (sharing.qm1.curdepth(STAGING), sharing.qm1.curdepth(SHARED)) == (1, 1)
        sharing.clock.advance(DELAY_MS)
        assert bodies(two, SHARED) == [b"now", b"later"]


def test_D20_what_the_shared_queue_refuses_goes_to_the_dead_letters_of_its_member(
    sharing: Sharing,
) -> None:
    with sharing.qm1.session() as one:
        one.put(SHARED, b"later", delay_ms=DELAY_MS, persistent=True)
    alter(sharing.qm2, SHARED, PUT=c.MQQA_PUT_INHIBITED)
    sharing.clock.advance(DELAY_MS)
    assert (sharing.qm1.curdepth(DEAD), sharing.qm2.curdepth(DEAD)) == (1, 0)
    with sharing.qm1.session() as one:
        letter = one.get(DEAD)
    assert letter is not None
    header = DLH.unpack(letter.body)
    assert header["Reason"] == rc.MQRC_PUT_INHIBITED
    assert header["DestQName"] == SHARED


def test_D15_a_private_alias_is_resolved_again_at_the_release(sharing: Sharing) -> None:
    sharing.shared("SHARED.2")
    sharing.qm1.mqsc(f"DEFINE QALIAS(ALIAS) TARGET({SHARED})")
    with sharing.qm1.session() as one, sharing.qm2.session() as two:
        one.put("ALIAS", b"later", delay_ms=DELAY_MS, persistent=True)
        sharing.qm1.mqsc("ALTER QALIAS(ALIAS) TARGET(SHARED.2)")
        sharing.clock.advance(DELAY_MS)
        assert bodies(two, "SHARED.2") == [b"later"]


def test_D19_a_full_shared_queue_refuses_the_put(sharing: Sharing) -> None:
    sharing.shared("SMALL", MAXDEPTH=1)
    with sharing.qm1.session() as one, sharing.qm2.session() as two:
        two.put("SMALL", b"first")
        with refused(rc.MQRC_Q_FULL):
            one.put("SMALL", b"second", delay_ms=DELAY_MS)
        assert sharing.qm1.curdepth(STAGING) == 0


def test_D2_many_go_in_due_order_beside_those_for_private_queues(sharing: Sharing) -> None:
    local(sharing.qm1, "OWN")
    with sharing.qm1.session() as one, sharing.qm2.session() as two:
        for n in range(40):
            name = SHARED if n % 2 else "OWN"
            one.put(name, b"%d" % n, delay_ms=DELAY_MS + n % 3, persistent=bool(n % 5))
        sharing.clock.advance(DELAY_MS)
        assert sharing.qm1.curdepth("OWN") + sharing.qm2.curdepth(SHARED) == 14
        sharing.clock.advance(2)
        expected = sorted(range(1, 40, 2), key=lambda n: (n % 3, n))
        assert bodies(two, SHARED) == [b"%d" % n for n in expected]
        assert sharing.qm1.curdepth("OWN") == 20


def test_E13_what_expires_while_it_waits_is_reported_by_its_member(sharing: Sharing) -> None:
    sharing.shared("REPLIES")
    with sharing.qm1.session() as one, sharing.qm2.session() as two:
        one.put(
            SHARED,
            b"over",
            delay_ms=DELAY_MS,
            time_to_live_ms=DELAY_MS,
            persistent=True,
            report=c.MQRO_EXPIRATION,
            reply_to_q="REPLIES",
        )
        sharing.clock.advance(DELAY_MS)
        assert two.get(SHARED) is None
        found = two.get("REPLIES")
        assert found is not None
        assert found.descriptor.feedback == c.MQFB_EXPIRATION


def test_the_schedule_of_its_member_lists_counts_and_cancels_it(sharing: Sharing) -> None:
    local(sharing.qm1, "OWN")
    with sharing.qm1.session() as one, sharing.qm2.session() as two:
        kept = one.put(SHARED, b"kept", delay_ms=DELAY_MS, persistent=True)
        gone = one.put(SHARED, b"gone", delay_ms=DELAY_MS, persistent=True)
        one.put("OWN", b"own", delay_ms=DELAY_MS)
        assert (one.schedule.count(SHARED), one.schedule.count("OWN")) == (2, 1)
        assert two.schedule.count(SHARED) == 0
        assert one.schedule.cancel(gone) is Receipt.CANCELLED
        assert two.schedule.cancel(kept) is Receipt.UNKNOWN
        one.schedule.reschedule(kept, delay_ms=1_000)
        assert [found.target for found in one.schedule.list()] == [SHARED, "OWN"]
        sharing.clock.advance(1_000)
        assert bodies(two, SHARED) == [b"kept"]
