"""A follower that goes on until it is killed: ``URL FOLDER``."""

import contextlib
import sys
import threading
from pathlib import Path

from mayfly.runtime import Runtime
from mayfly.store.replica.follower import Follower
from mayfly.store.replica.log import LogUnreachable

if __name__ == "__main__":
    follower = Follower(sys.argv[1], "QM1", Path(sys.argv[2]), Runtime())
    print("ready", flush=True)
    while True:
        with contextlib.suppress(LogUnreachable):
            follower.catch_up()
        threading.Event().wait(0.02)
