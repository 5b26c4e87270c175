"""The members of a group as an operator sees them; one that is never opened again is removed."""

from __future__ import annotations

import logging
import shutil

import pytest

from mayfly import QueueManager
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import StoreError
from mayfly.queue_manager import managers_here
from mayfly.testing import VirtualClock
from tests.sharing.scene import PRIVATE, SHARED, Sharing
from tests.sharing.test_units import LONG, intents
from tests.spec.scene import bodies, refused


def close_with_decided_work(sharing: Sharing) -> None:
    """Commit a unit that QM1 has no room to carry out any more, then close QM1."""
    with sharing.qm1.session() as one, sharing.qm1.session(transacted=True) as unit:
        one.put(PRIVATE, b"moves", persistent=True)
        message = unit.get(PRIVATE)
        assert message is not None
        unit.put(SHARED, message.body, persistent=True)
        unit.put(PRIVATE, LONG, persistent=True)
        writer = sharing.qm1.engine.store.persistent.writer
        [(pages,)] = writer.execute("PRAGMA page_count").fetchall()
        writer.execute(f"PRAGMA max_page_count = {pages}").fetchall()
        unit.commit()
    sharing.qm1.close()


def rows(qm: QueueManager) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in qm.mqsc("DISPLAY GROUP").rows]


def test_open_members_have_nothing_to_do(sharing: Sharing) -> None:
    assert sharing.group.members() == [("QM1", True, 0), ("QM2", True, 0)]
    with sharing.qm1.session(transacted=True) as one:
        one.put(SHARED, b"x", persistent=True)
        one.put(PRIVATE, b"x", persistent=True)
    assert intents(sharing) == 1
    assert rows(sharing.qm2) == [("QM1", "QSG1", "ACTIVE", 0), ("QM2", "QSG1", "ACTIVE", 0)]
    sharing.qm1.close()
    assert rows(sharing.qm2) == [("QM2", "QSG1", "ACTIVE", 0)]


def test_who_has_no_group_cannot_show_it() -> None:
    with QueueManager("QM1", clock=VirtualClock()) as alone:
        said = alone.mqsc("DISPLAY GROUP").text
    assert "MQRC_OPTION_NOT_VALID_FOR_TYPE (2045): QM1 is in no queue-sharing group" in said


@pytest.mark.slow
def test_what_is_decided_for_a_closed_member_is_shown_until_it_is_opened(
    on_disk: Sharing, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL):
        close_with_decided_work(on_disk)
    assert rows(on_disk.qm2) == [("QM1", "QSG1", "INACTIVE", 1), ("QM2", "QSG1", "ACTIVE", 0)]
    on_disk.qm1 = on_disk.member("QM1")
    assert rows(on_disk.qm2) == [("QM1", "QSG1", "ACTIVE", 0), ("QM2", "QSG1", "ACTIVE", 0)]
    with on_disk.qm1.session() as one:
        assert bodies(one, PRIVATE) == [LONG]
        assert bodies(one, SHARED) == [b"moves"]


@pytest.mark.slow
def test_a_removed_member_leaves_nothing_behind_and_its_folder_does_not_come_back(
    on_disk: Sharing, caplog: pytest.LogCaptureFixture
) -> None:
    """It has still what the shared queue got of it: opened as a member it would double that."""
    with caplog.at_level(logging.CRITICAL):
        close_with_decided_work(on_disk)
    with caplog.at_level(logging.WARNING):
        assert on_disk.group.remove_member("QM1") == 1
    assert "QM1 was removed from QSG1; 1 units forgotten" in caplog.text
    assert (intents(on_disk), rows(on_disk.qm2)) == (0, [("QM2", "QSG1", "ACTIVE", 0)])
    for _ in range(2):
        with pytest.raises(StoreError, match="QM1 was removed from QSG1"):
            on_disk.member("QM1")
    on_disk.group.close()
    on_disk.open_group()
    with pytest.raises(StoreError, match="QM1 was removed from QSG1"):
        on_disk.member("QM1")
    folder = on_disk.folder_of("QM1")
    assert folder is not None
    shutil.rmtree(folder)
    on_disk.qm1, on_disk.qm2 = on_disk.member("QM1"), on_disk.member("QM2")
    with on_disk.qm1.session() as one:
        assert bodies(one, SHARED) == [b"moves"]
    # The new one is a member like any other.
    on_disk.qm1.close()
    on_disk.qm1 = on_disk.member("QM1")


def test_an_open_member_is_not_removed(sharing: Sharing) -> None:
    with pytest.raises(ValueError, match="name 'QM1' is open in queue-sharing group QSG1"):
        sharing.group.remove_member("QM1")
    assert sharing.group.remove_member("NOBODY") == 0
    sharing.qm1.close()
    assert sharing.group.remove_member("QM1") == 0


def test_a_group_that_is_closed_says_nothing_of_its_members(sharing: Sharing) -> None:
    sharing.end()
    for call in (sharing.group.members, lambda: sharing.group.remove_member("QM1")):
        with refused(rc.MQRC_CONNECTION_BROKEN):
            call()


def test_a_queue_manager_and_a_group_have_an_engine_and_are_none(sharing: Sharing) -> None:
    """The public classes inherit from nothing; an engine is the core with its features."""
    for owner in (sharing.qm1, sharing.group):
        assert type(owner).__bases__ == (object,)
        assert [each.__name__ for each in type(owner.engine).__mro__][:-1] == [
            "Engine",
            "Core",
            "EngineState",
        ]
    assert sharing.qm1.engine.group is sharing.group.engine


def test_a_group_that_closes_ends_whole_queue_managers(sharing: Sharing) -> None:
    """Their channels end before their engines do, and nobody finds them by name any more."""
    ended: list[bool] = []
    sharing.qm1.engine.before_close.append(lambda: ended.append(sharing.qm1.is_stopped))
    assert managers_here().keys() >= {"QM1", "QM2"}
    sharing.end()
    assert ended == [False]
    assert not managers_here().keys() & {"QM1", "QM2"}
