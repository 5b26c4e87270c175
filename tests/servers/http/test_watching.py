"""Alert rules, dashboard and docs/METRICS.md speak of metrics that there are."""

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
from mayfly.servers.http.resources.metrics import metrics_text
from mayfly.servers.status import ServerStatus

ROOT = Path(__file__).parents[3]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/mayfly.json").read_text("utf-8"))
PAGE = (ROOT / "docs" / "METRICS.md").read_text("utf-8")
_NAME = re.compile(r"mayfly_[a-z_]*[a-z]")
#: What Grafana puts in before it asks.
_VARIABLES = {"$__rate_interval": "5m", "$queue_manager": "QM1", "$queue": "Q1"}


def exported(manager: QueueManager) -> dict[str, set[str]]:
    """Return the names of all metrics with their labels, as a scrape has them."""
    found: dict[str, set[str]] = {}
    text = metrics_text({manager.name: manager}, ServerStatus([manager])).decode()
    for family, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        suffixes = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        for suffix in suffixes:
            found[family + suffix] = set()
    for name, labels in re.findall(r"^(\w+)\{(.*)\} ", text, re.MULTILINE):
        found[name] |= set(re.findall(r'(\w+)="', labels))
    return found


def expressions_of_alerts() -> dict[str, str]:
    """Return the expressions by alert; a block of several lines ends where its indent does."""
    text = ALERTS.read_text("utf-8")
    found = {}
    for rule in re.split(r"^ +- alert: ", text, flags=re.MULTILINE)[1:]:
        name, _, rest = rule.partition("\n")
        [given] = re.findall(r"^ +expr: (\|\n(?: {10}.*\n)+|.*\n)", rest, re.MULTILINE)
        found[name] = given.removeprefix("|\n").strip()
    return found


def expressions_of_dashboard() -> dict[str, str]:
    """Return the expressions of all panels."""
    found = {}
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            asked = target["expr"]
            for variable, value in _VARIABLES.items():
                asked = asked.replace(variable, value)
            found[f"{panel['title']} {target['refId']}"] = asked
    return found


def problems_of(asked: str, known: dict[str, set[str]]) -> list[str]:
    """Return metrics and labels of an expression that no scrape has; raises ValueError."""
    promql_parser.parse(asked)
    found = [name for name in _NAME.findall(asked) if name not in known]
    # No client is there, whose label it is (test_metrics.py).
    labels = {label for each in known.values() for label in each} | {"channel"}
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


def test_every_alert_asks_for_metrics_that_there_are(known: dict[str, set[str]]) -> None:
    asked = expressions_of_alerts()
    assert len(asked) == ALERTS.read_text("utf-8").count("- alert:") > 5
    assert {name: problems_of(each, known) for name, each in asked.items()} == {
        name: [] for name in asked
    }


def test_every_panel_asks_for_metrics_that_there_are(known: dict[str, set[str]]) -> None:
    asked = expressions_of_dashboard()
    assert len(asked) > 10
    assert {name: problems_of(each, known) for name, each in asked.items()} == {
        name: [] for name in asked
    }


def test_a_metric_that_is_not_there_would_be_seen(known: dict[str, set[str]]) -> None:
    assert problems_of("mayfly_queue_deep > 1", known) == ["mayfly_queue_deep"]
    assert problems_of('mayfly_queue_depth{topic="T"}', known) == ["topic"]
    with pytest.raises(ValueError, match="unclosed left"):
        promql_parser.parse("sum by (queue (mayfly_queue_depth)")


def test_the_page_names_every_metric(known: dict[str, set[str]]) -> None:
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in known}
    assert set(_NAME.findall(PAGE)) == families


def test_alerts_fire_when_they_should() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool of Prometheus runs the tests of the alert rules")
    tests = str(ALERTS.with_name("alerts_test.yml"))
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
