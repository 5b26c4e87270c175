"""The rules of docs/RULES.md, and the tests that prove each of them.

``python -m tests.rules [CODE ...]`` prints them.
"""

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: One letter and its number; tests also write E04, so that they stand in order.
_CODE = re.compile(r"[BCDEGKLMPQRTVX]0?[1-9][0-9]?")
_DEFINED = re.compile(rf"\| ({_CODE.pattern}) \| (.+) \|")
_TEST = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)


def code_of(text: str) -> str | None:
    """Return the code that a word is, without a leading zero; None when it is no code."""
    return text[0] + text[1:].lstrip("0") if _CODE.fullmatch(text) else None


@cache
def definitions() -> dict[str, str]:
    """Return code -> sentence, in the order of the page."""
    lines = (ROOT / "docs" / "RULES.md").read_text("utf-8").splitlines()
    return {m[1]: m[2] for line in lines if (m := _DEFINED.fullmatch(line))}


def rules_of(test: str) -> Iterator[str]:
    """Yield the codes at the front of a test's name: E4 and D17 for test_E4_D17_it_is_gone."""
    for word in test.removeprefix("test_").split("_"):
        code = code_of(word)
        if code is None:
            return
        yield code


@cache
def every_test() -> list[tuple[str, str]]:
    """Return file, from the root, and name of every test."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [
        (file.relative_to(ROOT).as_posix(), name)
        for file in files
        for name in _TEST.findall(file.read_text("utf-8"))
    ]


@cache
def proofs() -> dict[str, list[str]]:
    """Return code -> the tests named after it, each as pytest takes it."""
    found: dict[str, list[str]] = {}
    for file, name in every_test():
        for code in rules_of(name):
            found.setdefault(code, []).append(f"{file}::{name}")
    return found


def main(codes: list[str]) -> int:
    """Print rules with their tests; returns 1 for a code that is not defined."""
    wanted = [code_of(code) or code for code in codes] or list(definitions())
    unknown = [code for code in wanted if code not in definitions()]
    if unknown:
        print(f"not defined in docs/RULES.md: {', '.join(unknown)}", file=sys.stderr)
        return 1
    for code in wanted:
        print(f"{code:<5} {definitions()[code]}")
        for proof in proofs().get(code, []):
            print(f"      {proof}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
