"""A process that has backed one message out to a queue with BODELAY, and holds another.

Called as ``python -m tests.spec.redelivery_load FOLDER``. It says ``ready`` and waits to be killed.
"""

import sys

from mayfly import QueueManager


def main() -> None:
    manager = QueueManager("QM1", sys.argv[1])
    unit = manager.session(transacted=True)
    unit.get("Q1")
    unit.backout()
    unit.get("Q1")
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
