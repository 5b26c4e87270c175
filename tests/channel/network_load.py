"""One end of a channel over the network, to be killed, in a process of its own.

Called as ``python -m tests.channel.network_load ROLE FOLDER PORT JOURNALS SEED [STEP VICTIM]``,
where ROLE is ``sends`` or ``receives``; it says ``ready`` when it begins. The sender keeps journals
as in load.py. When its link comes to a STEP for the first time, it kills the process VICTIM, 0 for
itself.
"""

import os
import signal
import sys
import threading
from pathlib import Path

from mayfly import QueueManager
from tests.channel.load import BATCH_SIZE, THREADS, put_for_ever
from tests.channel.network_scene import Served, lead_to
from tests.channel.scene import CHANNEL, FragileLink, receiving, sending


def receive(folder: Path, port: int) -> None:
    """Serve QM2."""
    Served(receiving(None, folder / "2"), port=port)


def kill_at(manager: QueueManager, step: str, victim: int) -> None:
    """Let the links of a sender kill a process when they come to a step."""
    connect, victims = manager.channels.connect, [victim]

    def at(where: str) -> None:
        if where == step and victims:
            os.kill(victims.pop(), signal.SIGKILL)

    manager.channels.connect = lambda definition: FragileLink(connect(definition), at)


def send(folder: Path, port: int, journals: Path, seed: str, *killing: str) -> None:
    """Put on QM1, whose channel leads to the port."""
    one = sending(None, folder / "1", BATCHSZ=BATCH_SIZE, SHORTTMR=1, SHORTRTY=999_999)
    lead_to(one, port)
    if killing:
        step, victim = killing
        kill_at(one, step, int(victim) or os.getpid())
    one.channels.start(CHANNEL)
    for n in range(THREADS):
        name = f"{seed}.{n}"
        threading.Thread(target=put_for_ever, args=(one, journals / name, name)).start()


def main() -> None:
    role, folder, port, journals, seed, *killing = sys.argv[1:]
    if role == "receives":
        receive(Path(folder), int(port))
    else:
        send(Path(folder), int(port), Path(journals), seed, *killing)
    print("ready", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
