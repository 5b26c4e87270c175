"""An owner that commits random units until it is killed: ``URL FOLDER JOURNALS SEED LEASE_MS``.

Puts with delays, expiries and reports, gets and backouts. Each line of its journal is a unit that
was acknowledged: the MsgIds that it has put and those that it has got.
"""

import os
import random
import sys
from pathlib import Path

from mayfly import QueueManager
from mayfly.mqi import constants as c
from mayfly.store.store import Checkpointer

QUEUES = ("Q1", "Q2")


def run(url: str, folder: Path, journals: Path, seed: str, lease_ms: int) -> None:
    # The log of SQLite begins anew a few times a second.
    Checkpointer.PAGES_BEFORE_CHECKPOINT = 300
    chance = random.Random(seed)
    with (
        (journals / seed).open("w") as journal,
        QueueManager("QM1", folder, replica=url, replica_lease_ms=lease_ms) as qm,
        qm.session(transacted=True) as session,
    ):
        for name in (*QUEUES, "REPLIES"):
            qm.define_queue(name, replace=True)
        print("ready", flush=True)
        while True:
            puts = [
                session.put(
                    chance.choice(QUEUES),
                    os.urandom(chance.choice((10, 100, 9_000))),
                    persistent=True,
                    delay_ms=chance.choice((0, 0, 5, 50)),
                    time_to_live_ms=chance.choice((None, None, 60, 200)),
                    reply_to_q="REPLIES",
                    report=chance.choice((c.MQRO_NONE, c.MQRO_EXPIRATION)),
                )
                for _ in range(3)
            ]
            found = [session.get(chance.choice(QUEUES)) for _ in range(chance.randrange(5))]
            if chance.random() < 0.1:
                session.backout()
                continue
            session.commit()
            gets = [message.msg_id for message in found if message is not None]
            words = (",".join(each.hex() for each in ids) for ids in (puts, gets))
            print("|".join(words), file=journal, flush=True)


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
