"""Publish/subscribe on many threads: nothing is lost, left behind, or counted wrong."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from threading import Barrier, Event, Thread

import apsw
import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.store.database import DATABASE_FILE
from mayfly.testing import VirtualClock
from tests.spec.pubsub_scene import available_only
from tests.spec.scene import JOIN_SECONDS, START_MS, local

_PUBLICATIONS = 60
_ENDS = 60


@pytest.fixture(params=["memory", "folder"])
def qm(request: pytest.FixtureRequest, tmp_path: Path) -> QueueManager:
    folder = tmp_path / "QM1" if request.param == "folder" else None
    return QueueManager("QM1", folder, clock=VirtualClock(START_MS))


def on_threads(*calls: object) -> None:
    """Run calls together and raise what one of them raised."""
    errors: list[BaseException] = []
    barrier = Barrier(len(calls))

    def run(call: object) -> None:
        assert callable(call)
        barrier.wait()
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised again by the test's own thread
            errors.append(error)

    threads = [Thread(target=run, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(JOIN_SECONDS)
        assert not thread.is_alive(), "a call did not come back"
    if errors:
        raise errors[0]


def test_every_copy_arrives_once_while_others_come_and_go(qm: QueueManager) -> None:
    local(qm, "STAYS", MAXDEPTH=10_000)

    def publish() -> None:
        with qm.session(transacted=True) as unit:
            for number in range(_PUBLICATIONS):
                unit.publish("a/b", b"%d" % number, persistent=bool(number % 2), retain=True)
                if number % 7 == 3:
                    unit.backout()
                else:
                    unit.commit()

    def come_and_go() -> None:
        for number in range(_PUBLICATIONS):
            with qm.session() as session:
                subscription = session.subscribe(("a/+", "#", "a/b")[number % 3])
                subscription.get()
                if number % 2:
                    subscription.close()

    with qm.session() as session:
        session.subscribe("a/#", queue="STAYS")
        on_threads(publish, publish, come_and_go, come_and_go)
        found = Counter[bytes]()
        while (message := session.get("STAYS")) is not None:
            found[message.body] += 1
        committed = [n for n in range(_PUBLICATIONS) if n % 7 != 3]
        assert found == Counter({b"%d" % n: 2 for n in committed})
        session.subscribe("x").close()
        assert qm.curdepth("SYSTEM.RETAINED.PUB.QUEUE") == 1
        left = [q.name for q in qm.engine.registry.queues() if q.name.startswith("SYSTEM.MANAGED.")]
        assert left == []
    assert qm.verify().ok
    qm.close()


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["clear", "empty", "newer"])
def test_what_was_retained_is_off_the_disk_when_its_end_is_acknowledged(
    tmp_path: Path, ending: str
) -> None:
    """Whoever else is at work: nobody is told of an end that a crash could take back."""
    qm = QueueManager("QM1", tmp_path / "QM1", clock=VirtualClock(START_MS))
    local(qm, MAXDEPTH=1_000_000)
    reader = apsw.Connection(str(tmp_path / "QM1" / DATABASE_FILE))
    is_over = Event()

    def on_disk() -> list[str]:
        found = reader.execute("SELECT topic FROM message WHERE topic IS NOT NULL")
        return [str(topic) for (topic,) in found]

    def end(unit: Session) -> None:
        if ending == "clear":
            unit.clear_retained("a")
            return
        # What is retained by one that is not persistent is not on the disk.
        unit.publish("a", b"" if ending == "empty" else b"y", retain=True)
        unit.commit()

    def publish() -> None:
        try:
            with qm.session() as session, qm.session(transacted=True) as unit:
                for _ in range(_ENDS):
                    session.publish("a", b"x", retain=True, persistent=True)
                    assert on_disk() == ["a"]
                    end(unit)
                    assert on_disk() == []
        finally:
            is_over.set()

    def put() -> None:
        """Whoever puts runs what others have left to do; a look at the disk reads all that stay."""
        with qm.session() as session:
            while not is_over.is_set():
                session.put("Q1", b"x", persistent=True)
                session.get("Q1")

    on_threads(publish, *[put] * 3)
    reader.close()
    assert qm.verify().ok
    qm.close()


def test_one_of_many_who_ask_for_a_name_has_it(qm: QueueManager) -> None:
    reasons: list[int] = []

    def ask() -> None:
        with qm.session() as session:
            for _ in range(20):
                try:
                    session.subscribe("a", name="D", durable=True).close(remove=True)
                except MQError as error:
                    reasons.append(error.reason)

    on_threads(ask, ask, ask)
    assert set(reasons) <= {
        rc.MQRC_SUB_ALREADY_EXISTS,
        rc.MQRC_SUBSCRIPTION_IN_USE,
        rc.MQRC_NO_SUBSCRIPTION,
    }
    assert len(qm.engine.registry.subscriptions) == 0
    with qm.session() as session:
        session.subscribe("x").close()
    assert not [q for q in qm.engine.registry.queues() if q.name.startswith("SYSTEM.MANAGED.")]
    assert qm.verify().ok
    qm.close()


def test_subscriptions_expire_while_definitions_change(qm: QueueManager) -> None:
    """The clock never waits for who holds the definitions and waits for the clock."""
    available_only(qm)
    clock = qm.clock
    assert isinstance(clock, VirtualClock)
    reasons: set[int] = set()

    def subscribe() -> None:
        with qm.session() as session:
            for number in range(_PUBLICATIONS):
                life_ms = 1 + number % 5
                try:
                    session.subscribe("a", name=f"D{number}", durable=True, time_to_live_ms=life_ms)
                except MQError as error:
                    # Its life was over before it was open.
                    reasons.add(error.reason)
                session.publish("a", b"x", delay_ms=3, persistent=True)

    def define() -> None:
        for number in range(_PUBLICATIONS):
            assert qm.mqsc(f"DEFINE QLOCAL(Q{number})\nDELETE QLOCAL(Q{number})").ok

    def advance() -> None:
        for _ in range(_PUBLICATIONS * 2):
            clock.advance(1)

    on_threads(subscribe, define, advance)
    assert reasons <= {rc.MQRC_NO_SUBSCRIPTION}
    clock.advance(10)
    with qm.session() as session:
        session.subscribe("x").close()
    assert len(qm.engine.registry.subscriptions) == 0
    assert qm.curdepth("SYSTEM.DDELAY.LOCAL.QUEUE") == 0
    assert not [q for q in qm.engine.registry.queues() if q.name.startswith("SYSTEM.MANAGED.")]
    assert qm.verify().ok
    qm.close()
