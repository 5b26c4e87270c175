"""The shape of the source, checked by machine: layers, clocks, names, swallowed errors."""

import ast
import gc
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent

#: The rooms below the engine, and the engine. What each room may import is in pyproject.toml, for
#: import-linter.
ENGINE_AND_BELOW = frozenset({"mqi", "lifetime", "verbs", "runtime", "store", "engine"})

#: Attributes of the engine that nobody outside it may use: definitions, locks, state.
ENGINE_INSIDE = frozenset(
    "committer deferred definitions_lock engine_lock hidden registry store waits".split()
)
#: Modules of the engine that every put and get goes through, and features that they do not name:
#: these hook themselves in (``EngineState.on_departure``, ``Committer.arrival_hook``).
ENGINE_KERNEL = frozenset(
    "core delivery get get_many put queue_state transaction unit_of_work".split()
)
HOOKED_IN = frozenset({"marks", "triggering"})
#: The API of the engine.
ENGINE_API = frozenset(
    {
        "mayfly.engine",
        "mayfly.engine.api.administration",
        "mayfly.engine.api.admission",
        "mayfly.engine.api.bulk",
        "mayfly.engine.api.operating",
        "mayfly.engine.api.programs",
        "mayfly.engine.api.transit",
    }
)
#: Modules that lead back to themselves when imports for type checkers count, by package.
IN_CIRCLES_FOR_TYPES: dict[str, int] = {}

#: So many test files import from inside the engine. The number may only fall.
TESTS_INSIDE_THE_ENGINE = 67


#: Time comes from a Clock handed in. A bare reference counts: it is called somewhere else.
WALL_CLOCKS = frozenset(
    "time.time time.time_ns time.monotonic time.monotonic_ns time.clock_gettime"
    " time.clock_gettime_ns time.sleep datetime.datetime.now datetime.datetime.utcnow"
    " datetime.datetime.today datetime.date.today".split()
)

#: A file without such a line need not be parsed.
IMPORTS_A_CLOCK = re.compile(r"^\s*(?:import|from)\b.*\b(?:date)?time\b", re.MULTILINE)

#: (file, what it may use) -> why.
CLOCK_EXCEPTIONS = {
    ("mayfly/runtime/clocks.py", "*"): "the one module that reads the machine's clocks",
}

#: What a package needs of the machine comes from the Runtime of its queue manager. Some have none:
#: package -> why.
WITHOUT_A_RUNTIME = {
    "runtime": "it is the machine",
    "servers": "loops of asyncio and threads of gRPC, which a simulator replaces by connections",
    "admin.security": "admission answers servers by futures, which their loops wait for",
    "client.aio": "the loop and its tasks are the program's",
    "pipeline.bulk": "clients of servers, in processes of Spark that have no queue manager",
    "pipeline.spark": "processes of Spark, which have no queue manager",
    "pipeline.lake": "files that processes without a queue manager write",
    "pipeline": "a process that drives Spark",
    "client.telemetry": "durations that spans and metrics tell, measured as OpenTelemetry does",
    "cli": "a process, with its signals and progress bars",
    "cli.airport": "a program that uses queue managers as any other",
}
MACHINE = frozenset(
    "_thread threading time random secrets uuid multiprocessing concurrent asyncio"
    " os.urandom os.getrandom".split()
)

#: (file, what it may use) -> why. Only what belongs to the whole process can stand here.
RUNTIME_EXCEPTIONS = {
    ("mayfly/channel/channels.py", "threading"): "which queue managers this process has open",
    (
        "mayfly/services/listener/sessions.py",
        "threading",
    ): "asked by programs without any object",
    ("mayfly/store/damage.py", "threading"): "SQLite's list of file systems is the process's",
    ("mayfly/store/database.py", "threading"): "a template for each thread of the process",
}

DURATION_WORDS = frozenset("timeout interval delay expiry ttl deadline elapsed".split())
QUALIFIERS = frozenset("default max min limit total value left".split())

#: Names of durations without a unit -> why.
DURATION_EXCEPTIONS = {"idle_timeout": "an attribute of proton's transport, seconds"}

#: A file without such a line need not be parsed.
CATCHES_ALL = re.compile(r"\bexcept\s*:|\b(?:Base)?Exception\b")

FORBIDDEN_FILES = frozenset("util utils helper helpers common misc".split())

