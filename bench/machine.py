"""The machine a run was on, and the versions it ran."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import apsw

import mayfly

#: The name of the load in what ``machine`` returns.
LOAD: Final = "load of the last minute, when it began"
_ROOT: Final = Path(__file__).parents[1]


def machine() -> dict[str, str]:
    """Return what a reader has to know of a run, by its name on the page."""
    folder = Path(tempfile.gettempdir()).resolve()
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processors": str(len(os.sched_getaffinity(0))),
        LOAD: f"{os.getloadavg()[0]:.1f}",
        "memory": f"{memory_bytes / 2**30:.1f} GiB",
        "file system of the folders": file_system_of(folder, Path("/proc/mounts").read_text()),
        "kernel": f"{platform.system()} {platform.release().partition('-')[0]}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "SQLite": apsw.sqlite_lib_version(),
        "apsw": apsw.apsw_version(),
        "Mayfly": f"{mayfly.__version__}, commit {_commit()}",
        "build": "compiled" if is_compiled() else "pure Python",
    }


def is_compiled() -> bool:
    """Whether the hot packages run as machine code; on an older commit they never do."""
    try:
        from mayfly import build
    except ImportError:
        return False
    return build.is_compiled()


def file_system_of(folder: Path, mounts: str) -> str:
    """Return the type of the file system a folder is on, by the lines of ``/proc/mounts``."""
    found, depth = "unknown", -1
    for line in mounts.splitlines():
        _, place, kind, *_ = line.split(" ")
        # A later mount on the same place hides the earlier one.
        if folder.is_relative_to(place) and len(Path(place).parts) >= depth:
            found, depth = kind, len(Path(place).parts)
    return found


def _commit() -> str:
    try:
        told = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--exclude=*"],
            cwd=_ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return told.stdout.strip()
