"""Builds the wheel; with MAYFLY_COMPILE=1 its hot packages are compiled by mypyc.

The C library of ``mayfly.pymqi.libmqm`` is compiled with them.

The modules stay as they are beside the compiled ones: they say what is compiled, and a Python of
another version runs them. Nothing is written beside the source, where a stale extension would hide
its module: all goes to ``build/``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: Of ``lifetime`` what each put asks: NumPy, Spark and numba take the other rules as Python.
COMPILED = ("engine", "lifetime/window.py", "mqi", "runtime", "store", "verbs/messages.py")
#: What stays interpreted, and why. Compiled, a wrong argument is refused for its type before our
#: own checks can name the field and the reason code; so what programs call is not compiled.
INTERPRETED = {
    "mayfly/engine/arrivals.py": "a class that others extend",
    "mayfly/engine/attribute_type.py": "rows of tables",
    "mayfly/engine/attributes.py": "tables of dataclasses, made once",
    "mayfly/engine/configuration.py": "what programs call",
    "mayfly/engine/delay/schedule.py": "what programs call",
    "mayfly/engine/engine.py": "what programs call",
    "mayfly/engine/events/catalog.py": "tables, made once",
    "mayfly/engine/forwarding.py": "what programs call, with sessions of a network as well",
    "mayfly/engine/handles.py": "what programs call",
    "mayfly/engine/kept_attributes.py": "tables, made once",
    "mayfly/engine/objects/inquire.py": "what programs call",
    "mayfly/engine/pubsub/topic_verbs.py": "what programs call",
    "mayfly/engine/session.py": "what programs call",
    "mayfly/engine/trace/": "questions about single messages",
    "mayfly/mqi/constants.py": "names of other modules",
    "mayfly/mqi/errors.py": "exceptions that others extend",
    "mayfly/mqi/pcf.py": "commands, which are few",
    "mayfly/runtime/compiling.py": "what the compiler is told, for the interpreter",
    "mayfly/runtime/files.py": "a class that others extend",
    "mayfly/runtime/runtime.py": "classes that others extend; one is of the interpreter's lock",
    "mayfly/runtime/virtual_clock.py": "a class that others extend",
    "mayfly/store/backup/": "a process of its own, beside the queue manager",
    "mayfly/store/prepare_records.py": "JSON, in which lists stand for tuples",
    "mayfly/store/replica/": "waits for a database",
}
#: One version of the compiler, because each refuses other things.
_COMPILER = "mypy[mypyc]==2.4.1"


def compiled_modules(root: Path) -> list[str]:
    """Return the paths of the modules to compile, below ``root``."""
    places = [root / "mayfly" / name for name in COMPILED]
    paths = (
        path for place in places for path in (place.rglob("*.py") if place.is_dir() else [place])
    )
    names = sorted(str(path.relative_to(root)) for path in paths if path.name != "__init__.py")
    return [name for name in names if not name.startswith(tuple(INTERPRETED))]


def c_extensions(root: Path, target: Path) -> list[Any]:
    """Return the extensions as C source in ``target``; the compiler ends the process on errors."""
    from mypyc.build import mypycify

    os.chdir(root)
    return mypycify(
        ["--ignore-missing-imports", "--config-file=", *compiled_modules(root)],
        opt_level="2",
        debug_level="0",
        multi_file=True,
        target_dir=str(target),
        group_name="mayfly",
    )


def c_library(root: Path, target: Path) -> list[Path]:
    """Compile ``libmqm`` for C programs into ``target``, and return its path in a list.

    Where that is not possible a line says why, and the list is empty. A wheel without the library
    has its source, and ``mayfly libmqm env`` compiles it.
    """
    sys.path.insert(0, str(root))
    try:
        from mayfly.pymqi.libmqm.library import LIBRARY, NAME, CannotBuild, build, header
    finally:
        sys.path.remove(str(root))
    library = target / "mayfly" / "pymqi" / "libmqm" / "lib" / LIBRARY
    library.parent.mkdir(parents=True, exist_ok=True)
    include = root / "build" / "include"
    include.mkdir(parents=True, exist_ok=True)
    (include / NAME).write_text(header(), encoding="ascii")
    try:
        build(library, include)
    except CannotBuild as reason:
        print(f"libmqm is left out: {reason}", file=sys.stderr)
        return []
    return [library]


class CompiledWheel(BuildHookInterface[Any]):
    """Adds the extensions to the wheel when they are asked for."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return the compiler, and the libraries of the core for their types."""
        if not _is_asked_for():
            return []
        return [_COMPILER, *self.metadata.core.dependencies]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, unless the source itself is installed, to be edited."""
        if not _is_asked_for() or version == "editable":
            return
        extensions = Path(self.root) / "build" / "extensions"
        for built in [
            *_build(Path(self.root), extensions),
            *c_library(Path(self.root), extensions),
        ]:
            build_data["force_include"][str(built)] = str(built.relative_to(extensions))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


def _is_asked_for() -> bool:
    return os.environ.get("MAYFLY_COMPILE", "") not in ("", "0")


def _build(root: Path, target: Path) -> list[Path]:
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    extensions = c_extensions(root, root / "build" / "c")
    command = build_ext(Distribution({"name": "mayfly-mq", "ext_modules": extensions}))
    command.build_lib, command.build_temp = str(target), str(root / "build" / "objects")
    command.parallel = os.cpu_count()
    command.ensure_finalized()
    command.run()
    return [root / output for output in command.get_outputs()]
