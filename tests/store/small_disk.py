"""Fills a small disk with messages and drains it; test_full_disk.py mounts one and runs this.

Prints what it has found as JSON. With "late" the thread that keeps the log never writes it back.
"""

import json
import os
import shutil
import sys
from pathlib import Path

from mayfly import MQError, QueueManager
from mayfly.runtime import Files
from mayfly.store.disk_space import BALLAST_FILE, Ballast
from mayfly.store.store import Checkpointer
from mayfly.testing import VirtualClock

BODY = os.urandom(40_000)
#: More than the disk holds.
MANY = 1_000_000


def fill(qm: QueueManager) -> tuple[int, int]:
    """Put until that is refused; return how many there were, and the reason code."""
    with qm.session() as session:
        for count in range(MANY):
            try:
                session.put("Q1", BODY, persistent=True, time_to_live_ms=1_000)
            except MQError as error:
                return count, error.reason
    raise AssertionError("the disk is not small")


def drain(qm: QueueManager, limit: int = MANY) -> int:
    """Get until nothing is left, each message in a transaction; return how many there were."""
    with qm.session() as session:
        for count in range(limit):
            if session.get("Q1") is None:
                return count
    return limit


def comes_back(folder: Path, pages_less: int) -> bool:
    """Return whether a ballast comes back where twice its size is free, less some pages."""
    folder.mkdir()
    (folder / BALLAST_FILE).touch()
    ballast, disk = Ballast(folder, Files()), os.statvfs(folder)
    assert ballast.is_given_up
    free_bytes = 2 * ballast.size_bytes - pages_less * disk.f_frsize
    with (folder / "filler").open("wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, disk.f_bavail * disk.f_frsize - free_bytes)
    is_back = ballast.restore(0)
    assert (folder / BALLAST_FILE).stat().st_size == (ballast.size_bytes if is_back else 0)
    shutil.rmtree(folder)
    return is_back


def put_large_unit(qm: QueueManager) -> int:
    """Put more in a unit of work than half of what the disk has free; return the reason code."""
    assert qm.engine.store.folder is not None
    ballast, large = qm.engine.store.folder / BALLAST_FILE, bytes(1_000_000)
    with qm.session() as session:
        while not ballast.exists() or not ballast.stat().st_size:
            session.put("Q1", BODY, persistent=True)
            session.get("Q1")
    disk = os.statvfs(qm.engine.store.folder)
    with qm.session(transacted=True) as session:
        for _ in range(disk.f_bavail * disk.f_frsize * 6 // 10 // len(large)):
            session.put("Q1", large, persistent=True)
        try:
            session.commit()
        except MQError as error:
            return error.reason
    return 0


def main(folder: Path) -> None:
    clock, found = VirtualClock(), dict[str, object]()
    found["comes back"] = [comes_back(folder.with_name("other"), pages) for pages in (1, 0)]
    ballast = folder / BALLAST_FILE
    with QueueManager("QM1", folder, clock) as qm:
        assert qm.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(999999999)").ok
        found["filled"] = fill(qm)
        found["ballast"] = ballast.stat().st_size
        found["got some"] = drain(qm, 50)
        found["refused"] = fill(qm)
        found["got all"] = drain(qm)
        found["problems"] = qm.verify().problems
        found["filled again"] = fill(qm)
    # Closed and opened while it is full; messages that have expired by then are discarded.
    clock.advance(1_000)
    with QueueManager("QM1", folder, clock) as qm:
        found["depth"] = qm.curdepth("Q1")
        found["got expired"] = drain(qm)
        found["problems later"] = qm.verify().problems
        found["filled later"] = fill(qm)
        found["got later"] = drain(qm)
    shutil.rmtree(folder)
    with QueueManager("QM1", folder, clock) as qm:
        assert qm.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(999999999)").ok
        found["large unit"] = put_large_unit(qm)
        found["filled after it"] = fill(qm)
        found["got after it"] = drain(qm)
    print(json.dumps(found))


if sys.argv[2] == "late":
    Checkpointer._checkpoint = lambda *_: None  # type: ignore[method-assign]  # a busy machine
main(Path(sys.argv[1]))
