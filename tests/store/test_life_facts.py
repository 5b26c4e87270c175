"""Lives in the ledger: outcomes by code, and what capped, met and ended them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from mayfly import QueueManager
from mayfly.engine.api.bulk import ClaimLimit as Limit
from mayfly.lifetime.life import KIND_BALANCE, KIND_LIFE, LEDGER_COLUMNS, LifeRecord, State
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.store.ledger_writer import INSERT_LIFE
from mayfly.testing import VirtualClock
from tests.snapshots import on_a_snapshot
from tests.spec.scene import local
from tests.store.cuts import cut, cut_disk, files_of
from tests.store.scene import raw

PUT_MS, CLOSED_MS = 1_700_000_000_000, 1_700_000_001_000
FACTS = ("capped_by", "detected_by", "ended_by", "ended_program")
OF_ALIAS = "CAPEXPRY(600) of QALIAS(A1)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a queue manager; there is a message on its Q1."""
    folder = tmp_path / "QM1"
    with opened(folder) as qm, qm.session() as session:
        local(qm)
        session.put("Q1", b"old", persistent=True)
    return folder


def opened(folder: Path, clock: VirtualClock | None = None) -> QueueManager:
    return QueueManager("QM1", folder, clock=clock or VirtualClock(CLOSED_MS))


@pytest.mark.parametrize("has_totals", [True, False])
def test_an_outcome_of_a_later_version_is_kept_and_shown(folder: Path, has_totals: bool) -> None:
    """Its life is in the ledger, and counted in the totals or after them."""
    unheard_of = b"unheard_of".ljust(24, b"\0")
    connection = raw(folder)
    [(last,)] = connection.execute("SELECT max(position) FROM ledger").fetchall()
    life = LifeRecord(
        *("Q1", unheard_of, b"", None, PUT_MS, PUT_MS, None, CLOSED_MS, "unheard_of"),
        *(0, 4, 1, 5, 0, "", 0, "alice"),
    )
    connection.execute(INSERT_LIFE, (int(str(last)) + 1, *life))
    changes = "present = present + 1"
    if has_totals:
        changes = "position = position + 1000, ended = json_set(ended, '$.unheard_of', 1)"
    connection.execute(f"UPDATE counter SET puts = puts + 1, {changes} WHERE queue = 'Q1'")
    connection.close()
    for _ in range(2):
        with opened(folder) as qm, qm.session() as session:
            [balance] = [b for b in qm.engine.store.ledger_writer.balances() if b.queue == "Q1"]
            assert balance.ended["unheard_of"] == 1
            assert balance.is_balanced()
            answer = qm.why(unheard_of)
            assert "ended at" in answer.sentence
            assert answer.sentence.endswith(": unheard-of.")
            assert answer.entries[0].state == "unheard_of"
            session.put("Q1", b"new", persistent=True)
            assert qm.verify().ok
    with opened(folder) as qm:
        rows = [row for row in qm.ledger.page(0, 1_000) if row[1:3] == (KIND_BALANCE, "Q1")]
        assert '"unheard_of": 1' in rows[-1][-1]


def test_every_code_is_stored_for_ever() -> None:
    """Codes may be added; whoever changes one makes the ledgers there are unreadable."""
    assert {
        "got",
        "expired",
        "dead_lettered",
        "discarded",
        "transmitted",
        "released",
        "cleared",
        "cancelled",
        "lost_at_restart",
    } <= {state.value for state in State}


def test_words_of_a_later_version_are_told_as_they_are(folder: Path) -> None:
    clock = VirtualClock(CLOSED_MS)
    with opened(folder, clock) as qm, qm.session("bob") as session:
        msg_id = session.put("Q1", b"x", time_to_live_ms=1_000)
        assert qm.why(msg_id).entries[0].detected_by == ""
        clock.advance(1_000)
        assert session.get("Q1", msg_id=msg_id) is None
    connection = raw(folder)
    later = "UPDATE ledger SET detected_by = 'sunrise', capped_by = 'the moon' WHERE msg_id = ?"
    connection.execute(later, (msg_id,))
    connection.close()
    with opened(folder, VirtualClock(CLOSED_MS + 1_000)) as qm:
        found = qm.why(msg_id)
        assert "because the moon shortened its life; " in found.sentence
        assert found.steps[-1].text.endswith(", found by sunrise")


