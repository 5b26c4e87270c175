"""Lives in a lake by MsgId and CorrelId, and traces that go on there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.cli.lake_engine import LakeArchive
from mayfly.engine.api.operating import ended_steps
from mayfly.lifetime.life import KIND_LIFE, LEDGER_COLUMNS, LifeRecord
from mayfly.mqi import constants as c
from mayfly.pipeline.errors import LakeError
from mayfly.pipeline.lake.answers import lives_with_ids
from mayfly.testing import VirtualClock
from mayfly.verbs.facts import MessageTrace
from tests.bulk.books import START_MS, life
from tests.spark.lakes import balance, write_lake

MINUTE_MS = 60_000


def padded(text: bytes) -> bytes:
    return text.ljust(24, b"\0")


def ended(found: Sequence[tuple[str, LifeRecord]]) -> list[tuple[str, int, str]]:
    """Return queue manager, moment since the start and outcome of each life."""
    return [(name, each.ended_ms - START_MS, each.outcome) for name, each in found]


# The lake


def test_lives_are_found_by_both_ids_the_latest_first(tmp_path: Path) -> None:
    one, two = padded(b"one"), padded(b"two")
    write_lake(
        tmp_path,
        [life(1, msg_id=one), balance("Q1", 1, got=1), life(2, correl_id=one), life(3, msg_id=two)],
    )
    write_lake(tmp_path, [life(5, msg_id=one), life(4)], 5, date="2023-11-15")
    found = lives_with_ids(tmp_path, [one], 50)
    assert ended(found) == [("QM1", n * 1_000 + 250, "got") for n in (5, 2, 1)]
    assert found[1][1] == life(2, correl_id=one)
    assert ended(lives_with_ids(tmp_path, [two, one], 50))[0] == ("QM1", 5_250, "got")
    assert len(lives_with_ids(tmp_path, [two, one], 50)) == 4
    assert ended(lives_with_ids(tmp_path, [one], 1)) == [
        ("QM1", 5_250, "got"),
        ("QM1", 2_250, "got"),
    ]
    assert lives_with_ids(tmp_path, [padded(b"three")], 50) == []


def test_a_folder_without_files_has_no_lives_and_no_folder_is_an_error(tmp_path: Path) -> None:
    assert lives_with_ids(tmp_path, [padded(b"one")], 50) == []
    with pytest.raises(LakeError, match="there is no lake at"):
        lives_with_ids(tmp_path / "nowhere", [padded(b"one")], 50)


# The trace


def in_lake(manager: QueueManager, lake: Path) -> None:
    """Write the lives of a ledger into a lake, as the stream does."""
    rows = [dict(zip(LEDGER_COLUMNS, row, strict=True)) for row in manager.ledger.page(0, 10_000)]
    lives = [
        LifeRecord(**{name: row[name] for name in LifeRecord._fields})
        for row in rows
        if row["kind"] == KIND_LIFE
    ]
    write_lake(lake, lives, instance=manager.ledger.instance_id)


def expired_with_report(manager: QueueManager, clock: VirtualClock) -> bytes:
    assert manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(REPORTS)").ok
    with manager.session() as session:
        msg_id = session.put(
            "Q1",
            b"x",
            correl_id=b"order 17",
            time_to_live_ms=MINUTE_MS,
            delay_ms=1_000,
            persistent=True,
            report=c.MQRO_EXPIRATION,
            reply_to_q="REPORTS",
        )
        clock.advance(MINUTE_MS)
        assert session.get("Q1") is None
        assert session.get("REPORTS") is not None
    return msg_id


@pytest.mark.parametrize("asked", [None, b"order 17"])
def test_lives_that_retention_has_removed_are_told_from_the_lake(
    tmp_path: Path, clock: VirtualClock, asked: bytes | None
) -> None:
    """The trace is the same before, in between, and after."""
    lake, place = tmp_path / "lake", tmp_path / "QM1"

    def told(manager: QueueManager) -> MessageTrace:
        found = manager.traces.of(msg_id if asked is None else asked)
        return found._replace(at_ms=0, ledger_position=None, ledger_ms=None)

    with QueueManager("QM1", place, clock) as manager:
        msg_id = expired_with_report(manager, clock)
        before = told(manager)
        assert before.sentence.endswith("; its report was got from REPORTS.")
        assert [step.what for step in before.steps] == [
            "put",
            "released",
            "expired",
            "report",
            "report got",
        ]
        in_lake(manager, lake)
        manager.traces.archives.append(LakeArchive(lake))
        assert told(manager) == before
    with QueueManager("QM1", place, clock, settings={"ledger.retention_count": 1}) as manager:
        clock.advance(2_000)
        assert not manager.why(msg_id).is_known
        assert f"Asked as well: lake {lake}" not in manager.traces.of(msg_id).sentence
        manager.traces.archives.append(LakeArchive(lake))
        assert told(manager).entries == before.entries
        assert told(manager).sentence == before.sentence
        assert told(manager).steps == before.steps
        assert manager.traces.of(b"no").sentence.endswith(f"Asked as well: lake {lake}.")


def test_hours_of_expiry_are_the_same_from_ledger_and_lake(tmp_path: Path) -> None:
    clock, lake, hour_ms = VirtualClock(START_MS), tmp_path / "lake", 3_600_000
    with QueueManager("QM1", tmp_path / "QM1", clock) as manager:
        assert manager.mqsc("DEFINE QLOCAL(Q1) DEFPSIST(YES)\nDEFINE QLOCAL(Q2) DEFPSIST(YES)").ok
        with manager.session() as session:
            for life_ms in (hour_ms - 1, hour_ms, hour_ms):
                session.put("Q1", b"x", time_to_live_ms=life_ms)
            session.put("Q1", b"x", delay_ms=hour_ms)
            session.put("Q2", b"x")
            # Met three days later: the hour is that of the deadline.
            clock.advance(72 * hour_ms + 1)
            while session.get("Q1") is not None:
                pass
            assert session.get("Q2") is not None
        in_lake(manager, lake)
        archive = LakeArchive(lake)
        for queue in (None, "Q1", "Q2", "NO.SUCH.QUEUE"):
            for from_ms, count in ((START_MS, 73), (START_MS + hour_ms, 2), (START_MS + 1, 73)):
                asked = queue, from_ms, hour_ms, count
                ledger = ended_steps(manager.engine, *asked)
                assert archive.ended_steps("QM1", *asked) == ledger.steps
        assert ledger.steps == [(0, 0)] * 73
        asked_all = None, START_MS, hour_ms, 73
        assert archive.ended_steps("QM1", *asked_all)[:2] == [(1, 1), (2, 2)]
        assert archive.ended_steps("QM2", *asked_all) == [(0, 0)] * 73


def test_a_lake_that_cannot_be_read_is_named_in_a_note(
    tmp_path: Path, queue_manager: QueueManager
) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(Q1)")
    queue_manager.traces.archives.append(LakeArchive(tmp_path / "no"))
    with queue_manager.session() as session:
        msg_id = session.put("Q1", b"x")
    found = queue_manager.traces.of(msg_id)
    assert found.sentence == "It is on Q1 and can be got; it never expires."
    assert found.notes == (
        f"lake {tmp_path / 'no'} cannot be read: there is no lake at {tmp_path / 'no'}.",
    )


def test_a_message_that_still_waits_is_told_with_its_lives_in_the_lake(
    tmp_path: Path, clock: VirtualClock
) -> None:
    lake, place = tmp_path / "lake", tmp_path / "QM1"
    with QueueManager("QM1", place, clock) as manager:
        assert manager.mqsc("DEFINE QLOCAL(Q1)").ok
        with manager.session() as session:
            msg_id = session.put("Q1", b"x", delay_ms=1_000, persistent=True)
        clock.advance(1_000)
        in_lake(manager, lake)
    with QueueManager("QM1", place, clock, settings={"ledger.retention_count": 1}) as manager:
        clock.advance(2_000)
        manager.traces.archives.append(LakeArchive(lake))
        found = manager.traces.of(msg_id)
        assert [entry.state for entry in found.entries] == ["released", "available"]
        assert found.sentence == "It is on Q1 and can be got; it never expires."
