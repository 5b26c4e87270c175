"""Proxy subscriptions between queue managers, rule D25: who gets what, once, with what is left."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.channel.hierarchy import REQUESTS, Announcement, read_announcement
from mayfly.engine import GetRequest, PutRequest
from mayfly.engine.api.transit import PUBLICATIONS
from mayfly.engine.pubsub.proxies import proxy_name
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.properties import pack_folder, pack_header
from mayfly.testing import VirtualClock
from tests.facts import wait_until
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
    subscribe(left, "news/#", "NEWS")
    own = {"TYPE": "LOCAL", "STATUS": "ACTIVE"}
    assert top.mqsc("DISPLAY PUBSUB").rows == [
        {"QMNAME": "TOP", **own, "SUBCOUNT": 1, "TPCOUNT": 1},
        {"QMNAME": "LEFT", "TYPE": "CHILD", "STATUS": "ACTIVE"},
        {"QMNAME": "RIGHT", "TYPE": "CHILD", "STATUS": "ACTIVE"},
    ]
    assert left.mqsc("DISPLAY PUBSUB").rows == [
        {"QMNAME": "LEFT", **own, "SUBCOUNT": 1, "TPCOUNT": 1},
        {"QMNAME": "TOP", "TYPE": "PARENT", "STATUS": "ACTIVE"},
    ]


def test_display_pubsub_shows_a_neighbour_that_does_not_answer_and_one_that_cannot_be_reached(
    clock: VirtualClock,
) -> None:
    def status(manager: QueueManager) -> list[object]:
        return [row["STATUS"] for row in manager.mqsc("DISPLAY PUBSUB").rows]

    with QueueManager("CHILD", clock=clock) as child:
        assert status(child) == ["COMPAT"]
        run(child, "ALTER QMGR PSMODE(ENABLED) PARENT(TOP)")
        clock.advance(0)
        # No transmission queue leads to it.
        assert status(child) == ["ACTIVE", "ERROR"]
        with QueueManager("TOP", clock=clock) as top:
            run(child, "DEFINE QLOCAL(TOP) USAGE(XMITQ)")
            clock.advance(60_000)
            assert status(child) == ["ACTIVE", "STARTING"]
            run(child, "DELETE QLOCAL(TOP) PURGE")
            connect(child, top)
            run(top, "ALTER QMGR PSMODE(ENABLED)")
            run(child, "ALTER QMGR PARENT(' ')\nALTER QMGR PARENT(TOP)")
            clock.advance(60_000)
            assert status(child) == ["ACTIVE", "ACTIVE"]
            assert status(top) == ["ACTIVE", "ACTIVE"]
            run(child, "ALTER QMGR PSMODE(DISABLED)")
            clock.advance(0)
            assert status(child) == ["INACTIVE", "INACTIVE"]


def test_D25_a_delayed_copy_survives_the_proxy_that_it_was_made_for(
    tree: Tree, clock: VirtualClock
) -> None:
    """The neighbour has a second subscriber, who subscribed before the publication and stays."""
    top, left, _right = tree
    run(top, "ALTER TOPIC(SYSTEM.BASE.TOPIC) NPMSGDLV(ALLAVAIL)")
    subscribe(left, "news/#", "LEAVES")
    subscribe(left, "news/+", "STAYS")
    with top.session(transacted=True) as session:
        session.publish("news/sport", b"goal", delay_ms=5_000)
        session.commit()
    run(left, "DELETE SUB('LEAVES')")
    clock.advance(5_000)
    assert bodies(left, "STAYS") == [b"goal"]
    assert bodies(left, "LEAVES") == []


def test_D25_a_delayed_copy_goes_when_nobody_there_subscribes_any_more(
    tree: Tree, clock: VirtualClock
) -> None:
    top, left, right = tree
    run(top, "ALTER TOPIC(SYSTEM.BASE.TOPIC) NPMSGDLV(ALLAVAIL)")
    subscribe(left, "news/#", "LEAVES")
    with top.session() as session:
        session.publish("news/sport", b"goal", delay_ms=5_000)
    run(left, "DELETE SUB('LEAVES')")
    subscribe(right, "news/#", "OTHER")
    clock.advance(5_000)
    assert (bodies(left, "LEAVES"), bodies(right, "OTHER")) == ([], [])
    assert top.curdepth("SYSTEM.DDELAY.LOCAL.QUEUE") == 0


def test_arrival_is_confirmed_where_the_subscriber_is(tree: Tree) -> None:
    top, left, _right = tree
    run(top, "DEFINE QLOCAL(REPORTS)")
    subscribe(left, "news/#", "NEWS")
    with top.session() as session:
        session.publish("news/sport", b"goal", report=c.MQRO_COA, reply_to_q="REPORTS")
        report = session.get("REPORTS")
        assert session.get("REPORTS") is None
    assert report is not None
    assert report.descriptor.put_appl_name == "LEFT"


def test_delivery_is_confirmed_by_the_subscriber(tree: Tree) -> None:
    top, left, _right = tree
    run(top, "DEFINE QLOCAL(REPORTS)")
    subscribe(left, "news/#", "NEWS")
    with top.session() as session:
        session.publish("news/sport", b"goal", report=c.MQRO_COD, reply_to_q="REPORTS")
    assert top.curdepth("REPORTS") == 0
    assert bodies(left, "NEWS") == [b"goal"]
    assert top.curdepth("REPORTS") == 1


def test_an_envelope_is_checked(tree: Tree) -> None:
    top, _left, _right = tree
    run(top, "ALTER QMGR DEADQ(SYSTEM.DEAD.LETTER.QUEUE)")
    good = {"Top": "a", "Via": "LEFT", "Fmt": "MQSTR", "Enc": "546", "Ccs": "1208", "Rep": "0"}
    bad = [("Enc", "1e3"), ("Enc", "9" * 20), ("Ccs", "9" * 20), ("Rep", "9" * 20), ("Rep", "-1")]
    bad += [("Top", ""), ("Top", "a/#"), ("Fmt", "MUCH TOO LONG"), ("Via", "x" * 99)]
    outside = Descriptor(format="MQHRF2", encoding=c.MQENC_NORMAL, coded_char_set_id=1208)
    with top.session() as session:
        arrivals = session.open(PUBLICATIONS, c.MQOO_OUTPUT)
        for name, value in bad:
            said = "".join(f"<{key}>{text}</{key}>" for key, text in {**good, name: value}.items())
            folder = pack_folder(f"<mqps>{said}</mqps>")
            arrivals.put(pack_header(folder, "") + b"x", PutRequest(outside))
    assert top.curdepth(PUBLICATIONS) == 0
    run(top, "DISPLAY QMGR ALL")


def test_an_announcement_under_way_does_not_make_a_parent_a_child(tree: Tree) -> None:
    """It crosses the word that the child has left; a ring would send publications for ever."""
    top, left, right = tree
    connect(left, right)
    run(top, "STOP CHANNEL(TOP.TO.RIGHT)")
    subscribe(top, "news/#", "NEWS")
    run(right, "ALTER QMGR PARENT(LEFT)")
    run(top, "START CHANNEL(TOP.TO.RIGHT)")
    assert [row["QMNAME"] for row in right.mqsc("DISPLAY PUBSUB").rows] == ["RIGHT", "LEFT"]
    assert [row["QMNAME"] for row in top.mqsc("DISPLAY PUBSUB").rows] == ["TOP", "LEFT"]
    with right.session() as session:
        session.publish("news/sport", b"goal")
    assert bodies(top, "NEWS") == [b"goal"]


def test_a_farewell_that_finds_no_way_is_tried_again(tree: Tree, clock: VirtualClock) -> None:
    top, _left, right = tree
    subscribe(right, "news/#", "NEWS")
    run(right, "ALTER QLOCAL(TOP) PUT(DISABLED)")
    run(right, "ALTER QMGR PARENT(' ')")
    run(right, "ALTER QLOCAL(TOP) PUT(ENABLED)")
    assert proxies(top) == [("RIGHT", "news/#")]
    clock.advance(60_000)
    assert proxies(top) == []
    assert [row["QMNAME"] for row in top.mqsc("DISPLAY PUBSUB").rows] == ["TOP", "LEFT"]


def test_a_publication_that_cannot_leave_is_dead_lettered_as_it_travels(tree: Tree) -> None:
    """Moved back onto its way it is a publication there, topic and all."""
    top, left, _right = tree
    subscribe(left, "news/#", "NEWS")
    run(top, "ALTER QMGR DEADQ(SYSTEM.DEAD.LETTER.QUEUE)\nALTER QLOCAL(LEFT) PUT(DISABLED)")
    with top.session() as session:
        session.publish("news/sport", b"goal")
        letter = session.get("SYSTEM.DEAD.LETTER.QUEUE")
        assert letter is not None
        run(top, "ALTER QLOCAL(LEFT) PUT(ENABLED)")
        header, body = letter.body[:172], letter.body[172:]
        assert int.from_bytes(header[8:12], "little") == rc.MQRC_PUT_INHIBITED
        descriptor = letter.descriptor._replace(
            format="MQHRF2", encoding=c.MQENC_NORMAL, coded_char_set_id=1208
        )
        way = session.open(f"{PUBLICATIONS}@LEFT", c.MQOO_OUTPUT)
        way.put(body, PutRequest(descriptor))
    assert bodies(left, "NEWS") == [b"goal"]


def test_who_has_closed_does_not_connect_again(clock: VirtualClock) -> None:
    with QueueManager("TOP", clock=clock) as top:
        run(top, "ALTER QMGR PSMODE(ENABLED)")
        top.hierarchy.close()
        top.hierarchy.run_due()
        with top.session() as session:
            session.open(PUBLICATIONS, c.MQOO_INPUT_EXCLUSIVE).close()


@pytest.mark.slow
def test_a_tree_works_and_ends_on_a_real_clock() -> None:
    """Threads publish and subscribe; nothing blocks, is lost or stays behind."""
    threads_before = set(threading.enumerate())
    count = 50
    with QueueManager("TOP") as top, QueueManager("LEFT") as left, QueueManager("RIGHT") as right:
        for child in (left, right):
            connect(top, child)
        run(top, "ALTER QMGR PSMODE(ENABLED)")
        for child in (left, right):
            run(child, "ALTER QMGR PSMODE(ENABLED) PARENT(TOP)")
        subscribe(left, "news/#", "NEWS")
        wait_until(lambda: proxies(right) == [("TOP", "news/#")])

        def publish() -> None:
            with right.session() as session:
                for number in range(count):
                    session.publish("news/sport", b"%d" % number, persistent=True)

        def administer() -> None:
            for number in range(20):
                subscribe(top, f"other/{number}", "OTHER", f"S{number}")

        workers = [threading.Thread(target=work, daemon=True) for work in (publish, administer)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
            assert not worker.is_alive()
        with left.session() as session:
            handle = session.open("NEWS", c.MQOO_INPUT_SHARED)
            got = [handle.get(GetRequest(wait_ms=60_000), c.MQGMO_WAIT) for _ in range(count)]
        assert [result.message.body for result in got] == [b"%d" % n for n in range(count)]
        wait_until(lambda: len(proxies(left)) == 20)
        assert left.curdepth("NEWS") == 0
    assert set(threading.enumerate()) <= threads_before


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"[" * 100_000,
        Announcement("A@B", "", 1).packed(),
        *(
            json.dumps({**json.loads(Announcement("A", "", 1).packed()), **wrong}).encode()
            for wrong in (
                {"sender": 1},
                {"topics": [1]},
                {"topics": [""]},
                {"ended": [None]},
                {"ended": "a"},
                {"number": True},
                {"follows": "1"},
                {"asks": 0},
                {"more": 1},
            )
        ),
    ],
)
def test_an_announcement_is_checked(body: bytes) -> None:
    with pytest.raises(MQError):
        read_announcement(body)


def test_an_announcement_is_read_as_it_was_written() -> None:
    topics, ended = frozenset({"a/#", "ö"}), frozenset({"b"})
    written = Announcement("QM1", "QM0", 7, topics, ended, follows=5, asks=True)
    assert read_announcement(written.packed()) == written


def test_proxies_are_named_for_who_and_what() -> None:
    assert proxy_name("QM2", "a/b") == "SYSTEM.PROXY/QM2/a/b"
