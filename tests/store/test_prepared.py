"""The statements that read messages stay prepared: one prepared anew takes 23 µs instead of 5."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from mayfly.store.keys import generated_id, start_of_ids
from mayfly.store.messages import Messages
from tests.store.scene import NUMBER, opened, put_unit

LOW, HIGH = NUMBER << 48, (NUMBER + 1) << 48
GENERATED = generated_id(start_of_ids("QM1", 1), 1)
READS: dict[str, Callable[[Messages], object]] = {
    "in_order": lambda messages: messages.in_order(LOW, HIGH, 8),
    "page": lambda messages: messages.page(LOW, HIGH, 8, 1_000),
    "by_msg_id": lambda messages: messages.by_msg_id(GENERATED, LOW, HIGH, 8),
    "by_correl_id": lambda messages: messages.by_correl_id(1, LOW, HIGH, 8),
    "expired": lambda messages: messages.expired(1, 0, 0, 8),
    "described": lambda messages: messages.described(LOW, HIGH, 8),
    "row": lambda messages: messages.row(LOW),
    "due": lambda messages: messages.due(LOW, HIGH, 8),
    "count": lambda messages: messages.count(LOW, HIGH),
    "count_expired": lambda messages: messages.count_expired(LOW, HIGH, 1),
    "earliest_deadlines": lambda messages: messages.earliest_deadlines(8),
    "lowest_key": lambda messages: messages.lowest_key(LOW, HIGH),
}


@pytest.mark.parametrize("name", READS)
def test_a_read_of_messages_is_prepared_once(tmp_path: Path, name: str) -> None:
    store = opened(tmp_path)
    store.commit([put_unit(store)])
    prepared: list[int] = []

    def note(action: int, *_names: object) -> int:
        """SQLite asks for leave whenever it prepares a statement."""
        prepared.append(action)
        return apsw.SQLITE_OK

    store.persistent._reader.authorizer = note
    READS[name](store.persistent)
    assert prepared
    prepared.clear()
    for _ in range(3):
        READS[name](store.persistent)
    assert prepared == []
    store.close()
