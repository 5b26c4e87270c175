"""Selectors that cost as much as their writers could make them, while others put and get."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

import pytest

from mayfly import QueueManager
from mayfly.engine import Session

#: Pairs of a put and a get by another session that one of these searches lets through, at least.
PAIRS = 20


def like(pattern: str, count: int) -> str:
    """Return a selector of many conditions that all fail, each after a look at the whole text."""
    conditions = [f"t LIKE '%{pattern}{number}%'" for number in range(count)]
    return " OR ".join(conditions)


def run(manager: QueueManager, search: Callable[[Session], object]) -> None:
    """Run a search on a thread, and pairs of others until it is over."""
    over: list[object] = []

    def run_search() -> None:
        with manager.session() as session:
            over.append(search(session))

    with manager.session() as session:
        thread = Thread(target=run_search)
        thread.start()
        pairs = 0
        while thread.is_alive():
            session.put("OTHER", b"x")
            assert session.get("OTHER") is not None
            pairs += 1
        thread.join()
    assert over == [None]
    assert pairs >= PAIRS


@pytest.fixture
def manager(queue_manager: QueueManager) -> QueueManager:
    """Return a queue manager with queues for long messages and for short ones."""
    assert queue_manager.mqsc("ALTER QMGR MAXMSGL(100000000)").ok
    assert queue_manager.mqsc("DEFINE QLOCAL(LONG) MAXMSGL(100000000)").ok
    assert queue_manager.mqsc("DEFINE QLOCAL(OTHER)").ok
    return queue_manager


@pytest.mark.soak
@pytest.mark.parametrize(
    "pattern", ["a" * 5_000 + "b", "a_" * 2_500 + "b", "a_b", "a%" * 2_500 + "b", "_" * 5_000 + "b"]
)
def test_one_long_property_and_one_long_pattern(manager: QueueManager, pattern: str) -> None:
    with manager.session() as session:
        session.put("LONG", b"", properties={"t": "a" * 3_000_000})
    if pattern.startswith(("a%", "_")):
        # These are over at once.
        with manager.session() as session:
            assert session.get("LONG", selector=f"t LIKE '%{pattern}%'") is None
        return
    selector = f"t LIKE '%{pattern}%'"

    def search(session: Session) -> None:
        for _ in range(20 if "_" not in pattern else 1):
            assert session.get("LONG", selector=selector) is None

    run(manager, search)


@pytest.mark.soak
def test_many_messages_and_many_conditions(manager: QueueManager) -> None:
    with manager.session() as session:
        for _ in range(200):
            session.put("LONG", b"", properties={"t": "a" * 20_000})

    def search(session: Session) -> None:
        assert session.get("LONG", selector=like("aab", 480)) is None

    run(manager, search)


@pytest.mark.soak
def test_many_waiting_gets_and_one_arrival(manager: QueueManager) -> None:
    """Each has a selector of its own; whoever puts asks none of them."""
    selectors = [like(f"aab{number}", 300) for number in range(20)]

    def wait(selector: str) -> None:
        with manager.session() as session:
            session.get("LONG", wait_ms=600_000, selector=selector)

    threads = [Thread(target=wait, args=(selector,)) for selector in selectors]
    for thread in threads:
        thread.start()

    def search(session: Session) -> None:
        for number in range(20):
            session.put("LONG", b"", properties={"t": "a" * 20_000})
            found = f"{'a' * 20_000}aab{number}0"
            session.put("LONG", b"", properties={"t": found})
        for thread in threads:
            thread.join()

    run(manager, search)
    assert manager.curdepth("LONG") == 20


@pytest.mark.soak
def test_many_subscriptions_and_one_publication(manager: QueueManager) -> None:
    with manager.session() as session:
        subscriptions = [
            session.subscribe("a/#", selector=f"{like(f'aab{number}', 300)} OR t LIKE '%a%z'")
            for number in range(20)
        ]

        def search(session: Session) -> None:
            for number in range(4):
                ends = "z" if number == 3 else "y"
                properties = {"t": "a" * 20_000 + ends}
                session.publish(f"a/{number}", b"", properties=properties, retain=True)
            for _ in range(10):
                session.subscribe("a/#", selector=like("aab", 300)).close()

        run(manager, search)
        for subscription in subscriptions:
            assert subscription.get() is not None
            assert subscription.get() is None
