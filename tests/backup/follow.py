"""A process that copies a folder to a place on and on: ``FOLDER PLACE``; SIGTERM ends it."""

import signal
import sys
from pathlib import Path

from mayfly.store.backup.copying import Copier
from mayfly.store.backup.objects import Secrets

if __name__ == "__main__":
    copier = Copier(Path(sys.argv[1]), "QM1", sys.argv[2], Secrets(None), "0")
    signal.signal(signal.SIGTERM, lambda _number, _frame: copier.stop())
    print("ready", flush=True)
    copier.follow(lambda _done, _all: None, lambda _copied: print("whole", flush=True))
