"""What neighbours tell each other when subscriptions change: the change, and all if one is lost."""

from __future__ import annotations

import pytest

from mayfly import QueueManager
from mayfly.channel.hierarchy import (
    COMPLETE,
    REQUESTS,
    Announcement,
    Announcer,
    read_announcement,
)
from mayfly.mqi.structures import XQH
from mayfly.testing import VirtualClock
from tests.hierarchy.scene import bodies, proxies, run, subscribe

Tree = tuple[QueueManager, QueueManager, QueueManager]
RETRY_MS = 60_000


def on_the_way(manager: QueueManager, neighbour: str) -> list[Announcement]:
    """Return the announcements that wait for a channel."""
    with manager.session() as session:
        waiting = [message.body for message in session.browse(neighbour)]
    return [read_announcement(body[XQH.length(1) :]) for body in waiting]


def said(announcement: Announcement) -> tuple[set[str], set[str]]:
    """Return what an announcement names, and what it ends."""
    return set(announcement.topics), set(announcement.ended)


def announce(manager: QueueManager, *announcements: Announcement) -> None:
    """Let a queue manager hear something."""
    with manager.session() as session:
        for announcement in announcements:
            session.put(REQUESTS, announcement.packed(), persistent=True, format_name="MQSTR")


def lose_announcements(manager: QueueManager, neighbour: str) -> None:
    """Let what waits for the channel to a neighbour never arrive, then start the channel."""
    assert bodies(manager, neighbour)
    run(manager, f"START CHANNEL({manager.name}.TO.{neighbour})")


def test_only_what_has_changed_is_announced(tree: Tree) -> None:
    """Else each of ten thousand subscriptions would send all of them."""
    _top, left, _right = tree
    for topic in ("a", "b"):
        subscribe(left, topic, topic.upper())
    run(left, "STOP CHANNEL(LEFT.TO.TOP)")
    subscribe(left, "c", "C")
    run(left, "DELETE SUB('A')")
    subscribe(left, "c", "C", "TWICE")
    run(left, "DELETE SUB('C')")
    came, went = on_the_way(left, "TOP")
    assert (said(came), came.follows != COMPLETE) == (({"c"}, set()), True)
    assert (said(went), went.follows) == ((set(), {"a"}), came.number)


def test_a_restart_announces_all(tree: Tree) -> None:
    _top, left, _right = tree
    for topic in ("a", "b"):
        subscribe(left, topic, topic.upper())
    run(left, "STOP CHANNEL(LEFT.TO.TOP)\nALTER QMGR PSMODE(COMPAT)\nALTER QMGR PSMODE(ENABLED)")
    [whole] = on_the_way(left, "TOP")
    assert (said(whole), whole.follows) == (({"a", "b"}, set()), COMPLETE)


def test_who_misses_an_announcement_asks_for_all_within_a_minute(
    tree: Tree, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    top, left, right = tree
    run(left, "STOP CHANNEL(LEFT.TO.TOP)")
    subscribe(left, "lost", "LOST")
    lose_announcements(left, "TOP")
    subscribe(left, "heard", "HEARD")
    assert proxies(top) == []
    clock.advance(RETRY_MS - 1)
    assert proxies(top) == []
    clock.advance(1)
    for manager, neighbour in ((top, "LEFT"), (right, "TOP")):
        assert proxies(manager) == [(neighbour, "heard"), (neighbour, "lost")]
    assert "LEFT: an announcement is missing: all topics are asked for" in caplog.text
    # From then on changes are enough again.
    run(left, "DELETE SUB('LOST')")
    assert proxies(right) == [("TOP", "heard")]


def test_a_lost_end_is_made_good_too(tree: Tree, clock: VirtualClock) -> None:
    top, left, _right = tree
    subscribe(left, "over", "OVER")
    run(left, "STOP CHANNEL(LEFT.TO.TOP)\nDELETE SUB('OVER')")
    lose_announcements(left, "TOP")
    subscribe(left, "new", "NEW")
    assert proxies(top) == [("LEFT", "over")]
    clock.advance(RETRY_MS)
    assert proxies(top) == [("LEFT", "new")]


def test_an_answer_that_comes_by_itself_is_not_asked_for_again(
    tree: Tree, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    top, left, _right = tree
    run(left, "STOP CHANNEL(LEFT.TO.TOP)")
    subscribe(left, "lost", "LOST")
    lose_announcements(left, "TOP")
    subscribe(left, "heard", "HEARD")
    run(left, "ALTER QMGR PSMODE(COMPAT)\nALTER QMGR PSMODE(ENABLED)")
    assert proxies(top) == [("LEFT", "heard"), ("LEFT", "lost")]
    clock.advance(RETRY_MS)
    assert "missing" not in caplog.text


def test_a_repeated_announcement_does_no_harm(tree: Tree) -> None:
    top, _left, _right = tree
    whole = Announcement("LEFT", "TOP", 2**50, frozenset({"a", "b"}))
    change = whole._replace(
        number=2**50 + 1, follows=2**50, topics=frozenset({"c"}), ended=frozenset({"a"})
    )
    announce(top, whole, whole, change, change)
    assert proxies(top) == [("LEFT", "b"), ("LEFT", "c")]
    end = change._replace(
        number=2**50 + 2, follows=2**50 + 1, topics=frozenset(), ended=frozenset({"b"})
    )
    announce(top, end)
    assert proxies(top) == [("LEFT", "c")]


def test_a_neighbour_that_cannot_be_given_all_it_wants_is_told_what_others_want(
    tree: Tree,
) -> None:
    """LEFT wants what TOP refuses; it is to hear all the same what others subscribe to."""
    top, left, right = tree
    run(top, "DEFINE TOPIC(NEWS) TOPICSTR('news') SUB(DISABLED)")
    subscribe(left, "news/#", "NEWS")
    subscribe(right, "other", "OTHER")
    assert proxies(left) == [("TOP", "other")]
    with left.session() as session:
        session.publish("other", b"x")
    assert bodies(right, "OTHER") == [b"x"]


def test_subscriptions_are_recorded_only_from_the_begin_to_the_end(clock: VirtualClock) -> None:
    """A turn outside that time starts no record, which nobody would ever read."""
    with QueueManager("QM1", clock=clock) as manager, manager.session() as session:
        announcer = Announcer(manager.engine)
        announcer.follow()
        session.subscribe("a")
        before = announcer.has_changes
        announcer.begin()
        session.subscribe("b")
        between = announcer.has_changes
        announcer.end()
        announcer.follow()
        session.subscribe("c")
        assert (before, between, announcer.has_changes) == (False, True, False)
