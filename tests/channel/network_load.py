"""One end of a channel over the network, to be killed, in a process of its own.

Called as ``python -m tests.channel.network_load ROLE FOLDER PORT JOURNALS SEED``, where ROLE is
``sends`` or ``receives``; it says ``ready`` when it begins. Who sends keeps journals as in load.py.
"""

import sys
import threading
from pathlib import Path

from tests.channel.load import BATCH_SIZE, THREADS, put_for_ever
from tests.channel.network_scene import Served, lead_to
from tests.channel.scene import CHANNEL, receiving, sending


def receive(folder: Path, port: int) -> None:
    """Serve QM2."""
    Served(receiving(None, folder / "2"), port=port)


def send(folder: Path, port: int, journals: Path, seed: str) -> None:
    """Put on QM1, whose channel leads to the port."""
    one = sending(None, folder / "1", BATCHSZ=BATCH_SIZE, SHORTTMR=1, SHORTRTY=999_999)
    lead_to(one, port)
    one.channels.start(CHANNEL)
    for n in range(THREADS):
        name = f"{seed}.{n}"
        threading.Thread(target=put_for_ever, args=(one, journals / name, name)).start()


def main() -> None:
    role, folder, port, journals, seed = sys.argv[1:]
    if role == "receives":
        receive(Path(folder), int(port))
    else:
        send(Path(folder), int(port), Path(journals), seed)
    print("ready", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
