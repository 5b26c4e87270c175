"""The status of a server and its queue managers, for health probes (docs/SERVING.md)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from mayfly.admin import QMSTATUS, inquire, named, object_type
from mayfly.mqi.errors import MQError
from mayfly.queue_manager import QueueManager
from mayfly.runtime import Runtime
from mayfly.servers.managers import ManagerTable


class ServingState(StrEnum):
    """The state of a queue manager as its server sees it."""

    STOPPED = "stopped"
    STARTING = "starting"
    #: Another server owns the queue manager, and this one follows.
    STANDBY = "standby"
    READY = "ready"
    DRAINING = "draining"
    DISK_FULL = "disk full"
    #: A thread that all need has ended, by an error: its work is not done any more.
    IMPAIRED = "impaired"
    #: The process is there and does not answer.
    SILENT = "silent"
    #: The process answers, and the queue manager has stopped: its disk failed, or is damaged.
    FAILED = "failed"

    @property
    def is_live(self) -> bool:
        """Whether the process still works, so that a restart would not help."""
        return self not in (ServingState.STOPPED, ServingState.SILENT, ServingState.FAILED)


class ServerStatus:
    """The status of a server: the host sets ``state``, listeners answer health probes from it."""

    def __init__(
        self, managers: Sequence[QueueManager] | ManagerTable, runtime: Runtime | None = None
    ) -> None:
        """Begin with the state STARTING for the queue managers of the server.

        ``runtime`` has the threads of the server; None for those of its queue managers.
        """
        self._managers, self._runtime = ManagerTable.of(managers), runtime
        self.state = ServingState.STARTING

    def states(self) -> dict[str, ServingState]:
        """Return the state of each queue manager by its name."""
        return {name: self._state_of(name) for name in self._managers.names}

    def ended_threads(self) -> list[str]:
        """Return the sorted names of server threads that have ended by an error; [] if all run.

        The work of such a thread is no longer done, so the process should be restarted.
        """
        runtimes = [each.engine.runtime for each in self._managers.values()]
        if self._runtime is not None:
            runtimes.append(self._runtime)
        return sorted({name for runtime in runtimes for name in runtime.dead_loops()})

    def _state_of(self, name: str) -> ServingState:
        """Return the state of one queue manager.

        FAILED if it has stopped or cannot be inquired; STANDBY while another server owns it, and
        STARTING before that is known. Otherwise the server's state, unless that is READY: then
        DISK_FULL, IMPAIRED or READY.
        """
        manager = self._managers.get(name)
        if self._managers.has_failed(name):
            return ServingState.FAILED
        if manager is None:
            is_standby = self._managers.owner_of(name) is not None
            return ServingState.STANDBY if is_standby else ServingState.STARTING
        if manager.is_stopped:
            return ServingState.FAILED
        if self.state is not ServingState.READY:
            return self.state
        try:
            [status] = inquire(manager.engine, (QMSTATUS,), "*")
        except MQError:
            return ServingState.FAILED
        row = object_type(QMSTATUS).shown["DISK"]
        if named(row, status.values["DISK"]) != "OK":
            return ServingState.DISK_FULL
        return ServingState.IMPAIRED if self.ended_threads() else ServingState.READY
