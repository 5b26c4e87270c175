"""Erasing a person's messages from the ledger: rows and counts stay, names and ids go."""

from __future__ import annotations

from pathlib import Path

import pytest

import mayfly
from mayfly import MQError
from mayfly.lifetime.life import LEDGER_COLUMNS
from mayfly.mqi import reasons as rc
from mayfly.store.ledger import BLOCK_ROWS
from mayfly.testing import VirtualClock
from mayfly.verbs.contracts.erasure import Erasure
from tests.bulk.books import START_MS, KeptBooks, kept_books, life


@pytest.fixture
def lived(tmp_path: Path) -> mayfly.QueueManager:
    """A message of alice that was delayed and expired, and one of bob that alice got."""
    clock = VirtualClock(START_MS)
    manager = mayfly.QueueManager("QM1", tmp_path / "QM1", clock=clock)
    manager.mqsc("DEFINE QLOCAL(Q1) DEFPSIST(YES)")
    with manager.session(user="alice") as alice, manager.session(user="bob") as bob:
        alice.put("Q1", b"x", msg_id="a1", delay_ms=1_000, time_to_live_ms=2_000)
        bob.put("Q1", b"y", msg_id="b2")
        alice.get("Q1")
        clock.advance(5_000)
        assert bob.get("Q1") is None
    return manager


def rows_of(manager: mayfly.QueueManager) -> list[dict[str, object]]:
    """Return the lives in the ledger as dicts."""
    rows = manager.ledger.page(0, 100)
    return [dict(zip(LEDGER_COLUMNS, row, strict=True)) for row in rows if row[1] == 0]


def test_a_user_is_gone_from_ledger_and_traces_and_the_books_balance(
    lived: mayfly.QueueManager, tmp_path: Path
) -> None:
    with lived:
        before = rows_of(lived)
        done = lived.erase_lives(user="alice", by="operator", reason="request 17")
        assert done == Erasure(START_MS + 5_000, "operator", "user", "request 17", 3)
        blank = {"msg_id": b"", "correl_id": b"", "origin_id": None, "user_identifier": ""}
        gone = {**blank, "ended_by": None, "ended_program": None}
        assert rows_of(lived) == [row | gone for row in before]
        assert not lived.why("a1").is_known
        assert lived.erasures() == [done]
        assert lived.verify().ok
    with mayfly.QueueManager("QM1", tmp_path / "QM1") as again:
        assert again.erasures() == [done]
        assert again.erase_lives(user="alice", reason="once more").row_count == 0
        assert again.erasures() == [done]


@pytest.mark.parametrize("identifier", ["a1", b"\xa1"])
def test_an_id_leads_to_all_lives_of_the_message(
    lived: mayfly.QueueManager, identifier: str | bytes
) -> None:
    """The one on the staging queue has it as CorrelId. What bob has put stays."""
    with lived:
        done = lived.erase_lives(identifier=identifier, reason="request 18")
        assert (done.row_count, done.selected_by) == (2, "id")
        assert not lived.why("a1").is_known
        assert lived.why("b2").is_known


def test_a_wrong_erasure_is_refused(lived: mayfly.QueueManager) -> None:
    with lived:
        for reason, arguments in (
            (rc.MQRC_OPTIONS_ERROR, {"user": "alice", "reason": " "}),
            (rc.MQRC_OPTIONS_ERROR, {"reason": "x"}),
            (rc.MQRC_OPTIONS_ERROR, {"user": "alice", "identifier": "a1", "reason": "x"}),
            (rc.MQRC_MD_ERROR, {"identifier": "00", "reason": "x"}),
            (rc.MQRC_MD_ERROR, {"identifier": "a" * 50, "reason": "x"}),
        ):
            with pytest.raises(MQError) as refused:
                lived.erase_lives(**arguments)
            assert refused.value.reason == reason
        assert lived.erasures() == []


def erased(books: KeptBooks, value: bytes | str) -> int:
    selected_by = "user" if isinstance(value, str) else "id"
    begun = Erasure(START_MS, "operator", selected_by, "request", 0)
    return books.store.erasure.erase(value, begun).row_count


def test_hashes_of_ids_are_written_again() -> None:
    with kept_books() as books:
        books.end(*(life(n, msg_id=n.to_bytes(24, "big")) for n in range(1, BLOCK_ROWS + 10)))
        books.store.ids.write_next()
        wanted = (7).to_bytes(24, "big")
        assert books.store.ids.blocks_with(wanted) == [(0, BLOCK_ROWS)]
        assert erased(books, wanted) == 1
        assert books.store.ids.blocks_with(wanted) == []
        assert books.store.ids.blocks_with((8).to_bytes(24, "big")) == [(0, BLOCK_ROWS)]


def test_sqlite_overwrites_what_an_erasure_frees(tmp_path: Path) -> None:
    """The log goes when the store is closed. What SQLite has moved before is left where it was."""
    person = "alice-the-person"
    with kept_books(tmp_path) as books:
        books.end_many(100)
        books.end(*(life(n, user_identifier=person) for n in range(101, 150)))
    assert person.encode() in (tmp_path / "mayfly.db").read_bytes()
    with kept_books(tmp_path) as books:
        assert erased(books, person) == 49
    for path in tmp_path.iterdir():
        assert not path.is_file() or person.encode() not in path.read_bytes(), path
