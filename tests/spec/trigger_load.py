"""A process that puts to queues that trigger until it is killed.

Called as ``python -m tests.spec.trigger_load FOLDER``; it says ``ready`` when it has put as much as
lets all of them trigger, then goes on with the queue whose trigger is switched on again and again.
"""

import sys

from mayfly import QueueManager
from tests.spec.scene import alter
from tests.spec.trigger_scene import DEPTH, EVERY, FIRST, ON, Monitor, triggering

THRESHOLD = 3


def main() -> None:
    with QueueManager("QM1", sys.argv[1]) as manager, manager.session() as session:
        triggering(manager, "FIRST", TRIGTYPE=FIRST)
        triggering(manager, "EVERY", TRIGTYPE=EVERY)
        for name in ("DEPTH", "AGAIN"):
            triggering(manager, name, TRIGTYPE=DEPTH, TRIGDPTH=THRESHOLD)
        Monitor(session)
        for _ in range(THRESHOLD):
            for name in ("FIRST", "EVERY", "DEPTH"):
                session.put(name, b"x", persistent=True)
        print("ready", flush=True)
        while True:
            for _ in range(THRESHOLD):
                session.put("AGAIN", b"x", persistent=True)
            while session.get("AGAIN") is not None:
                pass
            alter(manager, "AGAIN", TRIGGER=ON)


if __name__ == "__main__":
    main()
