"""Staged messages are found whatever moves them between two reads."""

from __future__ import annotations

from typing import cast

import pytest

from mayfly import QueueManager
from mayfly.store.keys import STAGING_LOW, STAGING_NUMBER, id_hash, key_of_delayed_id, staging_key
from mayfly.store.messages import Messages
from mayfly.store.units import StoredMessage, Unit
from tests.store.scene import NOW_MS, life, new_row, opened


class MovedBetween(Messages):
    """Moves a message to another key, as another transaction does, behind its first read."""

    key: int | None = None

    def row(self, key: int) -> StoredMessage | None:
        """Read, then move."""
        found = super().row(key)
        self._move()
        return found

    def by_msg_hash(self, msg_hash: int, low: int, high: int, limit: int) -> list[StoredMessage]:
        """Read, then move."""
        found = super().by_msg_hash(msg_hash, low, high, limit)
        self._move()
        return found

    def _move(self) -> None:
        key, self.key = self.key, None
        if key is not None:
            moved = "UPDATE message SET k = k + 1000, msg_hash = ? WHERE k = ?"
            row = super().row(key)
            assert row is not None
            self.writer.execute(moved, (id_hash(row.msg_id), key))


@pytest.mark.interpreted
def test_D3_a_message_that_is_rescheduled_between_two_reads_is_found() -> None:
    """It may be met at both its places; who changes it looks again when that has settled."""
    with QueueManager("QM1") as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)")
        with manager.session() as session:
            msg_id = session.put("Q1", b"x", delay_ms=60_000)
        key = key_of_delayed_id(msg_id)
        assert key is not None
        messages = manager.engine.store.volatile
        messages.__class__ = MovedBetween
        cast("MovedBetween", messages).key = key
        found = messages.by_delayed_id(msg_id, key, key, key + 2_000, 10)
        messages.__class__ = Messages
        assert {row.msg_id for row in found} == {msg_id}
        assert found[-1].k in (key, key + 1_000)


def test_what_is_alike_are_those_that_no_transaction_has_taken_meanwhile() -> None:
    store = opened(None)
    store.ledger_writer.totals.open_queue(STAGING_NUMBER, "SYSTEM.DDELAY.LOCAL.QUEUE")
    rows = [new_row(store)._replace(k=staging_key(NOW_MS, n), target="Q1") for n in range(3)]
    staged = Unit()
    staged.put_all(STAGING_NUMBER, rows, persistent=True)
    store.commit([staged])
    [first, *_] = store.persistent.due(STAGING_LOW, 0, 10)
    for left in (rows, rows[1:], rows[2:]):
        alike = store.persistent.due_alike(first, 0, NOW_MS, 10)
        assert alike == (first, [row.k for row in left], len(left[0].body))
        got = Unit()
        got.end(STAGING_NUMBER, left[0].k, life(left[0].msg_id))
        store.commit([got])
    assert store.persistent.due_alike(first, 0, NOW_MS, 10) is None
    store.close()
