"""A process that has got messages under syncpoint when it is killed.

Called as ``python -m tests.spec.interrupted_load FOLDER``. Of the messages on each queue it gets
the first and commits, gets the second and backs out, gets two and keeps them, and gets one without
syncpoint. Then it says ``ready`` and waits.
"""

import sys

from mayfly import QueueManager
from mayfly.engine import GetRequest
from mayfly.mqi.constants import MQOO_INPUT_SHARED

QUEUES = ("HARD", "SOFT")


def main() -> None:
    manager = QueueManager("QM1", sys.argv[1])
    session = manager.session()
    units = [manager.session(transacted=True) for _ in QUEUES]
    for name, unit in zip(QUEUES, units, strict=True):
        unit.get(name)
        unit.commit()
        unit.get(name)
        unit.backout()
        # Got again: it has been backed out before.
        unit.get(name)
        unit.get(name)
        # In memory: it is lost like all that is not persistent.
        session.put(name, b"volatile", persistent=False, priority=9)
        unit.get(name)
        handle = session.open(name, MQOO_INPUT_SHARED)
        assert handle.get(GetRequest()).message.body == b"4"
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
