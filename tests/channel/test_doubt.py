"""A batch that is cut off at any of its steps is at the partner once, or back in its place once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.channel import LinkDown, Opening, connect_local
from mayfly.engine import find_channel
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.testing import VirtualClock
from tests.channel.scene import (
    CHANNEL,
    XMITQ,
    bodies,
    cut_once,
    done,
    messages,
    put,
    sending,
    standing,
    through,
)

PLACES = [
    "before connect",
    "before negotiate",
    "behind negotiate",
    "before send",
    "behind send",
    "before confirm",
    "behind confirm",
]
#: Where the sender cannot know whether its partner has committed.
IN_DOUBT = PLACES[-2:]


@pytest.mark.parametrize("place", PLACES)
def test_cut_anywhere_each_persistent_message_arrives_once_and_in_order(
    one: QueueManager, two: QueueManager, clock: VirtualClock, place: str
) -> None:
    through(one, cut_once(place))
    for body in (b"a", b"b", b"c"):
        put(one, body)
    one.channels.start(CHANNEL)
    status = standing(one)
    assert (status.status, status.is_in_doubt) == ("RETRYING", place in IN_DOUBT)
    assert bodies(two) == ([b"a", b"b", b"c"] if place == "behind confirm" else [])
    assert one.counts(XMITQ).locked == (3 if place in IN_DOUBT else 0)
    # Put meanwhile, and behind the others.
    put(one, b"d")
    clock.advance(60_000)
    assert bodies(two) == [b"a", b"b", b"c", b"d"]
    assert (one.curdepth(XMITQ), standing(one).sequence) == (0, 4)
    assert standing(one).is_in_doubt is False


@pytest.mark.parametrize("is_persistent", [True, False])
@pytest.mark.parametrize("place", ["before send_to_keep", "behind send_to_keep", "before go_on"])
def test_cut_before_a_batch_with_lives_is_put_it_is_not_there(
    one: QueueManager, two: QueueManager, clock: VirtualClock, place: str, is_persistent: bool
) -> None:
    """What travels outside of batches has left by then, and may get lost."""
    through(one, cut_once(place))
    put(one, b"a", time_to_live_ms=90_000, persistent=is_persistent)
    one.channels.start(CHANNEL)
    assert (standing(one).status, standing(one).is_in_doubt, bodies(two)) == (
        "RETRYING",
        False,
        [],
    )
    assert one.curdepth(XMITQ) == is_persistent
    clock.advance(60_000)
    assert standing(one).status == "RUNNING"
    assert [m.remaining_ms for m in messages(two)] == [30_000] * is_persistent
    assert standing(one).sequence == is_persistent


@pytest.mark.parametrize("place", IN_DOUBT)
def test_E15_what_is_in_doubt_is_not_seen_not_got_and_does_not_expire(
    one: QueueManager, two: QueueManager, clock: VirtualClock, place: str
) -> None:
    done(one, "ALTER QMGR EXPRYINT(1)")
    through(one, cut_once(place))
    put(one, b"x", time_to_live_ms=30_000)
    one.channels.start(CHANNEL)
    one.channels.stop(CHANNEL)
    clock.advance(30_000)
    assert (one.counts(XMITQ).locked, bodies(one, XMITQ)) == (1, [])
    one.channels.start(CHANNEL)
    # Nothing of it is left either way, but only where it was not committed did it expire.
    assert (bodies(two), one.counts(XMITQ).locked, one.curdepth(XMITQ)) == ([], 0, 0)
    assert standing(one).sequence == (1 if place == "behind confirm" else 0)


@pytest.mark.parametrize("place", IN_DOUBT)
def test_both_queue_managers_tell_why_a_message_is_not_there(
    one: QueueManager, two: QueueManager, clock: VirtualClock, place: str
) -> None:
    """The sender knows that a channel has it until the doubt is over, and then that it was sent."""
    through(one, cut_once(place))
    msg_id = put(one, b"x")
    assert one.why(msg_id).sentence == (
        f"It is on its way to IN@QM2: it waits on {XMITQ}; it never expires."
    )
    one.channels.start(CHANNEL)
    assert one.why(msg_id).sentence == (
        f"It is on its way to IN@QM2, on {XMITQ}, and a channel that is sending it has it; it "
        "never expires."
    )
    assert two.why(msg_id).is_known == (place == "behind confirm")
    clock.advance(60_000)
    sent = one.why(msg_id).sentence
    assert sent.startswith("It was sent to another queue manager at ")
    assert sent.endswith(f", over transmission queue {XMITQ} by channel {CHANNEL}.")
    assert two.why(msg_id).sentence == "It is on IN and can be got; it never expires."


@pytest.mark.parametrize("place", IN_DOUBT)
def test_another_queue_manager_is_not_asked_what_became_of_a_batch(
    one: QueueManager, two: QueueManager, clock: VirtualClock, place: str
) -> None:
    """CONNAME leads elsewhere meanwhile, where nobody knows of it: that does not make it lost."""
    put(one, b"before")
    one.channels.start(CHANNEL)
    one.channels.stop(CHANNEL)
    through(one, cut_once(place))
    put(one, b"x")
    with QueueManager("QM3", clock=clock) as other:
        done(other, f"DEFINE QLOCAL(IN)\nDEFINE CHANNEL({CHANNEL}) CHLTYPE(RCVR)")
        one.channels.start(CHANNEL)
        assert standing(one).is_in_doubt
        done(one, f"ALTER CHANNEL({CHANNEL}) CONNAME(QM3)")
        one.channels.start(CHANNEL)
        assert (standing(one).status, standing(one).is_in_doubt) == ("RETRYING", True)
        assert "QM3 has committed up to 0, not 1" in standing(one).failure
        assert (one.counts(XMITQ).locked, bodies(other)) == (1, [])
    done(one, f"ALTER CHANNEL({CHANNEL}) CONNAME(QM2)")
    one.channels.start(CHANNEL)
    assert bodies(two) == [b"before", b"x"]
    assert (standing(one).is_in_doubt, one.counts(XMITQ).locked) == (False, 0)


@pytest.mark.parametrize("place", IN_DOUBT)
@pytest.mark.parametrize("is_committed", [True, False])
def test_RESOLVE_settles_it_without_the_partner(
    one: QueueManager, two: QueueManager, place: str, is_committed: bool
) -> None:
    through(one, cut_once(place))
    put(one, b"x")
    one.channels.start(CHANNEL)
    action = "COMMIT" if is_committed else "BACKOUT"
    done(one, f"RESOLVE CHANNEL({CHANNEL}) ACTION({action})")
    assert one.curdepth(XMITQ) == (0 if is_committed else 1)
    assert standing(one).is_in_doubt is False
    result = one.mqsc(f"RESOLVE CHANNEL({CHANNEL}) ACTION({action})")
    assert not result.ok
    assert "no batch in doubt" in result.text


def test_a_wrong_resolution_shows_in_the_sequence_numbers_and_RESET_brings_them_together(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    through(one, cut_once("behind confirm"))
    put(one, b"x")
    one.channels.start(CHANNEL)
    one.channels.resolve(CHANNEL, is_committed=False)
    clock.advance(60_000)
    assert standing(one).status == "RETRYING"
    assert "QM2 has committed up to 1, not 0" in standing(one).failure
    with pytest.raises(MQError) as found:
        one.channels.resolve(CHANNEL, is_committed=True)
    assert found.value.reason == rc.MQRC_CHANNEL_CONFIG_ERROR
    done(one, f"RESET CHANNEL({CHANNEL}) SEQNUM(5)")
    clock.advance(60_000)
    # The operator has said so: it goes a second time.
    assert bodies(two) == [b"x", b"x"]
    assert (standing(one).sequence, standing(two).sequence) == (5, 5)


def test_RESET_is_refused_while_a_batch_is_in_doubt_and_DELETE_as_well(
    one: QueueManager, two: QueueManager
) -> None:
    through(one, cut_once("before confirm"))
    put(one, b"x")
    one.channels.start(CHANNEL)
    one.channels.stop(CHANNEL)
    for command in (f"RESET CHANNEL({CHANNEL})", f"DELETE CHANNEL({CHANNEL})"):
        result = one.mqsc(command)
        assert not result.ok
        assert one.counts(XMITQ).locked == 1
    one.channels.resolve(CHANNEL, is_committed=False)
    done(one, f"DELETE CHANNEL({CHANNEL})")
    assert bodies(one, XMITQ) != []


@pytest.mark.parametrize("speed", ["FAST", "NORMAL"])
@pytest.mark.parametrize("place", PLACES)
def test_non_persistent_messages_are_never_doubled_and_inside_the_batch_not_lost(
    one: QueueManager, two: QueueManager, clock: VirtualClock, place: str, speed: str
) -> None:
    done(one, f"ALTER CHANNEL({CHANNEL}) NPMSPEED({speed})")
    through(one, cut_once(place))
    put(one, b"kept")
    put(one, b"maybe", persistent=False)
    one.channels.start(CHANNEL)
    clock.advance(60_000)
    # Outside the batch, what was on its way is gone when the link was.
    is_lost = speed == "FAST" and place == "before send"
    assert sorted(bodies(two)) == [b"kept"] + [b"maybe"] * (not is_lost)
    assert one.curdepth(XMITQ) == 0


def test_T2_what_RESOLVE_gives_back_comes_anew_and_triggers(
    one: QueueManager, two: QueueManager
) -> None:
    done(
        one,
        "DEFINE QLOCAL(INITQ)\n"
        f"ALTER QLOCAL({XMITQ}) TRIGGER TRIGTYPE(FIRST) INITQ(INITQ) TRIGDATA('{CHANNEL}')",
    )
    through(one, cut_once("before confirm"))
    one.channels.start(CHANNEL)
    put(one, b"x")
    one.channels.stop(CHANNEL)
    with one.session() as session:
        session.open("INITQ", c.MQOO_INPUT_SHARED)
        assert one.curdepth("INITQ") == 0
        one.channels.resolve(CHANNEL, is_committed=False)
        assert one.curdepth("INITQ") == 1


@pytest.mark.parametrize("place", ["before connect", *IN_DOUBT])
@pytest.mark.parametrize("is_stopped", [True, False])
def test_another_transmission_queue_is_taken_up_behind_what_is_in_doubt_on_the_old_one(
    one: QueueManager, two: QueueManager, clock: VirtualClock, place: str, is_stopped: bool
) -> None:
    done(
        one,
        "DEFINE QLOCAL(OTHER) USAGE(XMITQ)\n"
        "DEFINE QREMOTE(BY.OTHER) RNAME(IN) RQMNAME(QM2) XMITQ(OTHER)",
    )
    through(one, cut_once(place))
    put(one, b"old")
    one.channels.start(CHANNEL)
    if is_stopped:
        one.channels.stop(CHANNEL)
    done(one, f"ALTER CHANNEL({CHANNEL}) XMITQ(OTHER)")
    put(one, b"new", queue="BY.OTHER")
    one.channels.start(CHANNEL)
    put(one, b"newer", queue="BY.OTHER")
    is_there = place == "behind confirm"
    assert bodies(two) == [*([b"old"] if is_there else []), b"new", b"newer"]
    assert (one.counts(XMITQ).locked, one.curdepth(XMITQ)) == (0, 0 if is_there else 1)


def test_RESET_waits_for_the_turn_under_way_and_is_refused_behind_it(
    one: QueueManager, two: QueueManager
) -> None:
    refused: list[int] = []

    def reset() -> None:
        try:
            one.channels.reset(CHANNEL, 5)
        except MQError as error:
            refused.append(error.reason)

    operator = threading.Thread(target=reset)

    def at(where: str) -> None:
        if where == "before negotiate":
            operator.start()
            operator.join(0.1)

    through(one, at)
    one.channels.start(CHANNEL)
    operator.join()
    assert refused == [rc.MQRC_OBJECT_IN_USE]
    assert standing(one).status == "RUNNING"


def test_the_sequence_number_wraps(one: QueueManager, two: QueueManager) -> None:
    done(one, f"ALTER CHANNEL({CHANNEL}) SEQWRAP(100)\nRESET CHANNEL({CHANNEL}) SEQNUM(100)")
    one.channels.start(CHANNEL)
    put(one, b"a")
    assert (standing(one).sequence, standing(two).sequence) == (100, 100)
    put(one, b"b")
    assert (standing(one).sequence, standing(two).sequence) == (1, 1)


def test_a_receiver_that_was_replaced_takes_nothing_more(
    one: QueueManager, two: QueueManager
) -> None:
    """A sender that was cut off and comes back late cannot commit behind its successor's back."""
    definition = find_channel(one.engine, CHANNEL)
    opening = Opening(CHANNEL, "QM1", 0, 50, 1_000, False, 300, one.ledger.instance_id)
    old, new = connect_local(definition), connect_local(definition)
    old.negotiate(opening)
    new.negotiate(opening)
    with pytest.raises(LinkDown):
        old.send([])
    with pytest.raises(LinkDown):
        old.send_to_keep([])
    with pytest.raises(LinkDown):
        old.go_on(0)
    with pytest.raises(LinkDown):
        old.confirm("LUW", 1)
    assert new.negotiate(opening).luw == ""


