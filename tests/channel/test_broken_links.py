"""What a link raises ends neither the channel unseen nor the thread of the clock."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest

from mayfly import QueueManager
from mayfly.channel import LinkDown, ReceiverLink, connect_local
from mayfly.engine.api.transit import ChannelDefinition
from mayfly.testing import VirtualClock
from tests.channel.scene import (
    CHANNEL,
    XMITQ,
    FragileLink,
    bodies,
    done,
    put,
    standing,
    through,
)
from tests.channel.test_doubt import IN_DOUBT, PLACES


def raising(place: str, error: BaseException) -> Callable[[str], None]:
    """Return what raises an error the first time a link comes to a place."""
    left = [place]

    def at(where: str) -> None:
        if where in left:
            left.remove(where)
            raise error

    return at


@pytest.mark.parametrize("place", PLACES)
def test_an_OSError_of_the_link_is_a_link_that_is_down(
    one: QueueManager, two: QueueManager, clock: VirtualClock, place: str
) -> None:
    through(one, raising(place, OSError(104, "reset by peer")))
    put(one, b"x")
    one.channels.start(CHANNEL)
    assert standing(one).status == "RETRYING"
    assert standing(one).failure == "[Errno 104] reset by peer"
    clock.advance(60_000)
    assert (standing(one).status, bodies(two), one.curdepth(XMITQ)) == ("RUNNING", [b"x"], 0)


@pytest.mark.parametrize("place", PLACES)
def test_any_other_error_stops_the_channel_and_says_why(
    one: QueueManager,
    two: QueueManager,
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
    place: str,
) -> None:
    """No retry would mend it; START does, once somebody has."""
    through(one, raising(place, ValueError("no such verb")))
    put(one, b"a")
    with caplog.at_level(logging.WARNING, "mayfly.channel"):
        one.channels.start(CHANNEL)
    status = standing(one)
    assert (status.status, status.failure) == ("STOPPED", "ValueError('no such verb')")
    assert status.is_in_doubt is (place in IN_DOUBT)
    assert one.counts(XMITQ).locked == (place in IN_DOUBT)
    # With its trace, for whoever is to mend it.
    [record] = [r for r in caplog.records if "no such verb" in r.getMessage()]
    assert record.exc_info is not None
    # Its queue is free, and a put by anybody is not disturbed.
    put(one, b"b")
    clock.advance(10**7)
    assert standing(one).status == "STOPPED"
    assert bodies(two) == ([b"a"] if place == "behind confirm" else [])
    one.channels.start(CHANNEL)
    assert (standing(one).status, standing(one).failure) == ("RUNNING", "")
    assert (bodies(two), one.curdepth(XMITQ)) == ([b"a", b"b"], 0)


def test_a_ping_at_the_end_of_HBINT_that_raises_stops_it_as_well(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    one.channels.start(CHANNEL)
    one.channels.stop(CHANNEL)
    through(one, raising("before ping", ValueError("ping")))
    one.channels.start(CHANNEL)
    clock.advance(299_999)
    assert standing(one).status == "RUNNING"
    clock.advance(1)
    assert (standing(one).status, standing(one).failure) == ("STOPPED", "ValueError('ping')")


@pytest.mark.parametrize("place", ["before send_to_keep", "behind send_to_keep", "before go_on"])
@pytest.mark.parametrize(
    ("error", "status"), [(OSError("reset"), "RETRYING"), (ValueError("wrong"), "STOPPED")]
)
def test_a_link_that_fails_before_a_batch_with_lives_is_put_puts_nothing(
    one: QueueManager, two: QueueManager, place: str, error: Exception, status: str
) -> None:
    through(one, raising(place, error))
    put(one, b"x", time_to_live_ms=1_000)
    one.channels.start(CHANNEL)
    assert (standing(one).status, one.curdepth(XMITQ), two.curdepth("IN")) == (status, 1, 0)
    one.channels.start(CHANNEL)
    assert bodies(two) == [b"x"]


def test_a_paused_batch_that_cannot_go_on_goes_back(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    done(two, "ALTER QLOCAL(IN) PUT(DISABLED)")
    through(one, raising("before go_on", ValueError("go on")))
    put(one, b"x")
    one.channels.start(CHANNEL)
    clock.advance(1_000)
    assert (standing(one).status, standing(two).status) == ("STOPPED", "INACTIVE")
    assert (one.counts(XMITQ).locked, two.counts("IN").uncommitted) == (0, 0)
    done(two, "ALTER QLOCAL(IN) PUT(ENABLED)")
    one.channels.start(CHANNEL)
    assert bodies(two) == [b"x"]


class NeverCloses(FragileLink):
    """A link that raises when it is closed, having done so."""

    def close(self) -> None:
        super().close()
        raise ValueError("close")


@pytest.mark.parametrize("is_forced", [True, False])
def test_a_link_that_fails_at_its_end_keeps_nothing(
    one: QueueManager, two: QueueManager, clock: VirtualClock, is_forced: bool
) -> None:
    def connect(definition: ChannelDefinition) -> ReceiverLink:
        return NeverCloses(connect_local(definition), lambda _where: None)

    one.channels.connect = connect
    done(two, "ALTER QLOCAL(IN) PUT(DISABLED)")
    put(one, b"x")
    one.channels.start(CHANNEL)
    assert (standing(one).status, one.counts(XMITQ).locked) == ("PAUSED", 1)
    one.channels.stop(CHANNEL, is_forced=is_forced)
    assert (standing(one).status, one.counts(XMITQ).locked) == ("STOPPED", 0)
    done(one, f"PING CHANNEL({CHANNEL})")


def test_a_program_that_is_interrupted_while_it_sends_sends_nothing_twice(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    """Under a virtual clock the channel works in the thread of whoever puts."""
    one.channels.start(CHANNEL)
    one.channels.stop(CHANNEL)
    through(one, raising("behind send", KeyboardInterrupt()))
    put(one, b"x")
    with pytest.raises(KeyboardInterrupt):
        one.channels.start(CHANNEL)
    assert (standing(one).status, one.counts(XMITQ).locked) == ("RETRYING", 0)
    clock.advance(60_000)
    assert (standing(one).status, bodies(two)) == ("RUNNING", [b"x"])


def test_PING_shows_what_the_link_says(one: QueueManager, two: QueueManager) -> None:
    for error in (LinkDown("nobody there"), OSError(111, "refused")):
        through(one, raising("before connect", error))
        result = one.mqsc(f"PING CHANNEL({CHANNEL})")
        assert not result.ok
        assert str(error) in result.text
        assert "AMQ9558E" in result.text


def test_one_channel_that_stops_leaves_the_others_their_threads() -> None:
    """With the clock of the machine, whose threads nobody sees end."""
    has_raised = threading.Event()
    with QueueManager("QM2") as two, QueueManager("QM1") as one:
        for name in ("BAD", "GOOD"):
            done(two, f"DEFINE QLOCAL({name}.IN)\nDEFINE CHANNEL({name}) CHLTYPE(RCVR)")
            done(
                one,
                f"DEFINE QLOCAL({name}.X) USAGE(XMITQ)\n"
                f"DEFINE CHANNEL({name}) CHLTYPE(SDR) CONNAME(QM2) XMITQ({name}.X)\n"
                f"DEFINE QREMOTE({name}) RNAME({name}.IN) RQMNAME(QM2) XMITQ({name}.X)",
            )

        def at(where: str, definition: ChannelDefinition) -> None:
            if definition.name == "BAD" and where == "before send":
                has_raised.set()
                raise ValueError("bad")

        def connect(definition: ChannelDefinition) -> ReceiverLink:
            return FragileLink(connect_local(definition), lambda where: at(where, definition))

        one.channels.connect = connect
        one.channels.start("BAD")
        one.channels.start("GOOD")
        with one.session() as here, two.session() as there:
            here.put("BAD", b"x")
            assert has_raised.wait(60)
            for _ in range(3):
                here.put("GOOD", b"x")
                assert there.get("GOOD.IN", wait_ms=60_000) is not None
        one.channels.stop("GOOD")
        assert two.curdepth("BAD.IN") == 0
        assert one.verify().ok
