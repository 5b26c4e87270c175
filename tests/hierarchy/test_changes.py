"""Definitions that change while publications are under way, by threads on a real clock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from mayfly import QueueManager
from mayfly.channel.hierarchy import REQUESTS, RETRY_QUEUE
from mayfly.engine import GetRequest
from mayfly.engine.api.transit import PUBLICATIONS
from mayfly.mqi import constants as c
from tests.facts import wait_until
from tests.hierarchy.scene import connect, proxies, run, subscribe

Tree = tuple[QueueManager, QueueManager, QueueManager]
DEAD = "SYSTEM.DEAD.LETTER.QUEUE"
COUNT = 150


@pytest.fixture
def real_tree() -> Iterator[Tree]:
    """TOP, and LEFT and RIGHT below it, on the machine's clock, with dead-letter queues."""
    with ExitStack() as stack:
        top, left, right = tree = tuple(
            stack.enter_context(QueueManager(name)) for name in ("TOP", "LEFT", "RIGHT")
        )
        for manager in tree:
            run(manager, f"ALTER QMGR DEADQ({DEAD})")
        for child in (left, right):
            connect(top, child)
        run(top, "ALTER QMGR PSMODE(ENABLED)")
        for child in (left, right):
            run(child, "ALTER QMGR PSMODE(ENABLED) PARENT(TOP)")
        yield top, left, right


def publish(manager: QueueManager) -> None:
    with manager.session() as session:
        for number in range(COUNT):
            session.publish(
                "news/sport",
                b"%d" % number,
                persistent=bool(number % 2),
                properties={"number": number} if number % 3 else None,
            )


def while_running(work: Callable[[], None], *others: Callable[[], None]) -> None:
    """Do a work in one thread, and others again and again in theirs until it is done."""
    is_done = threading.Event()

    def repeat(other: Callable[[], None]) -> None:
        while not is_done.is_set():
            other()

    threads = [threading.Thread(target=repeat, args=(o,), daemon=True) for o in others]
    worker = threading.Thread(target=work, daemon=True)
    for thread in (*threads, worker):
        thread.start()
    worker.join(60)
    is_done.set()
    for thread in (*threads, worker):
        thread.join(60)
        assert not thread.is_alive()


def toggled(manager: QueueManager) -> Callable[[], None]:
    def toggle() -> None:
        run(manager, "ALTER QMGR PSMODE(COMPAT)")
        run(manager, "ALTER QMGR PSMODE(ENABLED)")

    return toggle


def has_each_once(manager: QueueManager) -> bool:
    """Get all publications, waiting for them; tell whether they are those of one publisher.

    Those of one persistence have kept their order; on fast channels others overtake them.
    """
    with manager.session() as session:
        handle = session.open("NEWS", c.MQOO_INPUT_SHARED)
        got = [handle.get(GetRequest(wait_ms=60_000), c.MQGMO_WAIT) for _ in range(COUNT)]
    numbers = [int(result.message.data) for result in got]
    in_order = [[n for n in numbers if n % 2 == kind] for kind in (0, 1)]
    expected = [list(range(kind, COUNT, 2)) for kind in (0, 1)]
    return in_order == expected and manager.curdepth("NEWS") == 0


def is_at_rest(tree: Tree) -> bool:
    """Tell whether nothing is on its way between queue managers."""
    names = (PUBLICATIONS, RETRY_QUEUE, REQUESTS, *(manager.name for manager in tree))
    depths = [m.curdepth(n) for m in tree for n in names if m.engine.registry.find(n) is not None]
    return not any(depths)


@pytest.mark.slow
def test_PSMODE_and_subscriptions_change_while_publications_pass(real_tree: Tree) -> None:
    """Whoever is switched off for a while publishes what has come as it is switched on again."""
    top, left, right = real_tree
    subscribe(left, "news/#", "NEWS")
    subscribe(top, "news/#", "NEWS")
    wait_until(lambda: proxies(right) == [("TOP", "news/#")])

    def come_and_go() -> None:
        subscribe(left, "news/+", "OTHER")
        run(left, "DELETE SUB('OTHER')")

    while_running(lambda: publish(right), toggled(top), toggled(left), come_and_go)
    assert has_each_once(left)
    assert has_each_once(top)
    wait_until(lambda: is_at_rest(real_tree) and proxies(top) == [("LEFT", "news/#")])
    for manager in real_tree:
        assert manager.curdepth(DEAD) == 0
        assert manager.verify().ok


@pytest.mark.slow
def test_PARENT_changes_while_publications_pass(real_tree: Tree) -> None:
    """Some may come twice or not at all then; all is as before when it has come to rest."""
    top, left, right = real_tree
    connect(left, right)
    for manager in real_tree:
        subscribe(manager, "news/#", "NEWS")
    wait_until(lambda: proxies(left) == [("TOP", "news/#")])

    def move() -> None:
        run(right, "ALTER QMGR PARENT(LEFT)")
        run(right, "ALTER QMGR PARENT(TOP)")

    while_running(lambda: publish(top), move, toggled(left))
    from_top = [("TOP", "news/#")]
    wanted = [[("LEFT", "news/#"), ("RIGHT", "news/#")], from_top, from_top]
    wait_until(
        lambda: (
            is_at_rest(real_tree)
            and [proxies(manager) for manager in real_tree] == wanted
            and all(manager.mqsc("CLEAR QLOCAL(NEWS)").ok for manager in real_tree)
        )
    )
    publish(right)
    for manager in real_tree:
        assert has_each_once(manager)
        assert manager.verify().ok
