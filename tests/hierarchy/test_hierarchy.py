"""Proxy subscriptions between queue managers, rule D25: who gets what, once, with what is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine.pubsub.proxies import PUBLICATIONS, proxy_name
from mayfly.engine.put import PutRequest
from mayfly.hierarchy.announcements import REQUESTS, Announcement, read_announcement
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.testing import VirtualClock
from tests.hierarchy.scene import bodies, connect, proxies, run, subscribe

Tree = tuple[QueueManager, QueueManager, QueueManager]


def test_a_subscription_has_a_proxy_at_each_queue_manager_on_the_way(tree: Tree) -> None:
    top, left, right = tree
    subscribe(left, "news/#", "NEWS")
    assert proxies(top) == [("LEFT", "news/#")]
    assert proxies(right) == [("TOP", "news/#")]
    assert proxies(left) == []
    run(left, "DELETE SUB('NEWS')")
    assert (proxies(top), proxies(right)) == ([], [])


def test_a_publication_reaches_subscribers_everywhere_once(tree: Tree) -> None:
    top, _left, right = tree
    for manager in tree:
        subscribe(manager, "news/#", "NEWS")
        subscribe(manager, "news/+", "NEWS", "SECOND")
    with right.session() as session:
        session.publish("news/sport", b"goal")
    for manager in tree:
        assert bodies(manager, "NEWS") == [b"goal", b"goal"]
        assert manager.curdepth("SYSTEM.DEAD.LETTER.QUEUE") == 0
    assert [right.curdepth("TOP"), top.curdepth("LEFT")] == [0, 0]


def test_D25_one_copy_leaves_for_each_queue_manager(tree: Tree) -> None:
    top, left, _right = tree
    for number in range(3):
        subscribe(left, f"news/{'+' * (number > 0)}{'#' * (number == 0)}", f"Q{number}")
    run(top, "STOP CHANNEL(TOP.TO.LEFT)")
    with top.session() as session:
        result = session.publish("news/sport", b"goal")
    assert result.matched_count == 1
    assert top.curdepth("LEFT") == 1
    run(top, "START CHANNEL(TOP.TO.LEFT)")
    assert [bodies(left, f"Q{number}") for number in range(3)] == [[b"goal"]] * 3


def test_who_does_not_subscribe_gets_nothing(tree: Tree) -> None:
    top, left, _right = tree
    subscribe(left, "news/#", "NEWS")
    run(top, "STOP CHANNEL(TOP.TO.RIGHT)")
    with top.session() as session:
        session.publish("news/sport", b"goal")
        session.publish("weather", b"rain")
    assert top.curdepth("RIGHT") == 0
    assert bodies(left, "NEWS") == [b"goal"]


def test_ids_context_and_format_travel(tree: Tree) -> None:
    _top, left, right = tree
    subscribe(left, "news/#", "NEWS")
    run(left, f"ALTER SUB('NEWS') DESTCORL('{'0' * 48}')")
    with right.session("carla") as session:
        result = session.publish(
            "news/sport",
            b"goal",
            correl_id=b"C" * 24,
            priority=7,
            format_name="MQSTR",
            properties={"colour": "red"},
        )
    with left.session() as session:
        message = session.get("NEWS")
    assert message is not None
    assert (message.msg_id, message.correl_id) == (result.msg_id, b"C" * 24)
    assert (message.priority, message.topic) == (7, "news/sport")
    assert message.descriptor.user_identifier == "carla"
    assert message.properties == {"colour": "red"}
    assert message.data == b"goal"


def test_E6_waiting_on_the_way_uses_up_the_lifetime(tree: Tree, clock: VirtualClock) -> None:
    top, left, right = tree
    subscribe(left, "news/#", "NEWS")
    run(right, "STOP CHANNEL(RIGHT.TO.TOP)")
    with right.session() as session:
        session.publish("news/sport", b"late", time_to_live_ms=10_000)
        session.publish("news/sport", b"too late", time_to_live_ms=4_000)
    clock.advance(4_000)
    run(right, "START CHANNEL(RIGHT.TO.TOP)")
    with left.session() as session:
        message = session.get("NEWS")
        assert session.get("NEWS") is None
    assert message is not None
    assert (message.body, message.remaining_ms) == (b"late", 6_000)
    assert top.curdepth("SYSTEM.DEAD.LETTER.QUEUE") == 0


def test_D25_a_delayed_publication_fans_out_elsewhere_after_the_delay(
    tree: Tree, clock: VirtualClock
) -> None:
    """Who subscribes there during the delay may receive it, and who has left does not."""
    top, left, _right = tree
    run(top, "ALTER TOPIC(SYSTEM.BASE.TOPIC) NPMSGDLV(ALLAVAIL)")
    subscribe(left, "news/#", "EARLY")
    subscribe(left, "news/+", "LEAVES")
    with top.session() as session:
        session.publish("news/sport", b"goal", delay_ms=5_000, time_to_live_ms=20_000)
    assert top.curdepth("SYSTEM.DDELAY.LOCAL.QUEUE") == 1
    subscribe(left, "news/sport", "LATE")
    run(left, "DELETE SUB('LEAVES')")
    clock.advance(4_999)
    assert bodies(left, "EARLY") == []
    clock.advance(1)
    assert bodies(left, "EARLY") == [b"goal"]
    assert bodies(left, "LEAVES") == []
    with left.session() as session:
        message = session.get("LATE")
    assert message is not None
    assert (message.body, message.remaining_ms) == (b"goal", 15_000)


def test_scope_of_the_queue_manager_keeps_a_publication_here(tree: Tree) -> None:
    top, left, _right = tree
    subscribe(left, "news/#", "NEWS")
    subscribe(top, "news/#", "NEWS")
    with top.session() as session:
        topic = session.open_topic("news/sport", c.MQOO_OUTPUT)
        topic.put(b"here", PutRequest(Descriptor()), c.MQPMO_SCOPE_QMGR)
        topic.put(b"all", PutRequest(Descriptor()))
    assert bodies(top, "NEWS") == [b"here", b"all"]
    assert bodies(left, "NEWS") == [b"all"]


def test_a_child_leaves_by_another_parent(tree: Tree) -> None:
    top, left, right = tree
    connect(left, right)
    subscribe(right, "news/#", "NEWS")
    assert proxies(left) == [("TOP", "news/#")]
    run(right, "ALTER QMGR PARENT(LEFT)")
    assert proxies(left) == [("RIGHT", "news/#")]
    assert proxies(top) == [("LEFT", "news/#")]
    with top.session() as session:
        session.publish("news/sport", b"goal")
    assert bodies(right, "NEWS") == [b"goal"]


def test_without_psmode_nothing_leaves_and_nothing_is_heard(tree: Tree) -> None:
    top, left, _right = tree
    subscribe(left, "news/#", "NEWS")
    run(top, "ALTER QMGR PSMODE(COMPAT)")
    run(left, "DELETE SUB('NEWS')")
    assert proxies(top) == [("LEFT", "news/#")]
    assert top.curdepth(REQUESTS) == 1
    run(top, "ALTER QMGR PSMODE(ENABLED)")
    assert (proxies(top), top.curdepth(REQUESTS)) == ([], 0)


def test_a_restart_keeps_the_tree_and_learns_what_has_changed(
    clock: VirtualClock, tmp_path: Path
) -> None:
    def opened(name: str) -> QueueManager:
        return QueueManager(name, tmp_path / name, clock=clock)

    top, child = opened("TOP"), opened("CHILD")
    connect(top, child)
    run(top, "ALTER QMGR PSMODE(ENABLED)")
    run(child, "ALTER QMGR PSMODE(ENABLED) PARENT(TOP)")
    subscribe(child, "a", "A")
    top.close()
    subscribe(child, "b", "B")
    run(child, "DELETE SUB('A')")
    child.close()
    with opened("TOP") as top:
        assert proxies(top) == [("CHILD", "a")]
        with opened("CHILD") as child:
            clock.advance(120_000)
            assert proxies(top) == [("CHILD", "b")]
            with top.session() as session:
                session.publish("b", b"again", persistent=True)
            clock.advance(1_000)
            assert bodies(child, "B") == [b"again"]


def test_no_way_to_the_parent_is_tried_again(clock: VirtualClock) -> None:
    with QueueManager("TOP", clock=clock) as top, QueueManager("CHILD", clock=clock) as child:
        run(top, "ALTER QMGR PSMODE(ENABLED)")
        run(child, "ALTER QMGR PSMODE(ENABLED) PARENT(TOP)")
        subscribe(child, "news", "NEWS")
        connect(top, child)
        assert proxies(top) == []
        clock.advance(60_000)
        assert proxies(top) == [("CHILD", "news")]


def test_what_is_no_publication_is_dead_lettered(tree: Tree) -> None:
    top, _left, _right = tree
    run(top, "ALTER QMGR DEADQ(SYSTEM.DEAD.LETTER.QUEUE)")
    with top.session() as session:
        session.put(PUBLICATIONS, b"stray")
        session.put(REQUESTS, b"[1]")
        reasons = []
        while (letter := session.get("SYSTEM.DEAD.LETTER.QUEUE")) is not None:
            reasons.append(int.from_bytes(letter.body[8:12], "little"))
    assert sorted(reasons) == [rc.MQRC_FORMAT_ERROR, rc.MQRC_RFH_FORMAT_ERROR]
    assert (top.curdepth(PUBLICATIONS), top.curdepth(REQUESTS)) == (0, 0)


def test_a_publication_refused_at_its_end_is_dead_lettered_there(tree: Tree) -> None:
    top, left, _right = tree
    run(left, "ALTER QMGR DEADQ(SYSTEM.DEAD.LETTER.QUEUE)")
    subscribe(left, "news/#", "NEWS")
    run(left, "DEFINE TOPIC(NEWS) TOPICSTR('news') PUB(DISABLED)")
    with top.session() as session:
        session.publish("news/sport", b"goal")
    with left.session() as session:
        letter = session.get("SYSTEM.DEAD.LETTER.QUEUE")
    assert letter is not None
    assert int.from_bytes(letter.body[8:12], "little") == rc.MQRC_PUT_INHIBITED


def test_display_pubsub_shows_the_neighbours(tree: Tree) -> None:
    top, left, _right = tree
    assert top.mqsc("DISPLAY PUBSUB").rows == [
        {"QMNAME": "TOP", "TYPE": "LOCAL"},
        {"QMNAME": "LEFT", "TYPE": "CHILD"},
        {"QMNAME": "RIGHT", "TYPE": "CHILD"},
    ]
    assert left.mqsc("DISPLAY PUBSUB").rows == [
        {"QMNAME": "LEFT", "TYPE": "LOCAL"},
        {"QMNAME": "TOP", "TYPE": "PARENT"},
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"sender": 1, "topics": [], "asks": false, "leaves": false}',
        b'{"sender": "A", "topics": [1], "asks": false, "leaves": false}',
        b'{"sender": "A", "topics": [""], "asks": false, "leaves": false}',
        b'{"sender": "A", "topics": [], "asks": 0, "leaves": false}',
    ],
)
def test_an_announcement_is_checked(body: bytes) -> None:
    with pytest.raises(MQError):
        read_announcement(body)


def test_an_announcement_is_read_as_it_was_written() -> None:
    written = Announcement("QM1", frozenset({"a/#", "ö"}), asks=True)
    assert read_announcement(written.packed()) == written


def test_proxies_are_named_for_who_and_what() -> None:
    assert proxy_name("QM2", "a/b") == "SYSTEM.PROXY/QM2/a/b"
