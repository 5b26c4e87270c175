"""The clients of other languages: the tables that say what they can do, and a smoke of each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop import results, tables
from interop.clients import CLIENTS, output_of, smoked
from interop.results import CANNOT, FAILED, PASSED, Result
from interop.serving import served


def rows_of(name: str) -> list[list[str]]:
    """Return the cells of a table of docs/AMQP.md, its head first."""
    text = tables.PAGE.read_text("utf-8")
    part = text.partition(f"<!-- {name}:")[2].partition(f"<!-- end of {name} -->")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def titles() -> list[str]:
    return [title for client in CLIENTS.values() for title in client.shown.values()]


def test_the_table_names_the_clients_and_what_they_are_tried_for() -> None:
    head, _line, *rows = rows_of("clients")
    assert head == ["", *titles()]
    assert [row[0] for row in rows] == list(tables.ABILITIES.values())
    assert {cell for row in rows for cell in row[1:]} <= {"yes", "no", "not tried"}


def test_the_table_names_the_scenarios_that_there_are() -> None:
    head, _line, *rows = rows_of("scenarios")
    assert set(head[2:]) <= set(titles())
    shown = [f"{rule}_{said.replace(' ', '_')}" for rule, said, *_ in rows]
    assert shown == tables.scenario_names()
    for rule, _said, *cells in rows:
        wanted = "classic, simplified" + (", spring" if rule.startswith("L") else "")
        assert set(cells) == {wanted}


def test_results_of_each_runner_are_read(tmp_path: Path) -> None:
    (tmp_path / "TEST-a.xml").write_text(
        '<testsuite><testcase name="classic() D1_x classic"/><testcase name="delay_x()">'
        '<failure/></testcase><testcase name="test_life"><skipped message="Skipped: why"/>'
        "</testcase></testsuite>"
    )
    assert results.of_junit(tmp_path) == [
        Result("D1_x classic", PASSED),
        Result("delay_x", FAILED),
        Result("life", CANNOT, "why"),
    ]
    tap = "ok 1 - delay: x\nnot ok 2 - life: y\nok 3 - transactions # SKIP why\n# pass 1"
    assert results.of_tap(tap) == [
        Result("delay: x", PASSED),
        Result("life: y", FAILED),
        Result("transactions", CANNOT, "why"),
    ]
    go = [
        '{"Action":"output","Test":"T/drain","Output":"    a_test.go:7: why\\n"}',
        '{"Action":"skip","Test":"T/drain"}',
        '{"Action":"pass","Test":"T/delay"}',
        '{"Action":"fail","Test":"T/life"}',
        '{"Action":"fail","Test":"T"}',
    ]
    assert results.of_go("\n".join(go)) == [
        Result("drain", CANNOT, "why"),
        Result("delay", PASSED),
        Result("life", FAILED),
    ]
    cargo = (
        "running 3 tests\ntest delay_x ... ok\ntest life ... FAILED\ntest drain ... ignored, why\n"
        "test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured"
    )
    assert results.of_cargo(cargo) == [
        Result("delay_x", PASSED),
        Result("life", FAILED),
        Result("drain", CANNOT, "why"),
    ]


def test_a_client_that_does_not_end_is_ended_with_all_that_it_has_started(tmp_path: Path) -> None:
    # The output stays open until the second process is gone too.
    command = ("sh", "-c", "echo begun; sleep 600 & wait")
    status, output = output_of(command, tmp_path, os.environ, 0.2)
    assert status == 1
    assert output.endswith("has not ended within 0.2 s")


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    """The servers that ``make interop`` starts, and what tells clients of them."""
    with served() as given:
        yield given


@pytest.mark.slow
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_gets_a_delayed_message_at_its_time(
    name: str, environment: dict[str, str]
) -> None:
    one = smoked(name, environment)
    if one.skipped:
        pytest.skip(f"{name}: {one.skipped}")
    assert not one.has_failed, one.output
    assert [result.outcome for result in one.results if result.outcome != CANNOT]
