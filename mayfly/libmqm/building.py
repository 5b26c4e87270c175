"""Builds the C library: by the build of the wheel, and on demand for a machine with a compiler.

This module imports nothing of Mayfly before it is called, because the build runs without it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

#: The file that programs load, and the names under which others link the same library.
LIBRARY, ALIASES = "libmqm_r.so", ("libmqm.so", "libmqic_r.so", "libmqic.so")
SOURCE = Path(__file__).with_name("libmqm.c")


class CannotBuild(Exception):
    """The library is not built; the text says why."""


def compiler() -> str:
    """Return the path of the C compiler: $CC, else cc or gcc; raises CannotBuild without one."""
    wanted = [os.environ["CC"]] if os.environ.get("CC") else ["cc", "gcc"]
    for each in wanted:
        found = shutil.which(each)
        if found:
            return found
    raise CannotBuild(f"libmqm needs a C compiler, and there is no {' and no '.join(wanted)}")


def build(folder: Path, header_text: str, *flags: str) -> Path:
    """Compile the library with its header into a folder, and return its path.

    ``flags`` are further ones of the compiler. Raises CannotBuild without a compiler, or with what
    it has printed.
    """
    command = compiler()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mayfly_mqi.h").write_text(header_text, encoding="ascii")
    # Replaced whole, since programs may be running with the old one.
    made, target = folder / f"{LIBRARY}.{os.getpid()}", folder / LIBRARY
    words = [command, "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra"]
    words += [f"-Wl,-soname,{LIBRARY}", *flags, f"-I{folder}", str(SOURCE), "-o", str(made)]
    done = subprocess.run([*words, "-ldl", "-lpthread"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBuild(f"{command} failed: {done.stderr.strip()}")
    made.replace(target)
    return target
