"""Disks whose snapshots nobody can tell from them: a copied folder is opened as the first one."""

from pathlib import Path

from mayfly.runtime import Files, Runtime


class SnapshotFiles(Files):
    """Files that have kept inode and birth time, as in a snapshot of a whole disk."""

    def birth_of(self, _file: Path) -> str | None:
        return None


def on_a_snapshot() -> Runtime:
    """Return the runtime of a queue manager whose folder a test has copied."""
    return Runtime(files=SnapshotFiles())
