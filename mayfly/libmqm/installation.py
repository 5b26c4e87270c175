"""The folder in which programs find the library, and the variables that lead them there."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from pathlib import Path

from mayfly.libmqm.building import ALIASES, LIBRARY, SOURCE, build
from mayfly.libmqm.header import IBM_NAME, NAME, header

#: Where the build of the wheel puts the library.
PACKAGED = Path(__file__).with_name("lib") / LIBRARY


def default_folder() -> Path:
    """Return the folder of this version of the library, in the cache of the user."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    digest = hashlib.sha256(SOURCE.read_bytes() + header().encode()).hexdigest()[:12]
    return Path(cache) / "mayfly" / f"libmqm-{digest}"


def install(folder: Path) -> Path:
    """Fill a folder as programs expect that of a client of IBM MQ, and return it.

    ``lib64`` has the library under each of its names, ``inc`` the headers. The library is that of
    the wheel, else it is compiled; one that is there stays. Raises CannotBuild, and OSError for a
    folder that cannot be written.
    """
    include, libraries = folder / "inc", folder / "lib64"
    library = libraries / LIBRARY
    if not library.exists():
        text = header()
        include.mkdir(parents=True, exist_ok=True)
        libraries.mkdir(parents=True, exist_ok=True)
        (include / NAME).write_text(text, encoding="ascii")
        (include / IBM_NAME).write_text(f'#include "{NAME}"\n', encoding="ascii")
        for alias in ALIASES:
            (libraries / alias).unlink(missing_ok=True)
            (libraries / alias).symlink_to(LIBRARY)
        if PACKAGED.exists():
            library.symlink_to(PACKAGED)
        else:
            build(library, include)
    return folder


def python_library() -> Path | None:
    """Return the shared library of this Python, which C programs start; None if it has none."""
    values = sysconfig.get_config_vars("LIBDIR", "MULTIARCH", "INSTSONAME", "LDLIBRARY")
    directory, machine, *names = values
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    names += [f"libpython{version}.so.1.0", f"libpython{version}.so.1", f"libpython{version}.so"]
    folders = [Path(directory or "/usr/lib"), Path(sys.base_prefix) / "lib"]
    folders += [folder / machine for folder in folders if machine]
    for name in names:
        for folder in folders:
            path = folder / str(name)
            if ".so" in path.suffixes and path.exists():
                return path.resolve()
    return None


def variables(folder: Path) -> dict[str, str]:
    """Return the environment with which programs find the library of a folder, and Mayfly.

    MAYFLY_LIBPYTHON is missing for a Python without a shared library.
    """
    libraries = str(folder / "lib64")
    found = {
        "MQ_FILE_PATH": str(folder),
        "MQ_INSTALLATION_PATH": str(folder),
        "LD_LIBRARY_PATH": _prefixed(libraries, "LD_LIBRARY_PATH"),
        "LIBRARY_PATH": _prefixed(libraries, "LIBRARY_PATH"),
        "C_INCLUDE_PATH": _prefixed(str(folder / "inc"), "C_INCLUDE_PATH"),
        "MAYFLY_PYTHONPATH": os.pathsep.join(dict.fromkeys(each for each in sys.path if each)),
    }
    library = python_library()
    return found if library is None else found | {"MAYFLY_LIBPYTHON": str(library)}


def _prefixed(folder: str, variable: str) -> str:
    """Return the folders of a variable with ``folder`` as the first one, once."""
    others = [each for each in os.environ.get(variable, "").split(os.pathsep) if each]
    return os.pathsep.join([folder, *(each for each in others if each != folder)])
