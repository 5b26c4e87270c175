"""A message whose names lead in a ring goes round until its life is over, and not longer (E6, E7).

As in MQ nobody counts its hops.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.mqi import constants as c
from mayfly.testing import VirtualClock
from tests.channel.scene import CHANNEL, XMITQ, done, messages, put, receiving, sending, standing

FAR = "ORDERS@QM3"


def ring(one: QueueManager, two: QueueManager, **attributes: int) -> None:
    """Let each of them take the other for the way to QM3, and start both channels."""
    extra = " ".join(f"{keyword}({value})" for keyword, value in attributes.items())
    done(one, f"DEFINE QREMOTE(QM3) RNAME('') RQMNAME(QM3) XMITQ({XMITQ})")
    done(one, "DEFINE CHANNEL(HOME) CHLTYPE(RCVR)")
    done(two, "DEFINE QREMOTE(QM3) RNAME('') RQMNAME(QM3) XMITQ(QM1)")
    done(two, f"DEFINE CHANNEL(HOME) CHLTYPE(SDR) CONNAME(QM1) XMITQ(QM1) {extra}")
    one.channels.start(CHANNEL)
    two.channels.start("HOME")


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize(("life_ms", "rounds"), [(9_999, 10), (10_000, 10), (10_001, 11)])
def test_E6_a_ring_ends_with_the_life_of_the_message(
    one: QueueManager,
    two: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    life_ms: int,
    rounds: int,
) -> None:
    """Each round takes a second, that of an open batch."""
    ring(one, two, BATCHINT=1_000)
    msg_id = put(
        one,
        b"x",
        queue=FAR,
        persistent=persistent,
        time_to_live_ms=life_ms,
        report=c.MQRO_EXPIRATION,
        reply_to_q="BACK",
    )
    clock.advance(60_000)
    assert standing(one).message_count == rounds
    assert [m.correl_id for m in messages(one, "BACK")] == [msg_id]
    for manager, queue in ((one, XMITQ), (two, "QM1")):
        assert (manager.counts(queue).locked, manager.curdepth(queue)) == (0, 0)


def test_without_a_life_it_goes_round_until_a_channel_is_stopped(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    ring(one, two, BATCHINT=1_000)
    put(one, b"x", queue=FAR)
    clock.advance(60_000)
    assert standing(one).message_count == 61
    two.channels.stop("HOME")
    assert [m.body[-1:] for m in messages(two, "QM1")] == [b"x"]


@pytest.fixture
def quick() -> Iterator[tuple[QueueManager, QueueManager]]:
    """Both, by the clock of the machine."""
    with receiving(None) as two, sending(None) as one:
        yield one, two


@pytest.mark.slow
def test_E7_a_ring_that_nothing_holds_up_ends_as_well(
    quick: tuple[QueueManager, QueueManager],
) -> None:
    """What is too short to be counted at each hop must not add up to a longer life."""
    one, two = quick
    ring(one, two)
    # A machine that is busy with other things takes a longer life for so many rounds.
    life_ms, rounds = 1_000, 0
    while rounds <= 10:
        assert life_ms < 60_000
        begun_ms, before = one.now_ms(), standing(one).message_count
        put(
            one,
            b"x",
            queue=FAR,
            persistent=False,
            time_to_live_ms=life_ms,
            report=c.MQRO_EXPIRATION,
            reply_to_q="BACK",
        )
        with one.session() as session:
            report = session.get("BACK", wait_ms=life_ms + 20_000)
        assert report is not None
        assert one.now_ms() - begun_ms >= life_ms
        rounds = standing(one).message_count - before
        life_ms *= 4
