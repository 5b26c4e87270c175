"""docs/RULES.md defines every rule that code and tests name, and each rule has its test."""

import re
import subprocess
import sys

import pytest

from tests.rules import ROOT, code_of, definitions, every_test, proofs

#: A code in prose: by itself, or in a range, a list or brackets. Hexadecimal and versions are none.
_NAMED = re.compile(r"(?<![\w.#'\"\[/-])[BCDEGKLMPQRTVX][1-9][0-9]?(?![\w.'\"\]/])")


def test_every_rule_has_a_test() -> None:
    assert not [code for code in definitions() if code not in proofs()]


def test_every_rule_that_a_test_names_is_defined() -> None:
    assert not {code: proofs()[code] for code in proofs() if code not in definitions()}


def test_every_rule_that_the_code_names_is_defined() -> None:
    unknown = {
        f"{path.relative_to(ROOT)}: {code}"
        for path in sorted((ROOT / "mayfly").rglob("*.py"))
        for line in path.read_text("utf-8").splitlines()
        for code in _NAMED.findall(line)
        if code not in definitions()
    }
    assert not unknown


def test_every_test_that_a_page_names_exists() -> None:
    names = {name for _file, name in every_test()}
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    named = [
        (page, n) for page in pages for n in re.findall(r"`(test_\w+)`", page.read_text("utf-8"))
    ]
    assert len(named) > 400
    assert not [f"{page.name}: {name}" for page, name in named if name not in names]


@pytest.mark.parametrize(
    ("word", "code"), [("E4", "E4"), ("E04", "E4"), ("E40x", None), ("Q", None), ("A1", None)]
)
def test_a_code_is_one_letter_and_its_number(word: str, code: str | None) -> None:
    assert code_of(word) == code


def test_the_list_is_printed() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "tests.rules", "E04", "D7"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert printed[0] == "E4    nobody gets or browses an expired message"
    assert f"      {proofs()['E4'][0]}" in printed
    assert f"D7    {definitions()['D7']}" in printed
