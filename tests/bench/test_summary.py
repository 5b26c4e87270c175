"""The page of both builds has each figure of either, bold where the aim of its build is missed."""

from __future__ import annotations

from pathlib import Path

from bench.figures import Figure, at_least, at_most
from bench.parts import PARTS
from bench.record import Part, Run, to_json
from bench.subjects import SUBJECTS
from bench.summary import summary, write_summary

_PURE = Run(
    {"processors": "2", "build": "pure Python"},
    [
        Part(
            "units",
            1,
            [
                at_least("puts", 0.9, 0.825, "x", "of pure", samples=[0.8, 1.0]),
                at_least("gets", 0.3, 0.44, "x"),
                Figure("peer", "-", "-", True, "no a|b"),
            ],
        ),
        Part("demo", 1, [at_most("demo", 80, 120, " s")]),
    ],
)
_COMPILED = Run(
    {"processors": "2", "build": "compiled", "load": "0.1"},
    [Part("units", 1, [at_least("puts", 1.4, 1.5, "x", "of both"), at_least("gets", 1, 0.8, "x")])],
)
_BOTH = {"pure": _PURE, "compiled": _COMPILED}


def test_each_part_belongs_to_one_subject() -> None:
    named = [part for parts in SUBJECTS.values() for part in parts]
    assert sorted(named) == sorted(PARTS)


def test_a_row_has_both_builds_the_aims_of_both_and_the_note_of_the_compiled_one() -> None:
    lines = summary(_BOTH).splitlines()
    assert "| figure | pure Python | compiled | aim | beside, notes |" in lines
    assert "| puts | 0.9x (0.8x to 1x) | **1.4x** | >= 1.5x (>= 0.825x) | of both |" in lines
    assert "| gets | **0.3x** | 1x | >= 0.8x (>= 0.44x) | - |" in lines
    assert "| peer | - | - | - | no a\\|b |" in lines
    assert "| demo | 80 s | - | <= 120 s | - |" in lines


def test_it_tells_of_both_runs_and_how_many_aims_each_met() -> None:
    lines = summary(_BOTH).splitlines()
    columns = "[pure Python](pure/README.md) | [compiled](compiled/README.md)"
    assert f"| the run | {columns} |" in lines
    assert "| load | - | 0.1 |" in lines
    assert "| aims | 2 of 3 met | 1 of 2 met |" in lines


def test_subjects_come_in_their_order_and_only_where_a_run_has_a_part() -> None:
    headings = [line for line in summary(_BOTH).splitlines() if line.startswith("## ")]
    assert headings == ["## Units of work, single puts, non-persistent messages", "## Spark"]


def test_one_build_alone_has_a_page(tmp_path: Path) -> None:
    (tmp_path / "compiled").mkdir()
    (tmp_path / "compiled" / "run.json").write_text(to_json(_COMPILED))
    write_summary(tmp_path)
    lines = (tmp_path / "README.md").read_text().splitlines()
    assert "| figure | compiled | aim | beside, notes |" in lines
    assert "| puts | **1.4x** | >= 1.5x | of both |" in lines
