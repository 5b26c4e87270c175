"""What live and ready mean: while a server starts and drains, on a full disk, after a failure."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.admin.security.admission import Admission
from mayfly.cli.outcomes import ExitCode
from mayfly.cli.ping import ProbeResult, health_of
from mayfly.cli.served import IMPAIRED, READY, Served, ServedFile
from mayfly.engine import Session
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.runtime import Runtime
from mayfly.runtime.files import Files
from mayfly.servers.status import ServerStatus, ServingState
from mayfly.servers.wire import WireServer
from mayfly.store.disk_space import BALLAST_BYTES, BALLAST_FILE
from mayfly.verbs.contracts.access import MQ_SOCKET_FILE
from tests.cli.conftest import Invoke
from tests.facts import wait_until

TOKEN = "t" * 43


class SmallDisk(Files):
    """A disk that tells how much it has free."""

    free: int | None = None

    def free_bytes(self, folder: Path) -> int:
        return super().free_bytes(folder) if self.free is None else self.free


@pytest.fixture
def disk() -> SmallDisk:
    return SmallDisk()


@pytest.fixture
def manager(home: Path, disk: SmallDisk) -> Iterator[QueueManager]:
    with QueueManager("QM1", home / "QM1", runtime=Runtime(files=disk)) as manager:
        assert manager.mqsc("DEFINE QLOCAL(Q1) DEFPSIST(YES)").ok
        yield manager


@pytest.fixture
def folder(manager: QueueManager, home: Path) -> Path:
    return home / "QM1"


def reason_of_filling(session: Session) -> int:
    """Put until the queue manager refuses it."""
    for _ in range(200):
        try:
            session.put("Q1", b"x" * 100_000)
        except MQError as error:
            return error.reason
    return rc.MQRC_NONE


@contextlib.contextmanager
def announced(folder: Path) -> Iterator[ServedFile]:
    token_file = folder / "token"
    token_file.write_text(TOKEN)
    with (
        contextlib.closing(ServedFile(folder)) as serving,
        serving.announced(Served(str(token_file))),
    ):
        assert health_of("QM1", folder).state == ServingState.STARTING
        serving.set_ready(READY)
        yield serving


@contextlib.contextmanager
def serving(manager: QueueManager, folder: Path) -> Iterator[WireServer]:
    admission = Admission([manager.engine], token=TOKEN)
    server = WireServer([manager], admission)
    server.listen_unix(folder / MQ_SOCKET_FILE)
    try:
        with announced(folder):
            yield server
    finally:
        server.close()
        admission.close()


def test_a_server_that_starts_lives_and_is_not_ready(folder: Path, mayfly: Invoke) -> None:
    assert health_of("QM1", folder) == ProbeResult(ServingState.STOPPED)
    assert not ProbeResult(ServingState.STOPPED).is_live
    with contextlib.closing(ServedFile(folder)):
        health = health_of("QM1", folder)
        assert (health.state, health.is_live, health.is_ready) == (
            ServingState.STARTING,
            True,
            False,
        )
        assert mayfly("ping", "QM1").exit_code == ExitCode.NOTHING
        assert mayfly("ping", "QM1", "--live").exit_code == ExitCode.DONE


def test_a_server_is_ready_until_it_drains(
    manager: QueueManager, folder: Path, mayfly: Invoke
) -> None:
    with serving(manager, folder) as server:
        answer = mayfly("ping", "QM1", "--json")
        assert answer.exit_code == ExitCode.DONE
        assert json.loads(answer.stdout) == {
            "queue_manager": "QM1",
            "live": True,
            "ready": True,
            "state": "ready",
            "connections": 1,
        }
        assert server.drain(60_000)
        health = health_of("QM1", folder)
        assert (health.state, health.is_live, health.is_ready) == (
            ServingState.DRAINING,
            True,
            False,
        )
    assert health_of("QM1", folder).state is ServingState.STOPPED


def test_on_a_full_disk_it_lives_and_is_ready_again_as_soon_as_there_is_room(
    manager: QueueManager, folder: Path, disk: SmallDisk
) -> None:
    """Nobody has to put for it: a balancer that sends no puts would wait for ever."""
    with serving(manager, folder), manager.session() as session:
        # The ballast is laid in beside the first puts.
        session.put("Q1", b"x" * 2_000_000)
        wait_until((folder / BALLAST_FILE).exists)
        # Less than nothing: room that is left in the log does not count.
        disk.free = -(2**40)
        assert reason_of_filling(session) == rc.MQRC_STORAGE_MEDIUM_FULL
        health = health_of("QM1", folder)
        assert (health.state, health.is_live, health.is_ready) == (
            ServingState.DISK_FULL,
            True,
            False,
        )
        server_status = ServerStatus([manager])
        server_status.state = ServingState.READY
        assert server_status.states() == {"QM1": ServingState.DISK_FULL}
        [row] = manager.mqsc("DISPLAY QMSTATUS").rows
        assert row == {
            "QMNAME": "QM1",
            "STATUS": "RUNNING",
            "CONNS": 1,
            "DISK": "FULL",
            "DDELAY": "RUNNING",
        }
        message = session.get("Q1")
        assert message is not None
        disk.free = 4 * BALLAST_BYTES
        assert health_of("QM1", folder).is_ready
        session.put("Q1", b"after")


def test_a_queue_manager_that_has_stopped_by_itself_does_not_live(
    manager: QueueManager, folder: Path
) -> None:
    with serving(manager, folder):
        manager.crash()
        health = health_of("QM1", folder)
        assert (health.state, health.is_live, health.is_ready) == (
            ServingState.FAILED,
            False,
            False,
        )


def test_a_server_without_one_of_its_loops_lives_and_is_not_ready(
    manager: QueueManager, folder: Path
) -> None:
    admission = Admission([manager.engine], token=TOKEN)
    server = WireServer([manager], admission)
    server.listen_unix(folder / MQ_SOCKET_FILE)
    with contextlib.closing(admission), contextlib.closing(server), announced(folder) as told:
        assert health_of("QM1", folder).is_ready
        told.set_ready(IMPAIRED)
        health = health_of("QM1", folder)
        assert (health.state, health.is_live, health.is_ready) == (
            ServingState.IMPAIRED,
            True,
            False,
        )
