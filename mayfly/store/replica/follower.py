"""A follower: brings a folder of its own to the end of the log, again and again."""

from __future__ import annotations

from pathlib import Path

from mayfly.runtime import Runtime
from mayfly.store.database import DATABASE_FILE
from mayfly.store.folder_lock import FolderLock
from mayfly.store.replica.applying import AppliedRows, StateFile, bring_to_end
from mayfly.store.replica.files import write_files
from mayfly.store.replica.log import PostgresLog


class Follower:
    """A folder that follows the log of a queue manager; no queue manager has it open meanwhile."""

    def __init__(self, url: str, manager_name: str, folder: Path, runtime: Runtime) -> None:
        """Lock the folder, which is made if needed, and connect to the log.

        Raises FolderInUse, and as :class:`PostgresLog`.
        """
        self.folder = folder
        self._files, self._lock = runtime.files, FolderLock(folder)
        #: The last change of a file in the log that the folder has.
        self._file_number = 0
        try:
            self._lock.make_private(DATABASE_FILE)
            #: The log that it follows.
            self.log = PostgresLog(url, manager_name, runtime)
        except BaseException:
            self._lock.release()
            raise

    def catch_up(self) -> AppliedRows:
        """Write what the folder lacks; the database is that of the end of the log on return.

        So are the other files, unless this folder was the last owner's. All is on the disk then.
        Raises LogUnreachable, after which it may be called again; ReplicaError, StoreDamaged,
        OSError.
        """
        applied = bring_to_end(self.folder, self.log, self._files)
        found = self.log.files_since(self._file_number)
        if found.epoch != self._owned_epoch():
            write_files(self.folder, found, self._files)
            self._file_number = found.number
        return applied

    def _owned_epoch(self) -> int:
        """Return the last epoch whose owner had this folder open, 0 for none."""
        state = StateFile(self.folder)
        try:
            return state.read().owned_epoch
        finally:
            state.close()

    def close(self) -> None:
        """Close the connection and release the folder."""
        self.log.close()
        self._lock.release()
