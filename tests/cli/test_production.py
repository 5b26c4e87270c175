"""docs/PRODUCTION.md: its files, units and commands work together, on ports and in folders here."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from configparser import ConfigParser
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from mayfly.cli.outcomes import ExitCode
from tests.cli.conftest import COMMAND, ROOT, Invoke, environment
from tests.facts import wait_until
from tests.object_store import needs_object_store, store
from tests.ports import held_port
from tests.servers.http.test_watching import ALERTS, expressions_of_alerts
from tests.spark.killing import kill_tree

__all__ = ["store"]
PAGE = (ROOT / "docs" / "PRODUCTION.md").read_text("utf-8")
DEPLOY = ROOT / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))
PASSWORD = "seen from afar"
#: A restart of a pipeline, when its failures have made it wait and the machine is busy.
RESTART_SECONDS = 300


def section(title: str) -> str:
    """Return the text of a section of the page."""
    [text] = re.findall(rf"^## {title}$(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return str(text)


def blocks(language: str, text: str = PAGE) -> list[str]:
    """Return the blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def variables(text: str) -> dict[str, str]:
    """Return what a file of variables for systemd sets."""
    return dict(line.split("=", 1) for line in text.splitlines())


LEDGER_ENV, PIPELINE_ENV = map(variables, blocks("sh"))
SERVER, PIPELINE = map(tomllib.loads, blocks("toml"))
[PROMETHEUS] = blocks("yaml")
#: The address of each job of Prometheus.
TARGETS = dict(
    re.findall(r'job_name: (\S+)\n +static_configs: \[\{targets: \["(.*)"\]\}\]', PROMETHEUS)
)


def unit(file: Path) -> ConfigParser:
    """Return a unit of systemd; of a key that is there twice the last one."""
    read = ConfigParser(interpolation=None, strict=False)
    read.read(file)
    return read


def exec_start(file: Path, instance: str, given: Mapping[str, str]) -> list[str]:
    """Return the arguments of the program that a unit starts, without the program."""
    words = shlex.split(unit(file)["Service"]["ExecStart"].replace("%i", instance))[1:]
    return [re.sub(r"\$\{(\w+)\}", lambda found: given[found[1]], word) for word in words]


def test_the_page_is_short() -> None:
    assert len(PAGE.split()) <= 1_200


def test_every_alert_has_a_row_that_says_what_to_do() -> None:
    rows = re.findall(
        r"^\| (Mayfly[\w, ]+) \| (.+) \|$", section("When an alert fires"), re.MULTILINE
    )
    told = Counter(name for names, _what in rows for name in names.split(", "))
    assert told == Counter(name for file in ALERTS for name in expressions_of_alerts(file))


