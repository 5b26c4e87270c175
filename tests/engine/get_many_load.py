"""A process that gets many messages by each call, and says which, until it is killed.

Called as ``python -m tests.engine.get_many_load FOLDER``: each line has the bodies of one call,
written when the call has returned. The calls are outside of units of work.
"""

import sys

from mayfly import QueueManager


def main() -> None:
    session = QueueManager("QM1", sys.argv[1]).session()
    while found := session.get_many("Q1", 5):
        print(*(message.body.decode() for message in found), flush=True)


if __name__ == "__main__":
    main()
