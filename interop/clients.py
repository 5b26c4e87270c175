"""The clients: the programs that each needs, what fetches its packages, and what runs its tests."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from interop import results
from interop.results import FAILED, Result

HERE: Final = Path(__file__).parent
#: Long enough for a slow registry beside other work; one that takes longer does not answer.
_FETCH_SECONDS: Final = 300
_RUN_SECONDS: Final = 300
#: The environment that keeps tests from downloading packages, and what Maven and Cargo say of a
#: missing one.
_OFFLINE: Final = {"GOPROXY": "off", "GOTOOLCHAIN": "local", "GOSUMDB": "off"}
_LACKS: Final = ("in offline mode", "using offline mode")
#: In the folder of a client: says for which files its packages have been fetched.
_FETCHED: Final = ".fetched"


class Client(NamedTuple):
    """A client, in the folder of its name.

    ``fetch`` downloads the packages that ``given`` names, compiles them where the language has it
    so, and does nothing else: where it fails, the client is skipped. ``run`` runs the tests, and
    downloads nothing. ``smoke`` takes its place
    for one short test. ``shown`` are the columns of the table, by a word that the names of their
    results end with; the word is empty where the client has one column.
    """

    needs: tuple[str, ...]
    fetch: tuple[str, ...]
    given: tuple[str, ...]
    run: tuple[str, ...]
    smoke: tuple[str, ...]
    results: Callable[[Path, str], list[Result]]
    shown: Mapping[str, str]


class Ran(NamedTuple):
    """The run of a client: results, or the reason for which it was skipped."""

    results: list[Result]
    skipped: str = ""
    output: str = ""

    @property
    def has_failed(self) -> bool:
        """Whether a test has failed, or the runner has without naming a test."""
        return bool(self.output)


def _surefire(folder: Path, _output: str) -> list[Result]:
    return [
        one._replace(name=f"{one.name} {module}")
        for module in ("jakarta", "javax")
        for one in results.of_junit(folder / module / "target" / "surefire-reports")
    ]


_PYTEST: Final = (
    *(sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", "."),
    *("-p", "no:cacheprovider", "--junitxml", "build/TEST-client.xml", "test_client.py"),
)
_NODE: Final = ("node", "--test", "--test-timeout=60000", "--test-reporter=tap")
_GO: Final = ("go", "test", "-mod=readonly", "-count=1", "-json", "-timeout=120s")
_MAVEN: Final = ("mvn", "-q", "-B")
# One test at a time: they share the time of their server.
_CARGO: Final = ("cargo", "test", "-q", "--locked", "--offline", "--test", "clients")
_ONE_BY_ONE: Final = ("--", "--test-threads=1", "--format=pretty")

CLIENTS: Final[Mapping[str, Client]] = {
    "proton": Client(
        needs=(),
        fetch=(sys.executable, "-c", "import proton"),
        given=(),
        run=_PYTEST,
        smoke=(*_PYTEST, "-k", "delay"),
        results=lambda folder, _output: results.of_junit(folder / "build"),
        shown={"": "Qpid Proton 0.40 (Python)"},
    ),
    "qpid-jms": Client(
        needs=("java", "mvn"),
        fetch=(*_MAVEN, "-Dmaven.test.skip=true", "clean", "test"),
        given=("pom.xml", "jakarta/pom.xml", "javax/pom.xml"),
        run=(*_MAVEN, "-o", "clean", "test"),
        smoke=(*_MAVEN, "-o", "-pl", "jakarta", "test", "-Dtest=ScenarioTest", "-Dscenario=D1_a"),
        results=_surefire,
        shown={"jakarta": "Qpid JMS 2.6 (jakarta.jms)", "javax": "Qpid JMS 1.12 (javax.jms)"},
    ),
    # A suite of somebody else's: the conformance tests of JMS 1.1 of JORAM, by Qpid JMS.
    "joram": Client(
        needs=("java", "mvn"),
        fetch=(*_MAVEN, "-Dmaven.test.skip=true", "clean", "test"),
        given=("pom.xml",),
        run=(*_MAVEN, "-o", "clean", "test"),
        smoke=(*_MAVEN, "-o", "clean", "test", "-Dtest=QueueBrowserTest"),
        results=lambda folder, _output: results.of_junit(folder / "target" / "surefire-reports"),
        shown={},
    ),
    "rhea": Client(
        needs=("node", "npm"),
        fetch=("npm", "ci", "--silent", "--no-audit", "--no-fund"),
        given=("package-lock.json",),
        run=_NODE,
        smoke=(*_NODE, "--test-name-pattern=delay"),
        results=lambda _folder, output: results.of_tap(output),
        shown={"": "rhea 3.0 (JavaScript)"},
    ),
    "go-amqp": Client(
        needs=("go",),
        fetch=("go", "mod", "download"),
        given=("go.mod", "go.sum"),
        run=(*_GO, "./..."),
        smoke=(*_GO, "-run=TestClient/delay", "./..."),
        results=lambda _folder, output: results.of_go(output),
        shown={"": "go-amqp 1.7"},
    ),
    # The last, since its packages have to be compiled, meanwhile.
    "fe2o3-amqp": Client(
        needs=("cargo",),
        fetch=("cargo", "build", "-q", "--locked", "--lib"),
        given=("Cargo.toml", "Cargo.lock"),
        run=(*_CARGO, *_ONE_BY_ONE),
        smoke=(*_CARGO, "delay", *_ONE_BY_ONE),
        results=lambda _folder, output: results.of_cargo(output),
        shown={"": "fe2o3-amqp 0.18 (Rust)"},
    ),
}


def prepared(name: str, given: Mapping[str, str]) -> str:
    """Fetch the packages of a client if need be; return why it must be skipped, else nothing."""
    client, folder = CLIENTS[name], HERE / name
    missing = [program for program in client.needs if shutil.which(program) is None]
    if missing:
        return f"{', '.join(missing)} is not installed"
    return "" if _is_fetched(client, folder) else _fetched(client, folder, given)


def ran(name: str, given: Mapping[str, str]) -> Ran:
    """Run the tests of a client that is prepared, with an environment."""
    return _ran(name, CLIENTS[name].run, given)


def smoked(name: str, given: Mapping[str, str]) -> Ran:
    """Run one short test of a client; it fetches no packages."""
    client, folder = CLIENTS[name], HERE / name
    if not all(shutil.which(program) for program in client.needs):
        return Ran([], prepared(name, given))
    if not _is_fetched(client, folder):
        return Ran([], "its packages have not been fetched: make interop does it")
    return _ran(name, client.smoke, given)


def _ran(name: str, command: tuple[str, ...], given: Mapping[str, str]) -> Ran:
    client, folder = CLIENTS[name], HERE / name
    for before in folder.glob("**/TEST-*.xml"):
        before.unlink()
    status, output = output_of(command, folder, {**given, **_OFFLINE}, _RUN_SECONDS)
    if status != 0 and any(said in output for said in _LACKS):
        (folder / _FETCHED).unlink(missing_ok=True)
        return Ran([], "its packages are no longer all there: the next run fetches them")
    found = client.results(folder, output)
    has_failed = status != 0 or not found or any(one.outcome == FAILED for one in found)
    return Ran(found, "", output or f"exit status {status}" if has_failed else "")


def _is_fetched(client: Client, folder: Path) -> bool:
    mark = folder / _FETCHED
    return mark.exists() and mark.read_text() == _wanted(client, folder)


def _fetched(client: Client, folder: Path, given: Mapping[str, str]) -> str:
    """Download the packages of a client; return why not, if so."""
    status, output = output_of(client.fetch, folder, given, _FETCH_SECONDS)
    if status != 0:
        said = [line.strip() for line in output.splitlines() if line.strip()] or [str(status)]
        why = next((line for line in said if "rror" in line.lower()), said[-1])
        return f"its packages cannot be fetched: {why[:200]}"
    (folder / _FETCHED).write_text(_wanted(client, folder))
    return ""


def _wanted(client: Client, folder: Path) -> str:
    content = b"".join((folder / name).read_bytes() for name in client.given)
    return hashlib.sha256(content).hexdigest()


def output_of(
    command: tuple[str, ...], folder: Path, given: Mapping[str, str], seconds: float
) -> tuple[int, str]:
    """Run a command; return its exit status and what it has printed.

    After so many seconds it is killed with all that it has started: a Java that Maven leaves
    behind would keep the output open, and the run waiting.
    """
    with subprocess.Popen(
        command,
        cwd=folder,
        env=dict(given),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=seconds)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return 1, f"{said}\n{' '.join(command)} has not ended within {seconds} s"
    return process.returncode, said