def test_prometheus_scrapes_the_addresses_of_the_services_for_the_rules_that_there_are() -> None:
    assert {
        "mayfly": SERVER["listen"]["http"],
        "mayfly-pipelines": PIPELINE_ENV["METRICS_LISTEN"],
        "mayfly-ledger-runs": LEDGER_ENV["METRICS_LISTEN"],
    } == TARGETS
    assert f"rule_files: [{', '.join(file.name for file in ALERTS)}]\n" in PROMETHEUS
    gone = expressions_of_alerts(ALERTS[1])["MayflyRunGone"]
    assert TARGETS.keys() - {"mayfly"} == set(re.findall(r"mayfly-[a-z-]+", gone))


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.stem)
def test_every_unit_starts_a_command_with_options_that_it_has(mayfly: Invoke, file: Path) -> None:
    words = exec_start(file, "x", {"LAKE": "s3://a/b", "METRICS_LISTEN": "127.0.0.1:1"})
    command = words[:1] if words[0] == "serve" else words[:2]
    helped = mayfly(*command, "--help").output
    assert [word for word in words if word.startswith("-") and word not in helped] == []
    service = unit(file)["Service"]
    home = re.findall(r"^Environment=MAYFLY_HOME=(.*)$", file.read_text("utf-8"), re.MULTILINE)
    assert (service["User"], service["StateDirectory"], home) == (
        "mayfly",
        "mayfly",
        ["/var/lib/mayfly"],
    )
    assert service["Restart"] == "on-failure"


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.stem)
def test_every_unit_is_right_to_systemd(file: Path, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not here")
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    for each in (tmp_path / "deploy").glob("*.service"):
        text = each.read_text("utf-8")
        each.write_text(text.replace("/opt/mayfly/bin/mayfly", str(shutil.which("true"))))
    # A template is looked at as one of its instances.
    name = file.name.replace("@.", "@x.")
    copied = tmp_path / "deploy" / file.name
    answer = subprocess.run(
        [analyze, "verify", str(copied.rename(copied.with_name(name)))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")


def test_the_services_that_are_started_have_units_and_the_wheel_a_target() -> None:
    named = set(
        re.findall(
            r"\b(mayfly(?:-\w+@)?)(?:QM1|calls)?\b",
            " ".join(
                line
                for block in blocks("console")
                for line in block.splitlines()
                if "systemctl" in line
            ),
        )
    )
    assert named == {file.stem for file in UNITS}
    recipe = subprocess.run(
        ["make", "-n", "-o", ".venv/.ready", "wheel"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "pip wheel" in recipe
    assert "-w dist" in recipe
    extras = re.findall(r"dist/mayfly_mq-\*-none-any\.whl\)\[([\w,]+)\]", PAGE)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    optional = known["project"]["optional-dependencies"]
    assert set(extras[0].split(",")) <= optional.keys()


class Host:
    """A host as the page sets it up, below a folder, with ports that are free here."""

    def __init__(self, folder: Path, lake: str, stack: ExitStack) -> None:
        self.home, self._etc = folder / "lib", folder / "etc"
        for each in (self.home, self._etc, folder / "prometheus"):
            each.mkdir()
        self._paths = {
            "/var/lib/mayfly": str(self.home),
            "/etc/mayfly": str(self._etc),
            "/etc/prometheus": str(folder / "prometheus"),
        }
        addresses = [*SERVER["listen"].values()]
        addresses += [env["METRICS_LISTEN"] for env in (LEDGER_ENV, PIPELINE_ENV)]
        for address in addresses:
            self._paths[address] = f"127.0.0.1:{stack.enter_context(held_port())}"
        self._stack = stack
        server, pipeline = blocks("toml")
        (self._etc / "config.toml").write_text(self.here(server))
        (self._etc / "calls.toml").write_text(self.here(pipeline))
        (folder / "prometheus" / "mayfly.password").write_text(PASSWORD + "\n")
        shutil.copy(DEPLOY / "qm1.mqsc", self._etc)
        self._ledger_env = LEDGER_ENV | {"LAKE": lake}

    def here(self, text: str) -> str:
        """Return a text of the page with the paths and addresses of this host."""
        for there, here in self._paths.items():
            text = text.replace(there, here)
        return text

    def run(self, script: str) -> str:
        """Run commands of the page, and return what they print; fail if one fails."""
        lines = re.sub(r"^\$ ", "", self.here(script), flags=re.MULTILINE)
        program = f'mayfly() {{ {shlex.join(COMMAND)} "$@"; }}\n{lines}'
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", program],
            env=environment(self.home),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def service(self, name: str) -> Iterator[subprocess.Popen[str]]:
        """Run a service until the end of the block, as its unit says."""
        stem, _, instance = name.partition("@")
        file = DEPLOY / (f"{stem}@.service" if instance else f"{stem}.service")
        given = PIPELINE_ENV if stem == "mayfly-pipeline" else self._ledger_env
        words = [self.here(word) for word in exec_start(file, instance, given)]
        log = self.home.parent / f"{name}.log"
        with log.open("a") as output:
            process = subprocess.Popen(
                [*COMMAND, *words],
                env=environment(self.home),
                cwd=ROOT,
                stdout=output,
                stderr=output,
                text=True,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            kill_tree(process.pid)
            process.wait()

    def scrape(self, job: str) -> str | None:
        """Return what Prometheus would read, None while nobody answers."""
        asked = urllib.request.Request(f"http://{self.here(TARGETS[job])}/metrics")
        if job == "mayfly":
            user = base64.b64encode(f"monitor:{PASSWORD}".encode()).decode()
            asked.add_header("Authorization", f"Basic {user}")
        try:
            with urllib.request.urlopen(asked) as answer:
                return str(answer.read().decode())
        except OSError:
            return None

    def value(self, job: str, metric: str) -> float | None:
        """Return the value of a metric that has one series, None while it is not there."""
        for line in (self.scrape(job) or "").splitlines():
            if line.startswith(metric + "{"):
                return float(line.rpartition(" ")[2])
        return None

    def status(self) -> list[dict[str, Any]]:
        """Return what `mayfly pipeline status` tells."""
        done = subprocess.run(
            [*COMMAND, "pipeline", "status", "--json"],
            env=environment(self.home),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (ExitCode.DONE, ExitCode.NOTHING), done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found


@contextmanager
def host(folder: Path, lake: str) -> Iterator[Host]:
    with ExitStack() as stack:
        yield Host(folder, lake, stack)


def walk(folder: Path, lake: str) -> None:
    """Follow the page with queue manager and ledger run; the pipeline is only checked."""
    _systemd, start = blocks("console", section("Start"))
    [watch] = blocks("console", section("Watch"))
    with host(folder, lake) as here, here.service("mayfly"):
        wait_until(lambda: here.scrape("mayfly") is not None or ready(here))
        with here.service("mayfly-ledger@QM1"):
            wait_until(lambda: here.value("mayfly-ledger-runs", "mayfly_ledger_run_up") == 1)
            said = here.run(start)
            assert f"{here.here('/etc/mayfly/calls.toml')} can be run\n" in said
            assert "ledger of QM1: running since " in said
            here.run("$ mayfly get QM1 ORDERS")
            here.run(watch)
            scraped = here.scrape("mayfly")
            assert scraped is not None
            assert 'mayfly_queue_depth{queue="ORDERS",queue_manager="QM1"} 0.0' in scraped
            behind = "mayfly_ledger_run_lag_rows"
            end = here.value("mayfly", "mayfly_ledger_last_position")
            position = "mayfly_ledger_run_position"
            wait_until(lambda: (here.value("mayfly-ledger-runs", position) or 0) >= (end or 0) > 0)
            assert here.value("mayfly-ledger-runs", behind) == 0
        assert "lives" in here.run(f"$ mayfly ledger report {lake}")
        assert "is complete" in here.run(f"$ mayfly ledger verify {lake}")


def ready(here: Host) -> bool:
    """Return whether the queue manager is ready."""
    asked = [*COMMAND, "ping", "QM1"]
    env = environment(here.home)
    return subprocess.run(asked, env=env, capture_output=True, check=False).returncode == 0


@pytest.mark.soak
def test_the_page_can_be_followed(tmp_path: Path) -> None:
    walk(tmp_path, str(tmp_path / "lake"))


@pytest.mark.object_store
@needs_object_store
def test_the_page_can_be_followed_with_an_object_store(store: None, tmp_path: Path) -> None:
    assert {"AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} <= os.environ.keys()
    walk(tmp_path, "s3://lakes/qm1")


class Services:
    """Services of a host, each of which is started again when it has ended, as systemd does it."""

    def __init__(self, here: Host, stack: ExitStack) -> None:
        self._here, self._stack = here, stack
        self._running: dict[str, subprocess.Popen[str]] = {}

    def start(self, name: str) -> None:
        self._running[name] = self._stack.enter_context(self._here.service(name))

    def kill(self, name: str) -> None:
        """Kill the process of a service, and nothing else."""
        self._running[name].kill()
        self._running[name].wait()

    def revived(self, fact: Callable[[], object]) -> bool:
        """Start what has ended; return whether something is so."""
        for name, process in self._running.items():
            if process.poll() is not None:
                self.start(name)
        return bool(fact())


@pytest.mark.soak
@pytest.mark.spark
def test_any_one_process_may_be_killed_and_no_row_is_lost_or_doubled(tmp_path: Path) -> None:
    """Each service dies by kill -9 while messages come; the lake and the files are whole."""
    lake = str(tmp_path / "lake")
    with host(tmp_path, lake) as here, ExitStack() as stack:
        services = Services(here, stack)
        services.start("mayfly")
        wait_until(lambda: ready(here))
        services.start("mayfly-ledger@QM1")
        services.start("mayfly-pipeline@calls")
        out = here.home / "pipelines" / "calls" / "out"
        sent = 0

        def send(count: int) -> None:
            nonlocal sent
            numbers = range(sent, sent + count)
            here.run("\n".join(f"$ mayfly put QM1 ORDERS {number}" for number in numbers))
            sent += count

        send(5)
        wait_until(lambda: services.revived(lambda: bodies(out).total() == 5), RESTART_SECONDS)
        for name in ("mayfly-pipeline@calls", "mayfly", "mayfly-ledger@QM1"):
            send(3)
            services.kill(name)
            assert name == "mayfly" or "killed" in [each["state"] for each in here.status()]
            wait_until(lambda: services.revived(lambda: ready(here)), RESTART_SECONDS)
            send(3)
            wait_until(
                lambda: services.revived(lambda: bodies(out).total() >= sent), RESTART_SECONDS
            )
        assert bodies(out) == Counter({str(number): 1 for number in range(sent)})
        lag = "mayfly_ledger_run_lag_rows"
        wait_until(
            lambda: services.revived(lambda: here.value("mayfly-ledger-runs", lag) == 0),
            RESTART_SECONDS,
        )

        def is_in_order() -> bool:
            return [each["problems"] for each in here.status()] == [[], []] and not sum(
                each["message_count"]
                for each in json.loads(here.run("$ mayfly claims list QM1 --json"))
            )

        wait_until(lambda: services.revived(is_in_order), RESTART_SECONDS)
    assert "is complete" in here.run(f"$ mayfly ledger verify {lake}")
    here.run("$ mayfly verify QM1")
    [orders] = [
        row
        for row in json.loads(here.run(f"$ mayfly ledger report {lake} --json"))
        if row["queue"] == "ORDERS"
    ]
    assert (orders["lives"], orders["outcomes"]["got"]) == (sent, sent)


def bodies(out: Path) -> Counter[str]:
    """Return how often each body is among the files of the pipeline."""
    rows = (
        row.decode()
        for file in out.glob("b=*/*.parquet")
        for row in pq.read_table(file)["payload"].to_pylist()
    )
    return Counter(rows)
