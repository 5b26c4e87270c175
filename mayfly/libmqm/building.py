"""Builds the C library: with the wheel, and on demand where there is a C compiler."""

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
    raise CannotBuild(f"libmqm needs a C compiler: there is no {' and no '.join(wanted)}")


def build(library: Path, include: Path, *flags: str) -> None:
    """Compile the library to a path; ``include`` is the folder of its header.

    ``flags`` are further ones of the compiler. Raises CannotBuild without a compiler, or with what
    it has printed.
    """
    command = compiler()
    # Replaced whole: programs may be running with the old one.
    made = library.with_name(f"{library.name}.{os.getpid()}")
    words = [command, "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra"]
    words += [f"-Wl,-soname,{LIBRARY}", *flags, f"-I{include}", str(SOURCE), "-o", str(made)]
    words += ["-ldl", "-lpthread"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBuild(f"{command} failed: {done.stderr.strip()}")
    made.replace(library)
