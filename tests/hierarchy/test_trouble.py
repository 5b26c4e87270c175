"""What cannot be used, or not now, keeps nothing else waiting."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.channel.hierarchy import REQUESTS, RETRY_QUEUE, TURN_COUNT, Publications
from mayfly.engine import PutRequest
from mayfly.engine.api.transit import PUBLICATIONS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.properties import pack_folder, pack_header
from mayfly.testing import VirtualClock
from tests.hierarchy.scene import bodies, connect, proxies, run, subscribe
from tests.spec.scene import refused

Tree = tuple[QueueManager, QueueManager, QueueManager]
DEAD = "SYSTEM.DEAD.LETTER.QUEUE"


def publish(
    manager: QueueManager,
    body: bytes,
    *,
    persistent: bool = False,
    time_to_live_ms: int | None = None,
) -> None:
    with manager.session() as session:
        session.publish("news/sport", body, persistent=persistent, time_to_live_ms=time_to_live_ms)


def test_without_PSMODE_no_publication_leaves(tree: Tree) -> None:
    top, left, _right = tree
    subscribe(left, "news/#", "NEWS")
    run(top, "ALTER QMGR PSMODE(COMPAT)")
    with top.session() as session:
        assert session.publish("news/sport", b"kept here").matched_count == 0
    run(top, "ALTER QMGR PSMODE(ENABLED)")
    publish(top, b"goal")
    assert bodies(left, "NEWS") == [b"goal"]


def test_what_arrives_meanwhile_waits_for_PSMODE(tree: Tree) -> None:
    top, left, right = tree
    subscribe(left, "news/#", "NEWS")
    run(top, "ALTER QMGR PSMODE(COMPAT)")
    publish(right, b"goal")
    assert (top.curdepth(PUBLICATIONS), bodies(left, "NEWS")) == (1, [])
    run(top, "ALTER QMGR PSMODE(ENABLED)")
    assert bodies(left, "NEWS") == [b"goal"]


@pytest.mark.parametrize("persistent", [False, True])
def test_without_DEADQ_what_is_no_publication_keeps_nothing_waiting(
    tree: Tree, persistent: bool, caplog: pytest.LogCaptureFixture
) -> None:
    top, left, right = tree
    subscribe(left, "news/#", "NEWS")
    with caplog.at_level(logging.WARNING), top.session() as session:
        session.put(PUBLICATIONS, b"stray", persistent=persistent)
    assert sum("refused: MQRC_RFH_FORMAT_ERROR" in r.getMessage() for r in caplog.records) == 1
    publish(right, b"goal", persistent=True)
    assert bodies(left, "NEWS") == [b"goal"]
    assert (top.curdepth(PUBLICATIONS), top.curdepth(RETRY_QUEUE)) == (0, int(persistent))


def test_what_was_put_aside_is_tried_again_every_minute_in_its_order(
    tree: Tree, clock: VirtualClock
) -> None:
    """A durable subscriber whose queue is full must be reached by a persistent publication."""
    _top, left, right = tree
    subscribe(left, "news/#", "NEWS")
    run(left, "ALTER QLOCAL(NEWS) PUT(DISABLED)")
    for number in range(3):
        publish(right, b"%d" % number, persistent=True, time_to_live_ms=100_000 + number)
    publish(right, b"dropped", persistent=False)
    assert (left.curdepth(PUBLICATIONS), left.curdepth(RETRY_QUEUE)) == (0, 3)
    clock.advance(60_000)
    assert left.curdepth(RETRY_QUEUE) == 3
    run(left, "ALTER QLOCAL(NEWS) PUT(ENABLED)")
    clock.advance(40_000)
    assert left.curdepth(RETRY_QUEUE) == 3
    clock.advance(20_000)
    assert left.curdepth(RETRY_QUEUE) == 0
    assert bodies(left, "NEWS") == []
    run(left, "ALTER QLOCAL(NEWS) PUT(DISABLED)")
    for number in range(3):
        publish(right, b"%d" % number, persistent=True, time_to_live_ms=60_001)
    run(left, "ALTER QLOCAL(NEWS) PUT(ENABLED)")
    clock.advance(60_000)
    with left.session() as session:
        found = [session.get("NEWS") for _ in range(3)]
    assert [(m.body, m.remaining_ms) for m in found if m] == [(b"%d" % n, 1) for n in range(3)]


def test_what_was_put_aside_goes_to_a_dead_letter_queue_that_is_named_later(
    tree: Tree, clock: VirtualClock
) -> None:
    top, _left, _right = tree
    with top.session() as session:
        session.put(PUBLICATIONS, b"stray", persistent=True)
        run(top, f"ALTER QMGR DEADQ({DEAD})")
        assert top.curdepth(RETRY_QUEUE) == 1
        clock.advance(60_000)
        letter = session.get(DEAD)
    assert letter is not None
    assert int.from_bytes(letter.body[8:12], "little") == rc.MQRC_RFH_FORMAT_ERROR
    assert letter.body[12:60].rstrip() == PUBLICATIONS.encode()
    assert letter.body.endswith(b"stray")


def test_what_was_put_aside_is_tried_when_the_queue_manager_is_opened(
    clock: VirtualClock, tmp_path: Path
) -> None:
    with QueueManager("TOP", tmp_path, clock=clock) as top:
        run(top, "ALTER QMGR PSMODE(ENABLED)")
        with top.session() as session:
            session.put(PUBLICATIONS, b"stray", persistent=True)
        assert top.curdepth(RETRY_QUEUE) == 1
        run(top, f"ALTER QMGR DEADQ({DEAD})")
    with QueueManager("TOP", tmp_path, clock=clock) as top:
        clock.advance(0)
        assert (top.curdepth(RETRY_QUEUE), top.curdepth(DEAD)) == (0, 1)


def test_without_DEADQ_what_is_no_announcement_is_dropped(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    top, left, _right = tree
    with caplog.at_level(logging.WARNING), top.session() as session:
        session.put(REQUESTS, b"stray", persistent=True)
    assert any("no JSON" in r.getMessage() for r in caplog.records)
    subscribe(left, "news/#", "NEWS")
    assert (top.curdepth(REQUESTS), proxies(top)) == (0, [("LEFT", "news/#")])


def test_a_neighbour_without_a_way_keeps_the_others_from_nothing(
    tree: Tree, clock: VirtualClock
) -> None:
    top, left, right = tree
    run(top, "ALTER QLOCAL(LEFT) PUT(DISABLED)")
    subscribe(right, "news/#", "NEWS")
    assert proxies(top) == [("RIGHT", "news/#")]
    subscribe(right, "other", "OTHER")
    assert proxies(top) == [("RIGHT", "news/#"), ("RIGHT", "other")]
    subscribe(top, "news/#", "NEWS")
    assert ("TOP", "news/#") in proxies(right)
    publish(right, b"goal")
    assert bodies(top, "NEWS") == [b"goal"]
    assert proxies(left) == []
    run(top, "ALTER QLOCAL(LEFT) PUT(ENABLED)")
    clock.advance(59_999)
    assert proxies(left) == []
    clock.advance(1)
    assert proxies(left) == [("TOP", "news/#"), ("TOP", "other")]


def test_a_failing_neighbour_is_tried_once_a_minute_whatever_happens(
    tree: Tree, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    top, _left, right = tree
    subscribe(top, "news/#", "NEWS")
    run(top, "ALTER QLOCAL(LEFT) PUT(DISABLED)")
    run(top, "DEFINE TOPIC(SECRET) TOPICSTR('secret') SUB(DISABLED)")
    with caplog.at_level(logging.WARNING):
        subscribe(right, "secret", "SECRET")
        for number in range(5):
            subscribe(right, f"other/{number}", "OTHER", f"S{number}")
            publish(right, b"goal")
        clock.advance(60_000)
    said = [r.getMessage() for r in caplog.records]
    assert sum("no announcement to LEFT" in line for line in said) == 2
    # Each announcement of RIGHT asks for it anew, and in between nobody does.
    assert sum("proxies of RIGHT" in line for line in said) == 7


def test_a_proxy_that_is_refused_is_tried_again_and_nothing_else_waits(
    tree: Tree, clock: VirtualClock
) -> None:
    top, left, right = tree
    run(top, "DEFINE TOPIC(NEWS) TOPICSTR('news') SUB(DISABLED)")
    subscribe(left, "news/#", "NEWS")
    subscribe(right, "other", "OTHER")
    assert proxies(top) == [("RIGHT", "other")]
    subscribe(left, "other", "OTHER")
    assert proxies(top) == [("LEFT", "other"), ("RIGHT", "other")]
    run(top, "DELETE TOPIC(NEWS)")
    clock.advance(60_000)
    assert proxies(top) == [("LEFT", "news/#"), ("LEFT", "other"), ("RIGHT", "other")]


def test_queues_that_somebody_has_open_are_waited_for(clock: VirtualClock) -> None:
    with QueueManager("TOP", clock=clock) as top, QueueManager("CHILD", clock=clock) as child:
        connect(top, child)
        run(top, "ALTER QMGR PSMODE(ENABLED)\nALTER QMGR PSMODE(COMPAT)")
        with top.session() as session:
            handle = session.open(PUBLICATIONS, c.MQOO_INPUT_SHARED)
            run(top, "ALTER QMGR PSMODE(ENABLED)")
            run(child, "ALTER QMGR PSMODE(ENABLED) PARENT(TOP)")
            subscribe(child, "news/#", "NEWS")
            assert proxies(top) == []
            handle.close()
            clock.advance(60_000)
            assert proxies(top) == [("CHILD", "news/#")]
            with refused(rc.MQRC_OBJECT_IN_USE):
                session.open(REQUESTS, c.MQOO_INPUT_SHARED)


def test_GET_DISABLED_holds_it_up_and_no_longer(tree: Tree, clock: VirtualClock) -> None:
    top, left, right = tree
    subscribe(left, "news/#", "NEWS")
    run(top, f"ALTER QLOCAL({PUBLICATIONS}) GET(DISABLED)")
    publish(right, b"goal")
    assert top.curdepth(PUBLICATIONS) == 1
    run(top, f"ALTER QLOCAL({PUBLICATIONS}) GET(ENABLED)")
    clock.advance(60_000)
    assert bodies(left, "NEWS") == [b"goal"]


def test_a_flood_is_taken_in_turns(clock: VirtualClock) -> None:
    """Between two of them definitions can change, and announcements are heard."""
    with QueueManager("TOP", clock=clock) as top:
        run(top, "ALTER QMGR PSMODE(ENABLED)\nALTER QMGR PSMODE(COMPAT)")
        with top.session(transacted=True) as session:
            for _ in range(2 * TURN_COUNT + 1):
                session.put(PUBLICATIONS, b"stray", persistent=True)
            session.commit()
            publications = Publications(top.engine, session)
            found = [(publications.pass_on(), top.curdepth(PUBLICATIONS)) for _ in range(3)]
            assert found == [(True, TURN_COUNT + 1), (True, 1), (False, 0)]
            publications.try_again()
            assert top.curdepth(RETRY_QUEUE) == 2 * TURN_COUNT + 1
            first = next(iter(session.browse(RETRY_QUEUE)))
            assert first.backout_count == 0


def test_it_ends_with_a_queue_manager_that_breaks(tree: Tree, clock: VirtualClock) -> None:
    top, _left, right = tree
    subscribe(top, "news/#", "NEWS")
    top.engine.store.group.is_broken = True
    publish(right, b"goal", persistent=True)
    clock.advance(120_000)
    assert top.is_stopped
    assert right.curdepth("TOP") == 1


def test_an_envelope_of_an_earlier_version_is_read(tree: Tree) -> None:
    """It named the one queue manager that it had come from, and said nothing of retention."""
    top, left, _right = tree
    for manager in (top, left):
        subscribe(manager, "news/#", "NEWS")
    said = {"Top": "news/a", "Via": "LEFT", "Fmt": "", "Enc": "546", "Ccs": "1208", "Rep": "0"}
    folder = "".join(f"<{name}>{text}</{name}>" for name, text in said.items())
    body = pack_header(pack_folder(f"<mqps>{folder}</mqps>"), "") + b"goal"
    outside = Descriptor(format="MQHRF2", encoding=c.MQENC_NORMAL, coded_char_set_id=1208)
    with top.session() as session:
        session.open(PUBLICATIONS, c.MQOO_OUTPUT).put(body, PutRequest(outside))
    assert (bodies(top, "NEWS"), bodies(left, "NEWS")) == ([b"goal"], [])
    assert top.engine.registry.retained == {}
