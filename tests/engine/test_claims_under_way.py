"""What others see of a claim while it is made durable."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest

from mayfly import QueueManager
from mayfly.engine.api.bulk import ClaimLimit as Limit
from mayfly.verbs.contracts.claims import ConsumerState


@pytest.mark.slow
def test_standings_count_the_messages_of_a_claim_that_is_under_way(tmp_path: Path) -> None:
    """Whoever sees an empty queue and then no claim may be sure that all has come through."""
    standings: list[ConsumerState] = []
    with QueueManager("QM1", tmp_path) as qm, qm.session() as session:
        qm.mqsc("DEFINE QLOCAL(Q1) DEFPSIST(YES)")
        for _ in range(3):
            session.put("Q1", b"")
        epoch = qm.claims.attach("reader", "Q1").epoch
        with qm.engine.engine_lock:
            qm.engine.committer.pause()
        claiming = Thread(
            target=qm.claims.claim, args=("reader", epoch, 0, Limit(10, 2**20)), daemon=True
        )
        claiming.start()
        while qm.counts("Q1").locked != 3:
            claiming.join(0.01)
        assert not list(session.browse("Q1"))
        asking = Thread(target=lambda: standings.extend(qm.claims.consistent_states()), daemon=True)
        asking.start()
        asking.join(0.2)
        with qm.engine.engine_lock:
            qm.engine.committer.resume()
        asking.join()
        claiming.join()
    assert [standing.message_count for standing in standings] == [3]