REASON = re.compile(
    r"#\s*(?:noqa(?::\s*[A-Z]+[0-9]+(?:,\s*[A-Z]+[0-9]+)*)?|type:\s*ignore(?:\[[^\]]*\])?)(.*)"
)


@dataclass(frozen=True)
class Source:
    """One file: its path from the root, with forward slashes, and its text."""

    path: str
    text: str

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def by_kind(self) -> dict[type[ast.AST], list[Any]]:
        """Its nodes by class: most checks are about one class of a hundred."""
        found = defaultdict[type[ast.AST], list[Any]](list)
        for node in self.nodes:
            found[type(node)].append(node)
        return found

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @property
    def module(self) -> str:
        """Its dotted name; a package's is the package's."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def at(self, node: ast.AST, problem: str) -> str:
        return f"{self.path}:{getattr(node, 'lineno', 1)}: {problem}"


Problems = Iterator[str]
Check = Callable[[Source], Problems]


def sources(*folders: str) -> list[Source]:
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [Source(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in files]


PRODUCTION = sources("mayfly")
TESTS = sources("tests")
BENCHMARKS = sources("bench")
ENGINE_MODULES = {s.module for s in PRODUCTION if s.module.startswith("mayfly.engine.")}


# Layers


def imports(source: Source, *, at_run_time: bool = False) -> Iterator[tuple[ast.AST, str]]:
    """Yield each imported dotted name of ours; at_run_time leaves out `if TYPE_CHECKING`."""
    typing_only = {
        id(inner)
        for node in source.by_kind[ast.If]
        if "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in (*source.by_kind[ast.Import], *source.by_kind[ast.ImportFrom]):
        if at_run_time and id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            names = [] if node.level else [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            if name.split(".")[0] == "mayfly":
                yield node, name


def room_of(module: str) -> str:
    """Return the room of a module, or its part of a room if WITHOUT_A_RUNTIME names that."""
    _mayfly, *parts = module.split(".")
    part = ".".join(parts[:2])
    return part if part in WITHOUT_A_RUNTIME else parts[0] if parts else ""


def import_graph(modules: list[Source], *, at_run_time: bool) -> dict[str, set[str]]:
    known = {source.module for source in modules}
    graph: dict[str, set[str]] = {}
    for source in modules:
        targets = {
            name if name in known else name.rpartition(".")[0]
            for _, name in imports(source, at_run_time=at_run_time)
        }
        graph[source.module] = targets & known - {source.module}
    return graph


def in_circles(modules: list[Source]) -> set[str]:
    """Return the modules that lead back to themselves, by imports for types as well."""
    graph = import_graph(modules, at_run_time=False)
    while ends := {module for module in graph if not graph[module] & graph.keys()}:
        graph = {module: targets - ends for module, targets in graph.items() if module not in ends}
    return {module for module in graph if module in _reached(graph, module)}


def _reached(graph: dict[str, set[str]], module: str) -> set[str]:
    reached, ahead = set[str](), set(graph[module])
    while ahead:
        reached |= ahead
        ahead = {target for each in ahead for target in graph.get(each, ())} - reached
    return reached


def circles(modules: list[Source]) -> Problems:
    try:
        TopologicalSorter(import_graph(modules, at_run_time=True)).prepare()
    except CycleError as error:
        yield " <- ".join(error.args[1])


# The boundary of the engine


def is_outside(source: Source) -> bool:
    """Tell whether a file belongs to a room above the engine."""
    room, _, _part = room_of(source.module).partition(".")
    return room != "pipeline" and room not in ENGINE_AND_BELOW


def module_of(name: str) -> str:
    """Return the module that an imported name is, or stands in."""
    return name if name in ENGINE_MODULES else name.rpartition(".")[0]


def check_engine_inside(source: Source) -> Problems:
    """Lock, definitions and state of the engine are its own."""
    if not is_outside(source):
        return
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and node.attr in ENGINE_INSIDE:
            yield source.at(node, f".{node.attr} is the engine's: see docs/ARCHITECTURE.md")


def check_kernel(source: Source) -> Problems:
    """The kernel asks no feature: a message of a plain queue meets none of their code."""
    name = source.path.removeprefix("mayfly/engine/").partition("/")[0].removesuffix(".py")
    if not source.path.startswith("mayfly/engine/") or name not in ENGINE_KERNEL:
        return
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and node.attr in HOOKED_IN:
            yield source.at(node, f"{ast.unparse(node)}: let the feature hook itself in")
        elif isinstance(node, ast.ImportFrom) and HOOKED_IN & set(str(node.module).split(".")):
            yield source.at(node, f"{node.module}: let the feature hook itself in")


def dotted(node: ast.expr) -> str:
    """Return a name with its attributes; empty for those of anything else, as of a call."""
    attributes = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(attributes)])


def dotted_uses(source: Source) -> Iterator[tuple[ast.AST, str]]:
    """Yield each use of an imported name with the full name it stands for."""
    stands_for: dict[str, str] = {}
    for node in source.nodes:
        if isinstance(node, ast.Import):
            stands_for |= {
                a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0]
                for a in node.names
            }
        elif isinstance(node, ast.ImportFrom):
            stands_for |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    for node in source.nodes:
        if isinstance(node, ast.Attribute | ast.Name):
            first, _, rest = dotted(node).partition(".")
            if first in stands_for:
                yield node, f"{stands_for[first]}.{rest}".rstrip(".")


def check_clocks(source: Source) -> Problems:
    if not IMPORTS_A_CLOCK.search(source.text):
        return
    for node, name in dotted_uses(source):
        excused = {(source.path, "*"), (source.path, name)} & CLOCK_EXCEPTIONS.keys()
        if name in WALL_CLOCKS and not excused:
            yield source.at(node, f"{name}: time comes from a Clock; see runtime/clocks.py")


def check_runtime(source: Source) -> Problems:
    if room_of(source.module) in WITHOUT_A_RUNTIME:
        return
    for node in source.nodes:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Attribute):
            names = [dotted(node)]
        for name in names:
            known = name if name in MACHINE else name.partition(".")[0]
            is_import = not isinstance(node, ast.Attribute) or "." in known
            if is_import and known in MACHINE and (source.path, known) not in RUNTIME_EXCEPTIONS:
                yield source.at(node, f"{name}: take it from the queue manager's runtime")
                break


def check_handlers(source: Source) -> Problems:
    if not CATCHES_ALL.search(source.text):
        return
    lines = source.text.splitlines()
    for node in source.by_kind[ast.ExceptHandler]:
        caught = "BaseException" if node.type is None else ast.unparse(node.type)
        passes_on = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
        # Calling code that is not ours is the one reason to catch all, said where ruff is told.
        said_why = "noqa: BLE001" in lines[node.lineno - 1]
        if re.search(r"\b(Base)?Exception\b", caught) and not passes_on and not said_why:
            yield source.at(node, f"except {caught}: name the error and give it an outcome")


def check_prints(source: Source) -> Problems:
    if source.path.startswith(("mayfly/cli/", "mayfly/cli.py", "mayfly/__main__.py")):
        return
    for node in source.by_kind[ast.Call]:
        if dotted(node.func) == "print":
            yield source.at(node, "print: only the command line talks to the terminal")


def check_reasons(source: Source) -> Problems:
    for number, line in enumerate(source.text.splitlines(), 1):
        silenced = REASON.search(line)
        if silenced and len(re.findall(r"[^\W\d_]", silenced[1])) < 8:
            yield f"{source.path}:{number}: say beside it why the check is silenced"


def check_leftovers(source: Source) -> Problems:
    for number, line in enumerate(source.text.splitlines(), 1):
        if re.search(r"\b(TODO|FIXME|XXX)\b|\bbreakpoint\(", line):
            yield f"{source.path}:{number}: do it now, or leave it out"


# One owner


#: Of queues; and what maps keys to who hides a message.
COUNTERS = frozenset(
    {"depth", "uncommitted", "uncommitted_staged", "locked", "put_and_got", "browse_locked"}
    | {"claimed", "staged_for"}
)
BY_KEY_OR_SIDE = frozenset({"hidden", "first", "present"})
CHANGING_CALLS = frozenset({"pop", "popitem", "update", "setdefault", "clear"})


def check_queue_state(source: Source) -> Problems:
    """engine/queue_state.py alone changes hidden keys and counters (own attributes may be)."""
    is_owner = source.path == "mayfly/engine/queue_state.py"
    if is_owner or not any("mayfly.engine" in name for _node, name in imports(source)):
        return
    assigned = (*source.by_kind[ast.Assign], *source.by_kind[ast.AnnAssign])
    own = {id(target) for node in assigned for target in _own(node)}
    for node in source.nodes:
        changed = None
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            changed = node.attr if node.attr in COUNTERS and id(node) not in own else None
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            changed = _name_by_key(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = _name_by_key(node.func.value)
            changed = name if node.func.attr in CHANGING_CALLS else None
        if changed:
            yield source.at(node, f"{changed}: engine/queue_state.py alone changes it")


def _own(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [t for t in targets if isinstance(t, ast.Attribute) and dotted(t.value) == "self"]


def _name_by_key(node: ast.expr) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr if node.attr in BY_KEY_OR_SIDE else None
    return "hidden" if dotted(node) == "hidden" else None


# Names and documentation


def named_numbers(source: Source) -> Iterator[tuple[ast.AST, str]]:
    """Yield parameters, fields and attributes that are numbers, or of which nothing is said."""
    for node in source.nodes:
        if isinstance(node, ast.arg) and _may_be_number(node.annotation):
            yield node, node.arg
        elif isinstance(node, ast.AnnAssign) and _may_be_number(node.annotation):
            yield node, ast.unparse(node.target).rpartition(".")[2]
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node, node.attr


def _may_be_number(annotation: ast.expr | None) -> bool:
    if isinstance(annotation, ast.Name):
        return annotation.id in ("int", "float")
    return annotation is None or re.search(r"\b(int|float)\b", ast.unparse(annotation)) is not None


def check_units(source: Source) -> Problems:
    if source.path.startswith("mayfly/pymqi/"):
        return
    annotated = {id(n.target) for n in source.by_kind[ast.AnnAssign]}
    for node, name in named_numbers(source):
        words = name.strip("_").split("_")
        bare = words[-1] in DURATION_WORDS | QUALIFIERS and DURATION_WORDS & set(words)
        if bare and id(node) not in annotated and name not in DURATION_EXCEPTIONS:
            yield source.at(node, f"{name} is in what unit? End it in _ms, _tenths, _seconds, …")


def check_file_name(source: Source) -> Problems:
    if FORBIDDEN_FILES & set(source.module.split(".")):
        yield f"{source.path}:1: name it after what is in it"


# The checks, on the real source


@pytest.fixture(autouse=True, scope="module")
def _trees() -> Iterator[None]:
    """Keep a million nodes for these tests alone.

    Python would look through them for garbage again and again, also in the tests that come next.
    """
    gc.disable()
    yield
    for source in (*PRODUCTION, *TESTS):
        for name in ("by_kind", "nodes", "tree"):
            vars(source).pop(name, None)
    gc.enable()


def run(check: Check, files: list[Source]) -> None:
    problems = [problem for source in files for problem in check(source)]
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize(
    "check",
    [
        check_prints,
        check_units,
        check_runtime,
        check_queue_state,
        check_engine_inside,
        check_kernel,
    ],
    ids=lambda check: check.__name__.removeprefix("check_"),
)
def test_production_source(check: Check) -> None:
    assert PRODUCTION
    run(check, PRODUCTION)


@pytest.mark.parametrize(
    "check",
    [check_clocks, check_handlers, check_reasons, check_leftovers, check_file_name],
    ids=lambda check: check.__name__.removeprefix("check_"),
)
def test_production_and_test_source(check: Check) -> None:
    # The snippets below are bad on purpose.
    run(check, PRODUCTION + [source for source in TESTS if source.path != "tests/test_tidy.py"])


@pytest.mark.parametrize("check", [check_reasons, check_leftovers, check_handlers])
def test_benchmark_source(check: Check) -> None:
    assert BENCHMARKS
    run(check, BENCHMARKS)


def test_exceptions_from_the_runtime_are_needed() -> None:
    used = {
        (source.path, name)
        for source in PRODUCTION
        for node in source.nodes
        if isinstance(node, ast.Import)
        for name in (alias.name for alias in node.names)
    }
    assert used >= RUNTIME_EXCEPTIONS.keys()


def test_imports_go_in_no_circle() -> None:
    assert not list(circles(PRODUCTION))


def test_modules_in_circles_for_type_checkers_only_get_fewer() -> None:
    """A package that is left out has none; a change that opens a circle lowers its count here."""
    found = Counter(module.split(".")[1] for module in in_circles(PRODUCTION))
    assert dict(found) == IN_CIRCLES_FOR_TYPES


def test_every_name_of_the_api_of_the_engine_has_a_user_outside() -> None:
    wanted = {name for s in PRODUCTION if is_outside(s) for _node, name in imports(s)}
    for module in ENGINE_API:
        source = next(s for s in PRODUCTION if s.module == module)
        here = {n.asname or n.name for s in source.tree.body for n in getattr(s, "names", ())}
        said = ast.literal_eval(ast.unparse(source.tree.body[-1]).partition("=")[2].strip())
        assert set(said) == here, f"{module}: what it imports is not what __all__ says"
        unused = {name for name in said if f"{module}.{name}" not in wanted}
        assert not unused, f"{module}: nobody uses {', '.join(sorted(unused))}"


def test_fewer_and_fewer_tests_reach_inside_the_engine() -> None:
    """A test of a rule speaks to what users have: a queue manager, a session, a connection."""
    insiders = {
        source.path
        for source in TESTS
        if "mayfly.engine" in source.text
        and any(
            name.startswith("mayfly.engine.") and module_of(name) not in ENGINE_API
            for _node, name in imports(source)
        )
    }
    assert len(insiders) <= TESTS_INSIDE_THE_ENGINE, "\n".join(sorted(insiders))


def test_each_mark_that_make_test_leaves_out_has_a_target_that_runs_it() -> None:
    """The description of the mark names the target. All but soak run in .ci/run as well."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    options = project["tool"]["pytest"]["ini_options"]
    described = dict(marker.split(": ", 1) for marker in options["markers"])
    makefile, checks = ((ROOT / file).read_text("utf-8") for file in ("Makefile", ".ci/run"))
    left_out = re.findall(r"not (\w+)", options["addopts"][options["addopts"].index("-m") + 1])
    assert set(left_out) > {"soak", "long"}
    for mark in left_out:
        [target] = re.findall(r"`make (\S+)`", described[mark])
        [recipe] = re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
        assert re.search(rf'-m "?{mark}\b', recipe), mark
        assert (f"make {target}\n" in checks) is (mark != "soak")


