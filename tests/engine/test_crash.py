"""``crash()``: a queue manager ends as ``kill -9`` ends it, and its folder is recovered."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mayfly import MQError, QueueManager
from mayfly.mqi import reasons as rc
from mayfly.store.disk_space import BALLAST_FILE
from mayfly.testing import VirtualClock
from tests.spec.scene import Running, bodies, lives, local, refused, waiting


def in_use(qm: QueueManager) -> None:
    """Leave a bit of everything: durable, volatile, delayed, put and got in open units of work."""
    local(qm)
    session = qm.session()
    session.put("Q1", b"durable", persistent=True)
    session.put("Q1", b"volatile", persistent=False)
    session.put("Q1", b"got", persistent=True)
    session.put("Q1", b"delayed", persistent=True, delay_ms=60_000)
    for text in (b"one", b"two"):
        qm.session(transacted=True).put("Q1", text, persistent=True)


def test_crash_keeps_what_was_acknowledged_and_nothing_else(
    clock: VirtualClock, tmp_path: Path
) -> None:
    qm = QueueManager("QM1", tmp_path, clock)
    in_use(qm)
    taking = qm.session(transacted=True)
    assert [taking.get("Q1", msg_id=m.msg_id) for m in taking.browse("Q1") if m.body == b"got"]
    qm.crash()
    with QueueManager("QM1", tmp_path, clock) as again, again.session() as session:
        assert again.counts("Q1").staged == 1
        found = {m.body: m.backout_count for m in session.browse("Q1")}
        # Its get is counted as backed out, as after a kill (G8).
        assert found == {b"durable": 0, b"got": 1}
        assert again.verify().ok


def test_crash_leaves_the_folder_as_a_kill_does(clock: VirtualClock, tmp_path: Path) -> None:
    """The same program once crashed and once killed: the same is found by the next opening."""
    qm = QueueManager("QM1", tmp_path / "crashed", clock)
    in_use(qm)
    qm.crash()
    program = (
        "import os, sys; from pathlib import Path; from mayfly import QueueManager; "
        "from mayfly.testing import VirtualClock; from tests.engine.test_crash import in_use; "
        "in_use(QueueManager('QM1', Path(sys.argv[1]), VirtualClock())); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", program, tmp_path / "killed"], check=False)
    assert killed.returncode == -9
    files = [
        # A thread lays the ballast in, once so much was written; the end may come before it.
        sorted({f.name for f in (tmp_path / name).iterdir()} - {"mayfly.db-shm", BALLAST_FILE})
        for name in ("crashed", "killed")
    ]
    assert files[0] == files[1]
    assert "mayfly.db-wal" in files[0]
    found = []
    for name in ("crashed", "killed"):
        with QueueManager("QM1", tmp_path / name, clock) as again:
            outcomes = sorted(life.outcome for life in lives(again, "Q1"))
            totals = again.engine.store.ledger_writer.totals[
                again.engine.registry.queue("Q1").number
            ]
            found.append((outcomes, totals.present, totals.ended))
            assert bodies(again.session(), "Q1") == [b"durable", b"got"]
    assert found[0] == found[1]


def test_crash_ends_sessions_and_waits_with_a_broken_connection(
    clock: VirtualClock, tmp_path: Path
) -> None:
    qm = QueueManager("QM1", tmp_path, clock)
    local(qm)
    session = qm.session()
    getter: Running = waiting(qm, "Q1", lambda: session.get("Q1", wait_ms=-1))
    qm.crash()
    getter.finish()
    assert getter.error is not None
    assert getter.error.reason == rc.MQRC_CONNECTION_BROKEN
    for call in (lambda: session.put("Q1", b"x"), qm.verify, qm.session):
        with refused(rc.MQRC_CONNECTION_BROKEN):
            call()
    # Both are harmless, in whatever order.
    session.close()
    qm.crash()
    qm.close()
    clock.advance(60_000)


def test_crash_of_one_in_memory_loses_all(clock: VirtualClock) -> None:
    qm = QueueManager("QM1", clock=clock)
    in_use(qm)
    qm.crash()
    with pytest.raises(MQError):
        qm.session()
    with QueueManager("QM1", clock=clock) as again:
        assert again.engine.registry.by_name("Q1") is None


def test_crash_of_a_queue_manager_with_a_channel_that_runs(
    clock: VirtualClock, tmp_path: Path
) -> None:
    """What was sent is there once; the channel goes on when the folder is opened again."""
    with QueueManager("QM2", tmp_path / "QM2", clock) as two:
        two.mqsc("DEFINE CHANNEL(QM1.QM2) CHLTYPE(RCVR)\nDEFINE QLOCAL(Q2)")
        one = QueueManager("QM1", tmp_path / "QM1", clock)
        one.mqsc(
            "DEFINE QLOCAL(QM2) USAGE(XMITQ)\n"
            "DEFINE CHANNEL(QM1.QM2) CHLTYPE(SDR) CONNAME(QM2) XMITQ(QM2)\n"
            "DEFINE QREMOTE(R2) RNAME(Q2) RQMNAME(QM2) XMITQ(QM2)\nSTART CHANNEL(QM1.QM2)"
        )
        one.session().put("R2", b"1", persistent=True)
        clock.advance(1_000)
        assert two.curdepth("Q2") == 1
        one.crash()
        with QueueManager("QM1", tmp_path / "QM1", clock) as again:
            again.session().put("R2", b"2", persistent=True)
            clock.advance(60_000)
            assert bodies(two.session(), "Q2") == [b"1", b"2"]
            assert again.verify().ok
