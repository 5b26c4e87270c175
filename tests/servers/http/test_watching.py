"""Alert rules, dashboards and docs/METRICS.md speak of metrics that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import promql_parser
import pytest

from mayfly import QueueManager
from mayfly.pipeline.metrics import metrics_text as run_metrics_text
from mayfly.pipeline.progress import LedgerProgress, Progress
from mayfly.servers.http.resources.metrics import metrics_text
from mayfly.servers.status import ServerStatus
from tests.pages import part

ROOT = Path(__file__).parents[3]
#: Of queue managers, and of pipelines and ledger runs.
ALERTS = [ROOT / "deploy" / "prometheus" / name for name in ("alerts.yml", "pipelines.yml")]
DASHBOARDS = [ROOT / "deploy" / "grafana" / name for name in ("mayfly.json", "pipelines.json")]
PAGE = part("METRICS.md", "Prometheus")
_NAME = re.compile(r"mayfly_[a-z_]*[a-z]")
#: What a metric of these kinds adds to its name.
_SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}
#: What Grafana puts in before it asks.
_VARIABLES = {
    "$__rate_interval": "5m",
    "$queue_manager": "QM1",
    "$queue": "Q1",
    "$pipeline": "calls",
}


def exported(manager: QueueManager) -> dict[str, set[str]]:
    """Return the names of all metrics with their labels, as scrapes have them."""
    found: dict[str, set[str]] = {}
    pipeline = Progress("calls", batch=1, batch_ended_ms=1, lag_ms=1)
    ledger = LedgerProgress("QM1", "lake", end_position=9).with_commit(8, 1, 1)
    text = metrics_text({manager.name: manager}, ServerStatus([manager])).decode()
    text += run_metrics_text(pipeline) + run_metrics_text(ledger)
    for family, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        for suffix in _SUFFIXES.get(kind, ("",)):
            found[family + suffix] = set()
    for name, labels in re.findall(r"^(\w+)\{(.*)\} ", text, re.MULTILINE):
        found[name] |= set(re.findall(r'(\w+)="', labels))
    return found


def expressions_of_alerts(file: Path) -> dict[str, str]:
    """Return the expressions by alert; a block of several lines ends where its indent does."""
    text = file.read_text("utf-8")
    found = {}
    for rule in re.split(r"^ +- alert: ", text, flags=re.MULTILINE)[1:]:
        name, _, rest = rule.partition("\n")
        [given] = re.findall(r"^ +expr: (\|\n(?: {10}.*\n)+|.*\n)", rest, re.MULTILINE)
        found[name] = given.removeprefix("|\n").strip()
    return found


def expressions_of_dashboard(file: Path) -> dict[str, str]:
    """Return the expressions of all panels."""
    found = {}
    dashboard: dict[str, Any] = json.loads(file.read_text("utf-8"))
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            asked = target["expr"]
            for variable, value in _VARIABLES.items():
                asked = asked.replace(variable, value)
            assert "$" not in asked
            found[f"{panel['title']} {target['refId']}"] = asked
    return found


def problems_of(asked: str, known: dict[str, set[str]]) -> list[str]:
    """Return metrics and labels of an expression that no scrape has; raises ValueError."""
    promql_parser.parse(asked)
    found = [name for name in _NAME.findall(asked) if name not in known]
    # No client and no consumer is there, whose labels they are (test_metrics.py); the others are
    # given by Prometheus.
    given = {"channel", "consumer", "job", "instance"}
    labels = {label for each in known.values() for label in each} | given
    used = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", asked)
    used += [label for group in re.findall(r"by \(([^)]*)\)", asked) for label in group.split(", ")]
    return found + [label for label in used if label not in labels]


@pytest.fixture
def known(queue_manager: QueueManager) -> dict[str, set[str]]:
    """What a queue manager with work behind it exports."""
    assert queue_manager.mqsc(
        "DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(X) USAGE(XMITQ)\n"
        "DEFINE CHANNEL(A.B) CHLTYPE(SDR) CONNAME(B) XMITQ(X)"
    ).ok
    with queue_manager.session() as session:
        session.put("Q1", b"x")
        session.get("Q1")
        session.put("Q1", b"x", delay_ms=1)
    return exported(queue_manager)


@pytest.mark.parametrize("file", ALERTS, ids=lambda file: file.stem)
def test_every_alert_asks_for_metrics_that_there_are(
    file: Path, known: dict[str, set[str]]
) -> None:
    asked = expressions_of_alerts(file)
    assert len(asked) == file.read_text("utf-8").count("- alert:") > 5
    assert {name: problems_of(each, known) for name, each in asked.items()} == {
        name: [] for name in asked
    }


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_every_panel_asks_for_metrics_that_there_are(
    file: Path, known: dict[str, set[str]]
) -> None:
    asked = expressions_of_dashboard(file)
    assert len(asked) > 10
    assert {name: problems_of(each, known) for name, each in asked.items()} == {
        name: [] for name in asked
    }


def test_no_rule_and_no_board_is_without_a_test() -> None:
    rules = set((ROOT / "deploy" / "prometheus").glob("*.yml"))
    assert rules == {*ALERTS, *(file.with_stem(f"{file.stem}_test") for file in ALERTS)}
    assert set((ROOT / "deploy" / "grafana").glob("*.json")) == set(DASHBOARDS)
    for file in ALERTS:
        tests = file.with_stem(f"{file.stem}_test").read_text("utf-8")
        tested = set(re.findall(r"alertname: (\w+)", tests))
        assert tested <= expressions_of_alerts(file).keys()
    assert tested == expressions_of_alerts(ALERTS[1]).keys()


def test_a_metric_that_is_not_there_would_be_seen(known: dict[str, set[str]]) -> None:
    assert problems_of("mayfly_queue_deep > 1", known) == ["mayfly_queue_deep"]
    assert problems_of('mayfly_queue_depth{topic="T"}', known) == ["topic"]
    with pytest.raises(ValueError, match="unclosed left"):
        promql_parser.parse("sum by (queue (mayfly_queue_depth)")


def test_the_page_names_every_metric(known: dict[str, set[str]]) -> None:
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in known}
    assert set(_NAME.findall(PAGE)) == families


@pytest.mark.parametrize("file", ALERTS, ids=lambda file: file.stem)
def test_alerts_fire_when_they_should(file: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool of Prometheus runs the tests of the alert rules")
    tests = str(file.with_stem(f"{file.stem}_test"))
    command = [promtool, "test", "rules", tests]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_program_in_the_documentation_prints_what_it_says(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    monkeypatch.setenv("MAYFLY_ADMIN_PASSWORD", "set by the program")
    [(program, said)] = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(program, "METRICS.md", "exec"), {})
    assert capsys.readouterr().out == said