def test_every_glossary_term_is_in_the_source() -> None:
    """Each row's second cell holds the identifiers that stand for the term."""
    words = {word for source in PRODUCTION for word in re.findall(r"\w+", source.text)}
    words |= {part for source in PRODUCTION for part in source.module.split(".")}
    glossary = (ROOT / "docs/GLOSSARY.md").read_text("utf-8")
    rows = re.findall(r"^\| [^|]+ \| (`[^|]+) \|", glossary, re.MULTILINE)
    assert len(rows) > 20
    missing = {name for row in rows for name in re.findall(r"`(\w+)`", row)} - words
    assert not missing, f"in docs/GLOSSARY.md, not in mayfly/: {', '.join(sorted(missing))}"


@pytest.mark.slow
def test_lifetime_rules_load_no_store_engine_or_spark() -> None:
    heavy = {"apsw", "pyarrow", "pandas", "pyspark", "mayfly.store", "mayfly.engine"}
    code = "import mayfly.lifetime.window, sys; print(*sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    assert not heavy & set(answer.stdout.split())


# The checks, on source that is bad on purpose: each must find these lines and no others


BAD: list[tuple[Check, str, str, list[int]]] = [
    (check_engine_inside, "mayfly/channel/a.py", "with m.engine_lock:\n    m.store.read()", [1, 2]),
    (check_engine_inside, "mayfly/engine/bulk/a.py", "with core.engine_lock: pass", []),
    (check_engine_inside, "mayfly/pipeline/spark/a.py", "frame.store", []),
    (check_clocks, "mayfly/a.py", "import time\ntime.time()\ntime.perf_counter()", [2]),
    (check_clocks, "mayfly/a.py", "from time import sleep as rest\nwait = rest", [2]),
    (check_clocks, "tests/a.py", "import datetime as d\nd.datetime.now(d.UTC)", [2]),
    (
        check_clocks,
        "tests/a.py",
        "from datetime import date, datetime\ndate.today()\ndatetime.max",
        [2],
    ),
    (check_clocks, "mayfly/runtime/clocks.py", "import time\ntime.time_ns()", []),
    (check_runtime, "mayfly/store/a.py", "import threading\nimport os\nos.urandom(8)", [1, 3]),
    (check_runtime, "mayfly/services/everyplace/a.py", "from secrets import randbits", [1]),
    (check_runtime, "mayfly/a_new_package/a.py", "import threading", [1]),
    (check_runtime, "mayfly/engine/bulk/a.py", "from time import perf_counter\nimport re", [1]),
    (
        check_runtime,
        "mayfly/engine/a.py",
        "from os import urandom\nimport concurrent.futures",
        [1, 2],
    ),
    (check_runtime, "mayfly/engine/a.py", "import random as r\nx.time.y\nmayfly.random", [1]),
    (check_runtime, "mayfly/runtime/a.py", "import threading", []),
    (check_runtime, "mayfly/channel/channels.py", "import threading\nimport time", [2]),
    (check_handlers, "mayfly/a.py", "try: f()\nexcept: pass", [2]),
    (check_handlers, "mayfly/a.py", "try: f()\nexcept (OSError, Exception): pass", [2]),
    (check_handlers, "mayfly/a.py", "try: f()\nexcept OSError: pass\nexcept MyException: pass", []),
    (check_handlers, "mayfly/a.py", "try: f()\nexcept BaseException:\n    undo()\n    raise", []),
    (
        check_handlers,
        "mayfly/a.py",
        "try: f()\nexcept Exception: pass  # noqa: BLE001 - theirs",
        [],
    ),
    (check_prints, "mayfly/a.py", "print(1)", [1]),
    (check_prints, "mayfly/cli/a.py", "print(1)", []),
    (check_reasons, "mayfly/a.py", "a = 1  # noqa\nb = 2  # noqa: E501, N802", [1, 2]),
    (check_reasons, "mayfly/a.py", "a = 1  # type: ignore[misc]", [1]),
    (check_reasons, "mayfly/a.py", "a = 1  # type: ignore[misc]  # the stub is wrong here", []),
    (check_leftovers, "mayfly/a.py", "a = 1  # TODO: more\nTODOS = 2", [1]),
    (check_units, "mayfly/a.py", "def f(timeout, wait_interval_ms, delay_queue): ...", [1]),
    (
        check_units,
        "mayfly/a.py",
        "class A:\n    expiry: int\n    delay: str\n    ttl_max: float",
        [2, 4],
    ),
    (
        check_units,
        "mayfly/a.py",
        "self._deadline = 1\nself.deadline_ms = 2\nself.expiry: E = e",
        [1],
    ),
    (
        check_queue_state,
        "mayfly/engine/a.py",
        """import mayfly.engine.b
q.depth += 1
q.present[0] -= 1
core.hidden[k] = me
del hidden[k]
core.hidden.pop(k)""",
        [2, 3, 4, 5, 6],
    ),
    (
        check_queue_state,
        "mayfly/channel/a.py",
        "import mayfly.engine.b\nq.uncommitted, q.locked = 0, 1",
        [2, 2],
    ),
    (
        check_queue_state,
        "mayfly/engine/a.py",
        "import mayfly.engine.b\nself.locked = None\nprint(q.depth, q.first[0], hidden.get(k))",
        [],
    ),
    (check_queue_state, "mayfly/engine/queue_state.py", "import mayfly.engine.b\nq.depth += 1", []),
    (check_queue_state, "mayfly/store/a.py", "totals.claimed += 1", []),
    (check_kernel, "mayfly/engine/core.py", "def f(core):\n    core.marks.forget(1)", [2]),
    (check_kernel, "mayfly/engine/get.py", "from mayfly.engine.marks import Marks", [1]),
    (check_kernel, "mayfly/engine/browse.py", "def f(core):\n    core.marks", []),
    (check_file_name, "mayfly/store/utils.py", "", [1]),
    (check_file_name, "mayfly/helpers/__init__.py", "", [1]),
]


@pytest.mark.parametrize(("check", "path", "text", "lines"), BAD)
def test_check_finds_what_is_bad_and_nothing_else(
    check: Check, path: str, text: str, lines: list[int]
) -> None:
    found = list(check(Source(path, text)))
    assert [problem.split(": ")[0] for problem in found] == [f"{path}:{line}" for line in lines]


def test_a_circle_is_found_and_an_import_for_types_alone_is_none() -> None:
    a = Source("mayfly/engine/a.py", "from mayfly.engine import b")
    b = Source("mayfly/engine/b.py", "def f():\n    from mayfly.engine.a import x")
    typed = Source("mayfly/engine/b.py", "if TYPE_CHECKING:\n    from mayfly.engine.a import x")
    assert "mayfly.engine.a <- mayfly.engine.b" in next(circles([a, b]))
    assert not list(circles([a, typed]))
    leading = Source("mayfly/engine/c.py", "from mayfly.engine import a")
    assert in_circles([a, typed, leading]) == {"mayfly.engine.a", "mayfly.engine.b"}
