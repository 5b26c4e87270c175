"""A process that is killed with deliveries; ``python -m tests.connection.held_load FOLDER``.

Of eight messages it settles four, each in another way, and holds two; two it never gets. Then it
says ``ready`` and waits.
"""

import sys

from mayfly import QueueManager
from mayfly.client.connection import LocalConnection
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Settlement
from tests.connection.scene import BOTH_WAYS, got


def main() -> None:
    manager = QueueManager("QM1", sys.argv[1])
    connection = LocalConnection(manager.session(), manager)
    queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
    numbers = [got(connection, queue).number for _ in range(6)]
    for number, settlement in zip(numbers, Settlement, strict=False):
        connection.call(ask.Settle([number], settlement, reason=2001))
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
