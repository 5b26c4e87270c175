"""Runs the listeners of a server, from their start to the drain."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Sequence

from mayfly.admin.security.admission import Admission
from mayfly.queue_manager import QueueManager
from mayfly.servers.listeners import Listener
from mayfly.servers.status import ServerStatus, ServingState

_LOG = logging.getLogger("mayfly.host")


class Host:
    """Runs listeners for queue managers; its caller opens and closes the queue managers.

    All methods are called by one thread.
    """

    def __init__(
        self,
        managers: Sequence[QueueManager],
        listeners: Sequence[Listener],
        admission: Admission,
        server_status: ServerStatus | None = None,
    ) -> None:
        """Take open queue managers, and listeners in the order in which they start.

        ``admission`` decides which programs may connect. ``server_status`` is the status of the
        server, for health probes.
        """
        self._admission = admission
        self.managers = list(managers)
        self._listeners = list(listeners)
        self._started: list[Listener] = []
        self._logged_stopped: set[str] = set()
        #: Errors, and names of loops that are gone, which the log has already.
        self._logged: set[str] = set()
        self.server_status = server_status or ServerStatus(managers)

    def start(self) -> dict[str, str]:
        """Start the listeners in order; return their addresses by listener name.

        Tells systemd that the server is ready. If one listener raises OSError, the started ones are
        stopped and the error is raised.
        """
        addresses: dict[str, str] = {}
        try:
            for listener in self._listeners:
                self._started.append(listener)
                address = listener.start()
                if address:
                    addresses[listener.name] = address
                    _LOG.info(
                        "%s listens on %s",
                        listener.name,
                        address,
                        extra={"listener": listener.name, "address": address},
                    )
        except BaseException:
            self.stop()
            raise
        self.server_status.state = ServingState.READY
        names = [manager.name for manager in self.managers]
        _LOG.info("ready: %s", ", ".join(names), extra={"queue_managers": names})
        notify("READY=1", f"STATUS=serving {', '.join(names)}")
        return addresses

    def reload(self) -> None:
        """Read the files of admission and of the listeners again, such as TLS certificates.

        A listener that cannot read its files keeps the old ones; the error is logged.
        """
        notify("RELOADING=1")
        self._admission.refresh()
        for listener in self._started:
            try:
                listener.reload()
            except Exception as error:  # noqa: BLE001 - a wrong file must not end the server
                is_file = isinstance(error, OSError | ValueError)
                _LOG.error(
                    "%s goes on with the files of before: %s",
                    listener.name,
                    error,
                    extra={"listener": listener.name},
                    exc_info=None if is_file else error,
                )
        notify("READY=1")

    def drain(self, timeout_ms: int, *, goes_on: bool = False) -> threading.Thread:
        """Start to drain all listeners; return a thread that ends when all are drained.

        systemd is told that the server ends, unless the process ``goes_on``, as a standby.

        Listeners accept no new connections. A connection closes when it is idle or has ended its
        unit of work. After ``timeout_ms`` the drain ends; :meth:`stop` closes the remaining
        connections.
        """
        self.server_status.state = ServingState.DRAINING
        notify(*([] if goes_on else ["STOPPING=1"]), "STATUS=draining")
        _LOG.info("draining for at most %d s", timeout_ms // 1000)
        drains = [
            threading.Thread(
                target=listener.drain, args=(timeout_ms,), name=f"mayfly-drain-{listener.name}"
            )
            for listener in self._started
        ]

        def wait_for_all() -> None:
            """Wait until every listener is drained."""
            for drain in drains:
                drain.join()

        for drain in drains:
            drain.start()
        waiting = threading.Thread(target=wait_for_all, name="mayfly-drain", daemon=True)
        waiting.start()
        return waiting

    def stop(self) -> None:
        """Stop all listeners, in the reverse order of their start.

        A second call stops nothing more. An error of a listener is logged, and the others are
        stopped.
        """
        self.server_status.state = ServingState.STOPPED
        while self._started:
            listener = self._started.pop()
            try:
                listener.stop()
            except Exception:  # noqa: BLE001 - the others are stopped as well
                _LOG.exception("%s is not stopped", listener.name)

    def look(self) -> None:
        """Do the work of the listeners that is due once a second; the caller repeats it.

        Logs each error once, and each ended server thread once; raises nothing.
        """
        for listener in self._started:
            try:
                listener.look()
            except Exception as error:  # noqa: BLE001 - one client must not end the server
                if repr(error) not in self._logged:
                    self._logged.add(repr(error))
                    _LOG.exception("%s: its clients cannot be looked at", listener.name)
        for name in self.server_status.ended_threads():
            if name not in self._logged:
                self._logged.add(name)
                text = "%s is gone: what it does is done no more until the server is started again"
                _LOG.critical(text, name, extra={"loop": name})

    def stopped_managers(self) -> list[str]:
        """Return the names of queue managers that have stopped by themselves; logs each once.

        A queue manager stops if its disk fails during a commit, or if its database is damaged.
        """
        stopped = [manager.name for manager in self.managers if manager.is_stopped]
        for name in stopped:
            if name not in self._logged_stopped:
                self._logged_stopped.add(name)
                _LOG.error("%s has stopped", name, extra={"queue_manager": name})
        return stopped


def notify(*states: str) -> None:
    """Send states such as ``READY=1`` to systemd; does nothing without ``$NOTIFY_SOCKET``.

    An OSError is ignored, since the service manager may have stopped listening.
    """
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    # An address that begins with @ is in the abstract name space.
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as systemd:
            systemd.sendto("\n".join(states).encode(), address)
    except OSError:
        return