#: By MsgId as its sender gave it: the cap, and how its lives end in the scene below.
CAPPED = {b"got": OF_ALIAS, b"met": OF_ALIAS, b"late": OF_ALIAS, b"free": None, b"soon": OF_ALIAS}


def facts_of(qm: QueueManager) -> dict[tuple[bytes, str], tuple[object, ...]]:
    """Return the facts of each ended life, by MsgId that its sender gave, and queue."""
    rows = [dict(zip(LEDGER_COLUMNS, row, strict=True)) for row in qm.ledger.page(0, 1_000)]
    found = {}
    for row in rows:
        if row["kind"] == KIND_LIFE:
            msg_id = row["correl_id" if row["queue"] == STAGING_QUEUE else "msg_id"]
            facts = tuple(row[name] for name in ("outcome", *FACTS))
            found[msg_id.rstrip(b"\0"), row["queue"]] = facts
    return found


def scene(qm: QueueManager, clock: VirtualClock) -> None:
    """Put through the alias, get, expire, claim, release early: five units of work and more."""
    with qm.session("app", program="till") as session:
        for msg_id, capped_by in CAPPED.items():
            session.put(
                "A1" if capped_by else "Q1",
                b"x",
                msg_id=msg_id,
                persistent=True,
                delay_ms=1_000_000 if msg_id == b"free" else 5_000 if msg_id == b"soon" else 0,
                time_to_live_ms=None if msg_id != b"met" else 600_000,
            )
        session.schedule.release(b"free")
        clock.advance(0)
        session.get("Q1", msg_id=b"got")
        epoch = qm.claims.attach("reader", "Q1").epoch
        claimed = qm.claims.claim("reader", epoch, 0, Limit(1, 2**20))
        assert claimed.messages == 1
        qm.claims.release("reader")
        clock.advance(5_000)
        clock.advance(55_000)
        assert session.get("Q1", msg_id=b"met") is None
        session.get("Q1", msg_id=b"free")


def test_after_a_power_cut_at_any_write_lives_have_the_facts_that_they_had(tmp_path: Path) -> None:
    """An ended life is as it was; a message that is still there keeps its cap for its end."""
    folder, clock = tmp_path / "WHOLE", VirtualClock(PUT_MS)
    with opened(folder, clock) as qm:
        qm.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QALIAS(A1) TARGET(Q1) CAPEXPRY(600)")
    before_all = files_of(folder)
    with cut_disk(folder) as disk, opened(folder, clock) as qm:
        scene(qm, clock)
        whole = facts_of(qm)
    assert whole == {
        (b"free", STAGING_QUEUE): ("released", None, None, "app", None),
        (b"soon", STAGING_QUEUE): ("released", OF_ALIAS, None, None, None),
        (b"got", "Q1"): ("got", OF_ALIAS, None, "app", "till"),
        (b"met", "Q1"): ("expired", OF_ALIAS, "get", "app", "till"),
        (b"free", "Q1"): ("got", None, None, "app", "till"),
    }
    random, seen, cut_count = Random(1), set(), 24
    for number in range(cut_count + 1):
        moment = len(disk.changes) * number // cut_count
        left, later = tmp_path / f"LEFT{number}", VirtualClock(PUT_MS + 61_000)
        left.mkdir(0o700)
        for name, content in cut(before_all, disk.changes[:moment], random).items():
            (left / name).write_bytes(content)
        with (
            QueueManager("QM1", left, later, runtime=on_a_snapshot()) as qm,
            qm.session("heir") as heir,
        ):
            before = facts_of(qm)
            assert before.items() <= whole.items() | {
                # It was still to be released when the cut came.
                ((b"soon", STAGING_QUEUE), ("expired", OF_ALIAS, "release", None, None))
            }
            seen.add(frozenset(before))
            if qm.claims.consistent_states():
                qm.claims.release("reader")
            while heir.get("Q1") is not None:
                pass
            after = {place: facts for place, facts in facts_of(qm).items() if place not in before}
            for (msg_id, _queue), (_outcome, capped_by, *_rest) in after.items():
                assert capped_by == CAPPED[msg_id]
            assert qm.verify().ok
    # From the first write, before which nothing has ended, to the last.
    assert frozenset(whole) in seen
    assert len(seen) >= 3
