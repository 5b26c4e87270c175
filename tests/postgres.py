"""A server of PostgreSQL for tests: in a folder of its own, on a socket, to be killed and begun."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.facts import wait_until

#: PostgreSQL refuses to run as root.
ACCOUNTS = ("postgres", "nobody")
#: A file system in memory, where there is one: none of these tests cuts the power.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
SETTINGS = ("listen_addresses=", "max_wal_size=256MB", "autovacuum_naptime=1h")


def programs() -> Path:
    """Return the folder of PostgreSQL's programs; skip the test where there is none."""
    pytest.importorskip("psycopg")
    found = [Path(path) for path in os.environ.get("MAYFLY_TEST_POSTGRES", "").split() if path]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found += [Path(path).parent for path in (shutil.which("initdb"),) if path]
    for folder in found:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    pytest.skip(
        "no PostgreSQL on this machine: apt-get install postgresql, or name the folder of "
        "its programs in MAYFLY_TEST_POSTGRES"
    )


def connect(url: str) -> Any:
    """Return a connection with a transaction a statement; skip the test without psycopg."""
    return pytest.importorskip("psycopg").connect(url, autocommit=True)


class Postgres:
    """One server; :meth:`kill` ends it as a power cut of its process would.

    With a ``source`` it is a standby of that server, made from it, until :meth:`promote`.
    """

    def __init__(
        self,
        *settings: str,
        source: "Postgres | None" = None,
        on_made: Callable[[Path], object] = str,
    ) -> None:
        """Start a server; ``on_made`` is called with its folder, which is empty then."""
        self._programs, self._settings = programs(), (*SETTINGS, *settings)
        self.folder = Path(tempfile.mkdtemp(prefix="mayfly-pg-", dir=MEMORY))
        on_made(self.folder)
        # Its socket is also for processes in a namespace of their own.
        self.folder.chmod(0o755)
        self._user: dict[str, Any] = {}
        if not os.getuid():
            names = {entry.pw_name: entry for entry in pwd.getpwall()}
            account = next(names[name] for name in ACCOUNTS if name in names)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self._user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        if source is None:
            options = ["-A", "trust", "-U", "mayfly", "--no-locale", "-E", "UTF8", "--no-sync"]
            self._run("initdb", *options)
        else:
            # It follows from where the copy ends.
            options = ["-h", str(source.folder), "-U", "mayfly", "-R", "-c", "fast", "--no-sync"]
            self._run("pg_basebackup", *options)
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql://mayfly@/postgres?host={self.folder}"
        self.start()

    def start(self) -> None:
        """Return when it takes connections; children of a killed one may keep it away at first."""
        wait_until(self._is_up)

    def _run(self, program: str, *options: str) -> None:
        done = subprocess.run(
            [self._programs / program, "-D", self.folder / "data", *options],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            **self._user,
        )
        assert done.returncode == 0, done.stderr

    def promote(self) -> None:
        """Be a standby no longer; it takes writes on return."""
        self._run("pg_ctl", "promote", "-w")

    def connect(self) -> Any:
        return connect(self.url)

    def synchronize(self, standby: str) -> None:
        """Let commits wait for standbys of a name, ``*`` for any one, empty for none."""
        with self.connect() as connection:
            connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{standby}'")
            connection.execute("SELECT pg_reload_conf()")
        wait_until(lambda: self._has_synchronous_standby() == bool(standby))

    def _has_synchronous_standby(self) -> bool:
        with self.connect() as connection:
            sql = "SELECT count(*) > 0 FROM pg_stat_replication WHERE sync_state = 'sync'"
            [found] = connection.execute(sql).fetchone()
        return bool(found)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Stop all its processes, which keep their connections and answer nothing."""
        for process in self._processes():
            os.kill(process, signal.SIGSTOP)

    def resume(self) -> None:
        for process in self._processes():
            os.kill(process, signal.SIGCONT)

    def _processes(self) -> list[int]:
        """Return the server, which makes no more processes once it is stopped, and its children."""
        assert self._process is not None
        first = self._process.pid
        os.kill(first, signal.SIGSTOP)
        children = Path(f"/proc/{first}/task/{first}/children").read_text()
        return [*map(int, children.split()), first]

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _is_up(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            words = [word for setting in self._settings for word in ("-c", setting)]
            with (self.folder / "log").open("ab") as log:
                self._process = subprocess.Popen(
                    [
                        self._programs / "postgres",
                        "-D",
                        self.folder / "data",
                        "-k",
                        self.folder,
                        *words,
                    ],
                    cwd=self.folder,
                    stdout=log,
                    stderr=log,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                    **self._user,
                )
        try:
            self.connect().close()
        except pytest.importorskip("psycopg").OperationalError:
            return False
        return True
