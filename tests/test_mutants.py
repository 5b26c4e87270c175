"""The mutants of `tests.mutants` break rules that there are, in code that there is."""

import subprocess

import pytest

from tests.mutants.__main__ import names, proofs_of
from tests.rules import ROOT, code_of, definitions


@pytest.mark.interpreted
@pytest.mark.parametrize("name", names())
def test_a_mutant_breaks_a_rule_that_has_tests_in_code_that_is_there(name: str) -> None:
    """A patch that no longer applies moves with the code that it breaks."""
    assert code_of(name.partition("_")[0]) in definitions()
    assert proofs_of(name)
    checked = subprocess.run(
        ["git", "apply", "--check", f"tests/mutants/{name}.patch"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr


def test_each_letter_of_rules_has_two_mutants() -> None:
    letters = [name[0] for name in names()]
    assert {letter for letter in letters if letters.count(letter) >= 2} == {
        code[0] for code in definitions()
    }
