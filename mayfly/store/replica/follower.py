"""A follower: brings the database of a folder of its own to the end of the log, again and again."""

from __future__ import annotations

from pathlib import Path

from mayfly.runtime import Runtime
from mayfly.store.database import DATABASE_FILE
from mayfly.store.folder_lock import FolderLock
from mayfly.store.replica.applying import AppliedRows, bring_to_end
from mayfly.store.replica.log import PostgresLog


class Follower:
    """A folder that follows the log of a queue manager; no queue manager has it open meanwhile."""

    def __init__(self, url: str, manager_name: str, folder: Path, runtime: Runtime) -> None:
        """Lock the folder, which is made if needed, and connect to the log.

        Raises FolderInUse, and as :class:`PostgresLog`.
        """
        self.folder = folder
        self._files, self._lock = runtime.files, FolderLock(folder)
        try:
            self._lock.make_private(DATABASE_FILE)
            #: The log that it follows.
            self.log = PostgresLog(url, manager_name, runtime)
        except BaseException:
            self._lock.release()
            raise

    def catch_up(self) -> AppliedRows:
        """Write what the folder lacks; the database is that of the end of the log on return.

        It is on the disk then. Raises LogUnreachable, after which it may be called again;
        ReplicaError, StoreDamaged, OSError.
        """
        return bring_to_end(self.folder, self.log, self._files)

    def close(self) -> None:
        """Close the connection and release the folder."""
        self.log.close()
        self._lock.release()
