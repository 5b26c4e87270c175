"""A process with a group, two members and a stranger that is killed as one of their stores commits.

Called as ``python -m tests.sharing.dying FOLDER WHO COUNT WORK``: when WHO commits for the COUNT-th
time since WORK began, the kernel ends the process, before that commit is on the disk.
"""

import os
import signal
import sys
from itertools import count
from pathlib import Path

from mayfly import QueueManager, QueueSharingGroup
from mayfly.engine import Engine
from mayfly.testing import VirtualClock
from tests.sharing.scene import PRIVATE, SHARED
from tests.spec.scene import START_MS

CHANNEL = "QM9.TO.QM1"
DELAY_MS = 1_000
MOVED = 3


def unit(managers: dict[str, QueueManager], _clock: VirtualClock) -> None:
    """Get from a private queue and put on the shared one; get from that, put on a private one."""
    qm1, qm2 = managers["QM1"], managers["QM2"]
    with qm1.session(transacted=True) as one:
        for _ in range(MOVED):
            message = one.get(PRIVATE)
            assert message is not None
            one.put(SHARED, message.body, persistent=True)
    with qm2.session(transacted=True) as two:
        for _ in range(MOVED):
            message = two.get(SHARED)
            assert message is not None
            two.put(PRIVATE, message.body, persistent=True)
            two.put("PRIVATE.Q@QM1", message.body + b" copy", persistent=True)


def release(_managers: dict[str, QueueManager], clock: VirtualClock) -> None:
    """Let the delayed messages go."""
    clock.advance(DELAY_MS)


def move(managers: dict[str, QueueManager], _clock: VirtualClock) -> None:
    """Let the channel of QM9, which is no member, bring QM1 what it has."""
    managers["QM9"].channels.start(CHANNEL)


WORKS = {"unit": unit, "release": release, "move": move}


def kill_at_commit(engine: Engine, number: int) -> None:
    """End the process as a store commits for the n-th time from now."""
    commits = count(1)

    def committing() -> bool:
        if next(commits) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return False

    engine.store.persistent.writer.set_commit_hook(committing)


def main() -> None:
    folder, who, number, work = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
    clock = VirtualClock(START_MS)
    group = QueueSharingGroup("QSG1", folder / "QSG1", clock)
    managers = {n: QueueManager(n, folder / n, sharing_group=group) for n in ("QM1", "QM2")}
    managers["QM9"] = QueueManager("QM9", folder / "QM9", clock)
    kill_at_commit((group if who == "QSG1" else managers[who]).engine, number)
    WORKS[work](managers, clock)


if __name__ == "__main__":
    main()