@contextmanager
def full_disk(manager: QueueManager) -> Iterator[None]:
    """Leave the disk of a queue manager without a free page."""
    writer = manager.engine.store.persistent.writer
    [(pages,)] = writer.execute("PRAGMA page_count").fetchall()
    writer.execute(f"PRAGMA max_page_count = {pages}").fetchall()
    try:
        yield
    finally:
        writer.execute("PRAGMA max_page_count = 1000000").fetchall()


def test_a_disk_that_is_full_when_the_partner_has_committed_leaves_the_batch_hidden(
    tmp_path: Path, clock: VirtualClock
) -> None:
    """Seen again, the messages would go a second time."""
    with sending(clock, tmp_path) as one:
        for body in (b"a", b"b", b"c"):
            put(one, body, persistent=body != b"c")
        batch = one.engine.channel_states.batch_in_doubt(CHANNEL, XMITQ)
        assert len(batch.take(10)) == 3
        state = one.engine.channel_states.state(CHANNEL)
        with full_disk(one), pytest.raises(MQError) as found:
            batch.end(state._replace(doubt_keys=bytes(4_000_000)))
        assert found.value.reason == rc.MQRC_STORAGE_MEDIUM_FULL
        assert (one.counts(XMITQ).locked, one.curdepth(XMITQ), bodies(one, XMITQ)) == (3, 0, [])
        assert one.verify().ok
        batch.end(state)
        assert (one.counts(XMITQ).locked, one.curdepth(XMITQ)) == (0, 0)
        assert one.verify().ok
