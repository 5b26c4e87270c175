"""Selectors that take long: they are asked while the lock of the queue manager is free.

Rules G1, G2, G4, B2, K7, E9 and P9, groups, publications and what is retained.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread, setprofile
from types import FrameType

import pytest

from mayfly import QueueManager
from mayfly.engine import GetRequest, PutRequest, Session
from mayfly.engine.api.programs import OpenSubscription
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.properties import FORMAT, pack_folder, pack_header
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import GetResult, Message
from mayfly.verbs.properties.selectors.conditions import Pattern
from tests.over import NewSession
from tests.spec.scene import BROWSE, INPUT, OUTPUT, local, take
from tests.spec.scene import ends as ends_of

pytestmark = pytest.mark.in_process

#: The text of a property, and selectors that have to compare more of it than one turn of the lock
#: has time for: the first takes only messages that end with x, the second any but these.
LONG = 100_000
ENDS, OTHERS = "text LIKE '%b_b%x'", "text NOT LIKE '%b_b%x'"


def content(ends: str) -> str:
    """Return a long text with an end."""
    return "bab" * (LONG // 3) + ends


def put(session: Session, ends: str, data: bytes, **more: object) -> bytes:
    """Put a message with a long text."""
    return session.put("Q1", data, properties={"text": content(ends)}, **more)  # type: ignore[arg-type]  # options of put


def data_of(message: Message | None) -> bytes | None:
    """Return what stands behind the properties."""
    return None if message is None else message.body.rpartition(b">")[2].lstrip()


class Watch:
    """What happens while a selector is asked: how often, and how often with the lock held."""

    def __init__(self, manager: QueueManager) -> None:
        self.lock = manager.engine.engine_lock
        self.asked_count = self.held_count = 0
        #: Called once, when a selector is asked for the first time.
        self.meanwhile: Callable[[], object] | None = None

    def note(self, frame: FrameType, event: str, _value: object) -> None:
        """Count a call of the function that compares a text."""
        if event != "call" or frame.f_code is not Pattern.matches.__code__:
            return
        self.asked_count += 1
        self.held_count += self.lock.is_held()
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()


@contextmanager
def watching(
    manager: QueueManager, meanwhile: Callable[[], object] | None = None
) -> Iterator[Watch]:
    """Watch a block; ``meanwhile`` is done while a selector is asked for the first time."""
    watch, before = Watch(manager), sys.getprofile()
    watch.meanwhile = meanwhile
    setprofile(watch.note)
    sys.setprofile(watch.note)
    try:
        yield watch
    finally:
        sys.setprofile(before)
        setprofile(None)
    assert watch.asked_count > 0
    assert watch.held_count == 0


def test_G1_a_get_asks_without_the_lock(
    manager: QueueManager, session: Session, persistent: bool
) -> None:
    for number, ends in enumerate(("a", "a", "x", "a", "x")):
        put(session, ends, b"%d" % number, persistent=persistent)
    with watching(manager):
        assert data_of(session.get("Q1", selector=ENDS)) == b"2"
        assert data_of(session.get("Q1", selector=ENDS)) == b"4"
        assert session.get("Q1", selector=ENDS) is None
        assert data_of(session.get("Q1", selector=OTHERS)) == b"0"
    assert manager.curdepth("Q1") == 2


def test_B2_a_browse_asks_without_the_lock(manager: QueueManager, session: Session) -> None:
    for number, ends in enumerate(("a", "x", "a", "x")):
        put(session, ends, b"%d" % number)
    with watching(manager):
        shown = [data_of(message) for message in session.browse("Q1", selector=ENDS)]
    assert shown == [b"1", b"3"]
    assert manager.curdepth("Q1") == 4


@pytest.mark.parametrize("others", [1, 2])
def test_G1_a_message_that_is_taken_while_the_selector_is_asked_is_not_returned(
    manager: QueueManager, session: Session, new_session: NewSession, others: int
) -> None:
    """The search goes on from its key, with what is there then."""
    with new_session(manager) as other:
        for number in range(3):
            put(session, "x", b"%d" % number)

        def take_some() -> None:
            for number in range(others):
                assert data_of(other.get("Q1")) == b"%d" % number

        with watching(manager, take_some):
            assert data_of(session.get("Q1", selector=ENDS)) == b"%d" % others
        assert manager.curdepth("Q1") == 2 - others


def test_G8_a_message_that_is_backed_out_while_the_selector_is_asked_is_asked_again(
    manager: QueueManager, session: Session, new_session: NewSession
) -> None:
    with new_session(manager, transacted=True) as unit:
        put(session, "x", b"0")

        def try_once() -> None:
            assert unit.get("Q1") is not None
            unit.backout()

        with watching(manager, try_once):
            selector = f"{ENDS} AND JMSXDeliveryCount = 1"
            assert session.get("Q1", selector=selector) is None
        assert manager.curdepth("Q1") == 1


def test_G4_a_waiting_get_asks_without_the_lock_of_who_puts(
    manager: QueueManager, session: Session, new_session: NewSession
) -> None:
    found: list[bytes | None] = []
    with new_session(manager) as getter, watching(manager) as watch:
        handle = getter.open("Q1", INPUT, selector=ENDS)

        def wait() -> None:
            found.append(data_of(take(handle, c.MQGMO_WAIT, wait_ms=-1).message))

        thread = Thread(target=wait)
        thread.start()
        number = manager.engine.registry.queue("Q1").number
        while not manager.engine.waits.is_waited_on(number):
            assert thread.is_alive()
        put(session, "a", b"no")
        put(session, "x", b"yes")
        thread.join()
        assert watch.asked_count >= 2
    assert found == [b"yes"]
    assert manager.curdepth("Q1") == 1


def test_G4_a_get_with_a_callback_asks_without_the_lock(
    manager: QueueManager, session: Session
) -> None:
    is_told, told = Event(), list[GetResult | MQError]()

    def tell(outcome: GetResult | MQError) -> None:
        told.append(outcome)
        is_told.set()

    with watching(manager):
        handle = session.open("Q1", INPUT, selector=ENDS)
        handle.begin_get(GetRequest(wait_ms=-1), c.MQGMO_WAIT, tell).begin()
        put(session, "a", b"no")
        put(session, "x", b"yes")
        assert is_told.wait(60)
    (outcome,) = told
    assert isinstance(outcome, GetResult)
    assert data_of(outcome.message) == b"yes"


def test_P9_own_uncommitted_puts_are_asked_about_without_the_lock(
    manager: QueueManager, session: Session, unit: Session
) -> None:
    put(session, "x", b"first")
    for number, ends in enumerate(("a", "x", "a", "x")):
        put(unit, ends, b"%d" % number)
    with watching(manager):
        got = [data_of(unit.get("Q1", selector=ENDS)) for _ in range(4)]
    assert got == [b"first", b"1", b"3", None]
    unit.commit()
    assert manager.curdepth("Q1") == 2


def test_E9_K7_expired_messages_that_it_takes_go_with_the_get_of_a_live_one(
    clock: VirtualClock, new_session: NewSession
) -> None:
    """Without discard_on_empty they stay until there is one, whatever pauses the search makes."""
    manager = QueueManager("QM1", clock=clock, settings={"expiry.discard_on_empty": False})
    with manager, new_session(manager) as session:
        local(manager)
        for ends in ("x", "a", "x", "a"):
            put(session, ends, b"old", time_to_live_ms=1_000)
        put(session, "a", b"other")
        clock.advance(1_000)
        with watching(manager):
            assert session.get("Q1", selector=ENDS) is None
            assert manager.curdepth("Q1") == 5
            put(session, "x", b"live")
            assert data_of(session.get("Q1", selector=ENDS)) == b"live"
        assert manager.curdepth("Q1") == 3
        assert sorted(end.outcome for end in ends_of(manager, "Q1")) == ["expired"] * 2 + ["got"]
        assert manager.verify().ok


def test_a_get_of_whole_groups_asks_without_the_lock(
    manager: QueueManager, session: Session
) -> None:
    handle = session.open("Q1", OUTPUT | INPUT | c.MQOO_SET_ALL_CONTEXT)
    for name, ends in ((b"G", "a"), (b"H", "x")):
        for number in (1, 2):
            flags = c.MQMF_LAST_MSG_IN_GROUP if number == 2 else c.MQMF_MSG_IN_GROUP
            descriptor = Descriptor(
                format=FORMAT,
                encoding=c.MQENC_NORMAL,
                coded_char_set_id=1208,
                group_id=name,
                msg_seq_number=number,
                msg_flags=flags,
            )
            folder = pack_folder(f"<usr><text>{content(ends)}</text></usr>")
            body = pack_header(folder, "MQSTR") + name + b"%d" % number
            handle.put(body, PutRequest(descriptor))
    with watching(manager):
        chosen = session.open("Q1", INPUT | BROWSE, selector=ENDS)
        options = c.MQGMO_LOGICAL_ORDER | c.MQGMO_ALL_MSGS_AVAILABLE
        assert data_of(take(chosen, options | c.MQGMO_BROWSE_NEXT).message) == b"H1"
        assert data_of(take(chosen, options).message) == b"H1"
        assert data_of(take(chosen, options).message) == b"H2"
    assert manager.curdepth("Q1") == 2


def test_a_publication_asks_the_selectors_of_its_subscriptions_without_the_lock(
    manager: QueueManager, session: Session
) -> None:
    """Together they take long; those with one text are one, and asked once."""
    takers = [session.subscribe("a/b", selector=ENDS) for _ in range(3)]
    others = [session.subscribe("a/+", selector=OTHERS) for _ in range(2)]
    simple = session.subscribe("a/b", selector="JMSPriority = 4")
    with watching(manager) as watch:
        result = session.publish("a/b", b"", properties={"text": content("x")}, priority=4)
    assert watch.asked_count == 2
    assert (result.matched_count, result.delivered_count) == (4, 4)
    copies = [subscription.get() for subscription in (*takers, *others, simple)]
    assert [copy is not None for copy in copies] == [True] * 3 + [False] * 2 + [True]
    assert {copy.msg_id for copy in copies if copy is not None} == {result.msg_id}


def test_a_subscription_made_while_selectors_are_asked_has_its_copy(
    manager: QueueManager, session: Session, new_session: NewSession
) -> None:
    with new_session(manager) as other:
        first = session.subscribe("a/b", selector=ENDS)
        later = []
        with watching(manager, lambda: later.append(other.subscribe("a/b", selector=OTHERS))):
            session.publish("a/b", b"", properties={"text": content("a")})
        assert first.get() is None
        assert later[0].get() is not None


def test_a_quick_subscription_replaces_a_long_one_that_is_asked_and_has_its_copy(
    manager: QueueManager, session: Session, new_session: NewSession
) -> None:
    """Its selector was not asked without the lock, and all selectors together are quick now."""
    everything = session.subscribe("a/b")
    with new_session(manager) as other:
        long = other.subscribe("a/b", selector=ENDS)
        quick = list[OpenSubscription]()

        def replace() -> None:
            long.close()
            selectors = "JMSPriority = 4", "JMSPriority = 5"
            quick.extend(other.subscribe("a/b", selector=selector) for selector in selectors)

        with watching(manager, replace):
            result = session.publish("a/b", b"", properties={"text": content("x")}, priority=4)
        assert (result.matched_count, result.delivered_count) == (2, 2)
        chosen, refused = quick
        takers = (everything, chosen, refused)
        assert [manager.curdepth(taker.queue) for taker in takers] == [1, 1, 0]
        copies = [taker.get() for taker in takers]
        assert [copy is not None for copy in copies] == [True, True, False]
        assert [manager.curdepth(taker.queue) for taker in takers] == [0, 0, 0]


def test_a_publication_in_a_unit_of_work_asks_without_the_lock(
    manager: QueueManager, session: Session, unit: Session
) -> None:
    subscription = session.subscribe("a/b", selector=ENDS)
    with watching(manager):
        unit.publish("a/b", b"", properties={"text": content("x")})
    assert subscription.get() is None
    unit.commit()
    assert subscription.get() is not None


def test_retained_publications_are_chosen_without_the_lock(
    manager: QueueManager, session: Session, new_session: NewSession
) -> None:
    with new_session(manager) as other:
        for number in range(40):
            properties = {"text": content("x" if number % 8 == 0 else "a")}
            session.publish(f"a/{number}", b"", properties=properties, retain=True)

        def change() -> None:
            other.publish("a/1", b"", properties={"text": content("x")}, retain=True)

        with watching(manager, change):
            subscription = session.subscribe("a/+", selector=ENDS)
        topics = [message.topic for message in iter(subscription.get, None)]
        assert sorted(filter(None, topics)) == sorted(f"a/{n}" for n in (0, 1, 8, 16, 24, 32))
