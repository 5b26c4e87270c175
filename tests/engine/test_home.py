"""In memory or in a folder: which one a name means, and that it says so."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from mayfly import QueueManager, QueueSharingGroup, pymqi
from mayfly.mqi import reasons as rc
from mayfly.queue_manager import managers_here
from mayfly.testing import VirtualClock
from mayfly.verbs.checks import folder_in_home
from tests.spec.scene import bodies, local, refused


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    return tmp_path


def test_open_by_name_is_the_folder_that_pymqi_means(home: Path, clock: VirtualClock) -> None:
    with QueueManager.open("SHOP", clock) as shop, shop.session() as session:
        assert shop.engine.store.folder == home / "SHOP"
        assert shop.clock is clock
        local(shop)
        session.put("Q1", b"x", persistent=True)
    with QueueManager.open("SHOP", clock):
        connection = pymqi.connect("SHOP")
        assert pymqi.Queue(connection, "Q1").get() == b"x"
        connection.disconnect()
    with QueueManager.open("SHOP", platform="distributed", command_level=900) as shop:
        assert shop.engine.command_level == 900
        assert bodies(shop.session(), "Q1") == []


def test_open_without_the_variable_is_in_the_home_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MAYFLY_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    with QueueManager.open("SHOP") as shop:
        assert shop.engine.store.folder == tmp_path / ".mayfly" / "SHOP"
        assert folder_in_home("SHOP") == tmp_path / ".mayfly" / "SHOP"


@pytest.mark.parametrize("name", ["A/B", "..", ".", "", "A B", "x" * 49])
def test_open_refuses_a_name_that_no_folder_can_have(home: Path, name: str) -> None:
    with refused(rc.MQRC_Q_MGR_NAME_ERROR):
        QueueManager.open(name)
    with refused(rc.MQRC_Q_MGR_NAME_ERROR):
        folder_in_home(name)
    assert list(home.iterdir()) == []


def test_a_queue_manager_says_where_it_lives(tmp_path: Path, clock: VirtualClock) -> None:
    with QueueManager("SHOP", clock=clock) as shop:
        assert repr(shop) == "<QueueManager SHOP in memory>"
    with QueueManager("SHOP", tmp_path / "SHOP", clock) as shop:
        assert repr(shop) == f"<QueueManager SHOP in {tmp_path}/SHOP>"
    assert repr(shop) == f"<QueueManager SHOP in {tmp_path}/SHOP, stopped>"
    with QueueSharingGroup("QSG1", clock=clock) as group:
        assert repr(group) == "<QueueSharingGroup QSG1 in memory>"


def test_a_session_keeps_its_queue_manager_found_by_its_name() -> None:
    """Nobody else may have it any more: it is open, and ends with its last session or its close."""
    session = QueueManager("KEPT", clock=VirtualClock()).session()
    gc.collect()
    kept = managers_here()["KEPT"]
    assert kept.engine is session.core
    kept.close()
    assert "KEPT" not in managers_here()
