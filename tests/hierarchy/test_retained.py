"""Retained publications between queue managers: new subscribers get them wherever they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine import PutRequest
from mayfly.engine.pubsub.proxies import Journey
from mayfly.engine.pubsub.publish import RETAINED_QUEUE
from mayfly.lifetime.times import put_date, put_time
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.testing import VirtualClock
from tests.hierarchy.scene import bodies, connect, proxies, run, subscribe

Tree = tuple[QueueManager, QueueManager, QueueManager]


def retain(
    manager: QueueManager, body: bytes, topic: str = "news/sport", *, persistent: bool = False
) -> None:
    with manager.session() as session:
        session.publish(topic, body, retain=True, persistent=persistent)


def retain_here(manager: QueueManager, body: bytes, persistence: int) -> None:
    """Retain a publication for this queue manager alone."""
    request = PutRequest(Descriptor(persistence=persistence))
    with manager.session() as session:
        topic = session.open_topic("news/sport", c.MQOO_OUTPUT)
        topic.put(body, request, c.MQPMO_RETAIN | c.MQPMO_SCOPE_QMGR)


def test_who_subscribes_later_elsewhere_gets_what_is_retained(tree: Tree) -> None:
    top, left, right = tree
    retain(right, b"goal")
    for manager in (left, top):
        subscribe(manager, "news/#", "NEWS")
        assert bodies(manager, "NEWS") == [b"goal"]


def test_its_lifetime_has_run_on(tree: Tree, clock: VirtualClock) -> None:
    _top, left, right = tree
    with right.session() as session:
        session.publish("a", b"x", retain=True, time_to_live_ms=10_000)
        clock.advance(3_999)
        subscribe(left, "a", "A")
    with left.session() as session:
        message = session.get("A")
    assert message is not None
    assert message.remaining_ms == 6_001
    # It is retained here as well, for who subscribes when the proxy is there already.
    subscribe(left, "a", "B")
    clock.advance(6_000)
    assert left.counts("B").live == 1
    subscribe(left, "a", "C")
    clock.advance(1)
    subscribe(left, "a", "D")
    assert [len(bodies(left, name)) for name in "BCD"] == [0, 0, 0]
    assert [left.curdepth("C"), left.curdepth("D")] == [0, 0]


def test_the_second_subscriber_of_a_queue_manager_gets_it_and_the_first_not_again(
    tree: Tree,
) -> None:
    _top, left, right = tree
    retain(right, b"goal")
    subscribe(left, "news/#", "FIRST")
    subscribe(left, "news/#", "SECOND")
    subscribe(left, "news/+", "THIRD")
    for name in ("FIRST", "SECOND", "THIRD"):
        assert bodies(left, name) == [b"goal"], name


def test_those_who_have_subscribed_before_get_it_once(tree: Tree) -> None:
    top, left, right = tree
    for manager in tree:
        subscribe(manager, "news/#", "NEWS")
    retain(right, b"goal")
    subscribe(right, "news/+", "LATE")
    for manager in (top, left):
        assert bodies(manager, "NEWS") == [b"goal"]
    assert (bodies(right, "NEWS"), bodies(right, "LATE")) == ([b"goal"], [b"goal"])


def test_each_one_takes_the_place_of_the_one_before_it_everywhere(
    tree: Tree, clock: VirtualClock
) -> None:
    _top, left, right = tree
    subscribe(left, "news/#", "NEWS")
    for body in (b"1", b"2"):
        retain(right, body)
        clock.advance(10)
    for manager in tree:
        subscribe(manager, "news/sport", "LATE")
        assert bodies(manager, "LATE") == [b"2"]
        assert manager.curdepth(RETAINED_QUEUE) == 1


def test_an_empty_one_ends_it_where_it_comes(tree: Tree) -> None:
    _top, left, right = tree
    subscribe(left, "news/#", "NEWS")
    retain(right, b"goal")
    retain(right, b"")
    for manager in tree:
        subscribe(manager, "news/sport", "LATE")
        assert bodies(manager, "LATE") == []
        assert manager.curdepth(RETAINED_QUEUE) == 0


def test_who_wants_new_ones_only_or_asks_for_them_gets_none(tree: Tree) -> None:
    _top, left, right = tree
    retain(right, b"goal")
    with left.session() as session:
        new_only = session.subscribe("news/#", retained=False)
        on_request = session.subscribe("news/#", on_request=True)
        assert (new_only.get(), on_request.get()) == (None, None)
        # The request of MQSUBRQ finds here what has come meanwhile.
        assert on_request.request_retained() == 1


def test_a_selector_is_asked_where_the_subscriber_is(tree: Tree) -> None:
    _top, left, right = tree
    with right.session() as session, left.session() as subscriber:
        session.publish("a", b"x", retain=True, properties={"size": 1})
        session.publish("b", b"y", retain=True, properties={"size": 2})
        large = subscriber.subscribe("#", selector="size > 1")
        found = large.get()
        assert found is not None
        assert (found.topic, found.data, large.get()) == ("b", b"y", None)


def test_what_is_older_than_what_is_here_is_kept_from_coming(
    tree: Tree, clock: VirtualClock
) -> None:
    """LEFT has heard nothing since it unsubscribed; what is retained at RIGHT is newer."""
    top, left, right = tree
    subscribe(left, "news/#", "NEWS")
    retain(right, b"old")
    assert bodies(left, "NEWS") == [b"old"]
    run(left, "DELETE SUB('NEWS')")
    clock.advance(10)
    retain(right, b"new")
    subscribe(top, "news/#", "NEWS")
    assert bodies(top, "NEWS") == [b"old", b"new"]
    subscribe(left, "news/+", "LATE")
    assert bodies(left, "LATE") == [b"old", b"new"]
    subscribe(right, "news/sport", "HERE")
    assert bodies(right, "HERE") == [b"new"]
    for manager in tree:
        subscribe(manager, "news/#", "LAST")
        assert bodies(manager, "LAST") == [b"new"]


def test_of_two_that_were_published_apart_the_later_one_stays(
    tree: Tree, clock: VirtualClock
) -> None:
    _top, left, right = tree
    retain(right, b"old")
    clock.advance(10)
    retain(left, b"new")
    subscribe(left, "news/#", "NEWS")
    assert bodies(left, "NEWS") == [b"new"]
    subscribe(right, "news/sport", "NEWS")
    assert bodies(right, "NEWS") == [b"old", b"new"]
    for manager in tree:
        subscribe(manager, "#", "LAST")
        assert bodies(manager, "LAST") == [b"new"]


def test_one_that_is_overtaken_while_it_arrives_is_not_retained(
    tree: Tree, clock: VirtualClock
) -> None:
    top, _left, _right = tree
    now_ms = clock.now_ms()
    request = PutRequest(
        Descriptor(put_date=put_date(now_ms), put_time=put_time(now_ms)),
        context_option=c.MQPMO_SET_ALL_CONTEXT,
    )
    clock.advance(10)
    journey = Journey(("LEFT",), is_retained=True, only_for="news/#")
    with top.session(transacted=True) as session:
        session.publish_as(
            "news/sport", b"old", request, syncpoint=True, retain=True, journey=journey
        )
        retain(top, b"new")
        session.commit()
    subscribe(top, "news/#", "NEWS")
    assert bodies(top, "NEWS") == [b"new"]
    assert top.curdepth(RETAINED_QUEUE) == 1


def test_of_two_that_were_published_in_one_moment_the_later_one_stays(tree: Tree) -> None:
    """PutTime tells 10 ms, MsgId the rest: RIGHT answers TOP's wish with what it has of LEFT's."""
    top, left, right = tree
    for manager in (top, right):
        subscribe(manager, "news/#", "NEWS")
    retain(left, b"1", persistent=True)
    run(top, "STOP CHANNEL(TOP.TO.RIGHT)")
    retain(left, b"2", persistent=True)
    subscribe(top, "news/+", "LATE")
    # The second one and the wish arrive together, and wishes are heard first.
    run(top, "START CHANNEL(TOP.TO.RIGHT)")
    assert bodies(top, "LATE") == [b"2"]
    assert [bodies(manager, "NEWS") for manager in (top, right)] == [[b"1", b"2"]] * 2
    for manager in tree:
        subscribe(manager, "news/sport", "LAST")
        assert bodies(manager, "LAST") == [b"2"]


@pytest.mark.parametrize("later_ms", [-10, 0, 10])
def test_a_second_copy_of_what_is_retained_reaches_nobody_whatever_its_time(
    tree: Tree, clock: VirtualClock, later_ms: int
) -> None:
    """Copies of one publication are put one after the other, and may tell another PutTime."""
    top, _left, _right = tree
    subscribe(top, "news/#", "NEWS")
    for put_ms, only_for in ((0, ""), (later_ms, "news/#")):
        moment_ms = clock.now_ms() + put_ms
        request = PutRequest(
            Descriptor(put_date=put_date(moment_ms), put_time=put_time(moment_ms)),
            b"m" * 24,
            context_option=c.MQPMO_SET_ALL_CONTEXT,
        )
        with top.session() as session:
            session.publish_as(
                "news/sport",
                b"goal",
                request,
                syncpoint=False,
                retain=True,
                journey=Journey(("LEFT",), is_retained=True, only_for=only_for),
            )
    assert bodies(top, "NEWS") == [b"goal"]
    assert top.curdepth(RETAINED_QUEUE) == 1


def test_it_comes_again_for_new_topic_strings_alone(tree: Tree) -> None:
    """Somebody has ended it at LEFT, where one of two subscribers has had it."""
    _top, left, right = tree
    retain(right, b"goal")
    subscribe(left, "news/+", "EARLY")
    assert bodies(left, "EARLY") == [b"goal"]
    run(left, "CLEAR TOPICSTR('news/sport') CLRTYPE(RETAINED)")
    subscribe(left, "news/#", "LATE")
    assert (bodies(left, "EARLY"), bodies(left, "LATE")) == ([], [b"goal"])


def test_it_waits_for_a_way_and_for_a_restart(clock: VirtualClock, tmp_path: Path) -> None:
    def opened(name: str) -> QueueManager:
        return QueueManager(name, tmp_path / name, clock=clock)

    with opened("TOP") as top, opened("CHILD") as child:
        connect(top, child)
        run(top, "ALTER QMGR PSMODE(ENABLED)")
        run(child, "ALTER QMGR PSMODE(ENABLED) PARENT(TOP)")
        run(top, "STOP CHANNEL(TOP.TO.CHILD)")
        with top.session() as session:
            session.publish("a", b"kept", retain=True, persistent=True)
        subscribe(child, "a", "A")
        assert (proxies(top), bodies(child, "A")) == ([("CHILD", "a")], [])
    with opened("TOP") as top, opened("CHILD") as child:
        run(top, "START CHANNEL(TOP.TO.CHILD)")
        clock.advance(120_000)
        assert bodies(child, "A") == [b"kept"]
        subscribe(child, "a", "B")
        assert bodies(child, "B") == [b"kept"]


def test_a_proxy_is_there_though_its_retained_publications_cannot_leave(tree: Tree) -> None:
    top, left, _right = tree
    retain(top, b"x" * 1_000)
    run(top, "ALTER QLOCAL(LEFT) MAXMSGL(900)")
    subscribe(left, "news/#", "NEWS")
    assert proxies(top) == [("LEFT", "news/#")]
    with top.session() as session:
        session.publish("news/sport", b"short")
    assert bodies(left, "NEWS") == [b"short"]


@pytest.mark.parametrize("persistence", [c.MQPER_PERSISTENT, c.MQPER_NOT_PERSISTENT])
def test_what_is_retained_for_its_queue_manager_alone_goes_to_no_later_subscriber_elsewhere(
    tree: Tree, persistence: int
) -> None:
    """MQPMO_SCOPE_QMGR: it is sent to the subscribers of this queue manager and to no others."""
    top, left, right = tree
    retain_here(top, b"ours", persistence)
    for manager in (left, right):
        subscribe(manager, "news/#", "NEWS")
        assert bodies(manager, "NEWS") == []
    subscribe(top, "news/+", "HERE")
    assert bodies(top, "HERE") == [b"ours"]
    # What is retained for everybody after it is for everybody.
    retain(top, b"all")
    for manager in tree:
        subscribe(manager, "news/sport", "LATE")
        assert bodies(manager, "LATE") == [b"all"]


def test_it_is_for_its_queue_manager_alone_after_a_restart_too(
    clock: VirtualClock, tmp_path: Path
) -> None:
    with QueueManager("TOP", tmp_path, clock) as top:
        retain_here(top, b"ours", c.MQPER_PERSISTENT)
    with QueueManager("TOP", tmp_path, clock) as top, QueueManager("LEFT", clock=clock) as left:
        connect(top, left)
        run(top, "ALTER QMGR PSMODE(ENABLED)")
        run(left, "ALTER QMGR PSMODE(ENABLED) PARENT(TOP)")
        subscribe(left, "news/#", "NEWS")
        assert (proxies(top), bodies(left, "NEWS")) == ([("LEFT", "news/#")], [])
        subscribe(top, "news/#", "NEWS")
        assert bodies(top, "NEWS") == [b"ours"]


def test_only_what_is_retained_says_so_on_its_way(tree: Tree) -> None:
    """What older versions have sent has neither element and is an ordinary publication."""
    top, left, _right = tree
    subscribe(left, "news/#", "NEWS")
    run(top, "STOP CHANNEL(TOP.TO.LEFT)")
    with top.session() as session:
        session.publish("news/sport", b"goal")
        session.publish("news/sport", b"goal", retain=True)
        plain, retained = (message.body for message in session.browse("LEFT"))
    assert b"<Ret>" not in plain
    assert b"<Ret>1</Ret><For></For>" in retained
