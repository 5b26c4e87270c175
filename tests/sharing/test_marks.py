"""Browse marks on shared queues (B7): all members of a group see the same ones."""

from __future__ import annotations

import pytest

from mayfly.engine import Handle
from mayfly.mqi import constants as c
from mayfly.mqi.errors import NoMessage
from tests.sharing.scene import SHARED, Sharing
from tests.spec.scene import BROWSE, INPUT, START_MS, alter_manager, take, waiting

WAIT_FOR_UNMARKED = c.MQGMO_BROWSE_CO_OP | c.MQGMO_WAIT
MINUTE_MS = 60_000
#: MARKINT by default.
INTERVAL_MS = 5_000


@pytest.fixture
def pair(sharing: Sharing) -> tuple[Handle, Handle]:
    """One message, and two handles of one set: of QM1 and of QM2."""
    one, two = sharing.qm1.session(transacted=True), sharing.qm2.session(transacted=True)
    with sharing.qm1.session() as sender:
        sender.put(SHARED, b"1", persistent=True)
    options = INPUT | BROWSE | c.MQOO_CO_OP
    return one.open(SHARED, options), two.open(SHARED, options)


def seen(handle: Handle, options: int = c.MQGMO_BROWSE_CO_OP) -> bytes | None:
    """Return the body of what a browse shows, None for nothing."""
    try:
        return take(handle, options).message.body
    except NoMessage:
        return None


def test_B7_a_mark_set_at_one_member_counts_at_the_others(
    sharing: Sharing, pair: tuple[Handle, Handle]
) -> None:
    one, two = pair
    assert seen(one) == b"1"
    assert seen(two) is None
    sharing.clock.advance(INTERVAL_MS - 1)
    assert seen(two) is None
    sharing.clock.advance(1)
    assert seen(two) == b"1"


def test_B7_who_waits_on_a_shared_queue_wakes_at_the_lapse(
    sharing: Sharing, pair: tuple[Handle, Handle]
) -> None:
    one, two = pair
    assert seen(one) == b"1"
    running = waiting(
        sharing.group, SHARED, lambda: take(two, WAIT_FOR_UNMARKED, wait_ms=MINUTE_MS).message
    )
    sharing.clock.advance(INTERVAL_MS - 1)
    assert sharing.group.engine.waits.is_waited_on(
        sharing.group.engine.registry.queue(SHARED).number
    )
    sharing.clock.advance(10 * MINUTE_MS)
    message = running.finish()
    assert getattr(message, "body", None) == b"1"
    assert getattr(message, "seen_ms", None) == START_MS + INTERVAL_MS


def test_B7_a_lapse_at_the_very_end_of_a_wait_on_a_shared_queue_wins(
    sharing: Sharing, pair: tuple[Handle, Handle]
) -> None:
    one, two = pair
    assert seen(one) == b"1"
    running = waiting(
        sharing.group,
        SHARED,
        lambda: take(two, WAIT_FOR_UNMARKED, wait_ms=INTERVAL_MS).message.body,
    )
    sharing.clock.advance(INTERVAL_MS)
    assert running.finish() == b"1"


def test_B7_a_mark_lapses_by_the_interval_of_who_has_set_it_while_another_waits(
    sharing: Sharing, pair: tuple[Handle, Handle]
) -> None:
    one, two = pair
    assert seen(one) == b"1"
    alter_manager(sharing.qm1, MARKINT=100)
    running = waiting(
        sharing.group, SHARED, lambda: take(two, WAIT_FOR_UNMARKED, wait_ms=MINUTE_MS).message
    )
    take(one, c.MQGMO_BROWSE_FIRST | c.MQGMO_MARK_BROWSE_CO_OP)
    sharing.clock.advance(100)
    assert getattr(running.finish(), "seen_ms", None) == START_MS + 100


@pytest.mark.parametrize("how", ["unmark", "backout"])
def test_B7_who_waits_on_a_shared_queue_wakes_as_the_mark_ends(
    sharing: Sharing, pair: tuple[Handle, Handle], how: str
) -> None:
    one, two = pair
    assert seen(one) == b"1"
    wait_ms = INTERVAL_MS - 1
    running = waiting(
        sharing.group,
        SHARED,
        lambda: take(two, WAIT_FOR_UNMARKED, wait_ms=wait_ms).message.body,
    )
    if how == "unmark":
        take(one, c.MQGMO_BROWSE_FIRST | c.MQGMO_UNMARK_BROWSE_CO_OP)
    else:
        with sharing.qm2.session() as getter:
            take(getter.open(SHARED, INPUT), c.MQGMO_SYNCPOINT)
            getter.backout()
    assert running.finish() == b"1"


@pytest.mark.parametrize("in_unit", [False, True])
def test_B7_no_mark_is_left_of_what_another_member_has_got(
    sharing: Sharing, pair: tuple[Handle, Handle], in_unit: bool
) -> None:
    assert seen(pair[0]) == b"1"
    with sharing.qm2.session() as getter:
        options = c.MQGMO_SYNCPOINT if in_unit else c.MQGMO_NO_SYNCPOINT
        take(getter.open(SHARED, INPUT), options)
    assert sharing.group.engine.marks.marked == {}


def test_B7_a_member_that_closes_ends_the_marks_of_its_handles(
    sharing: Sharing, pair: tuple[Handle, Handle]
) -> None:
    """Those of the set stay as long as another member has a handle in it."""
    one, two = pair
    assert take(one, c.MQGMO_BROWSE_FIRST | c.MQGMO_MARK_BROWSE_HANDLE).message.body == b"1"
    assert seen(one, c.MQGMO_BROWSE_FIRST | c.MQGMO_MARK_BROWSE_CO_OP) == b"1"
    sharing.qm1.close()
    (marked,) = sharing.group.engine.marks.marked.values()
    assert not marked.handles
    assert seen(two) is None
    two.close()
    assert sharing.group.engine.marks.marked == {}
