"""LIKE: what it says, and that it never looks at a text more often than its length allows."""

from __future__ import annotations

import re
import sys
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.verbs.properties.selectors.conditions import Gapped, Pattern


class Examined(str):
    """A text that counts the characters that are compared, at most; comparisons of one piece too.

    ``find`` in C is linear: it is charged with what it passes over and with the piece itself.
    """

    __slots__ = ("examined",)
    examined: int

    def __new__(cls, text: str) -> Examined:
        """Begin with nothing examined."""
        made = super().__new__(cls, text)
        made.examined = 0
        return made

    def find(self, piece: str, start: int = 0, end: int | None = None) -> int:  # type: ignore[override]  # as it is called
        """Search, and count."""
        end = len(self) if end is None else end
        found = super().find(piece, start, end)
        self.examined += (found if found >= 0 else max(start, end)) - start + len(piece)
        return found

    def startswith(self, piece: str, start: int = 0) -> bool:  # type: ignore[override]  # as it is called
        """Compare, and count."""
        self.examined += len(piece)
        return super().startswith(piece, start)

    def __getitem__(self, index: int) -> str:  # type: ignore[override]  # as it is called
        self.examined += 1
        return super().__getitem__(index)


N = 20_000
#: What made a search with backtracking, or of each place anew, take the product of both lengths.
HARD = [
    ("%" + "a" * 2_000 + "b%", "a" * N),
    ("%a%" * 1_000 + "b", "a" * N),
    ("%a" * 2_000 + "%b%", "a" * N),
    ("%a_b%", "a" * N),
    ("%" + "a_" * 1_000 + "b%", "a" * N),
    ("%" + "a_" * 1_000 + "b%", "ab" * (N // 2)),
    ("%" + "a" * 1_000 + "_b%", "a" * N),
    ("%a_b" * 500 + "%c%", "aab" * (N // 3)),
    ("%" + "_" * 1_000 + "b%", "a" * N),
    ("_" * 1_000 + "%" + "a_b%" * 100, "a" * N),
    ("%" + "ab_" * 300 + "%" + "ab_" * 300 + "c%", "aba" * (N // 3)),
]


@pytest.mark.parametrize(("pattern", "text"), HARD)
def test_twice_the_text_takes_twice_the_steps(pattern: str, text: str) -> None:
    """There is no backtracking: the place of a part is never looked for again."""
    once, twice = Examined(text), Examined(text * 2)
    compiled = Pattern(pattern, None)
    compiled.matches(once)
    compiled.matches(twice)
    assert twice.examined <= 2.2 * once.examined + 4 * len(pattern)
    assert twice.examined <= 40 * len(twice) + 4_000


@pytest.mark.parametrize(("pattern", "text"), HARD)
def test_a_longer_pattern_takes_no_more_calls_for_each_character(pattern: str, text: str) -> None:
    """What is left of the length of a pattern is in the words of one integer."""
    calls = 0

    def note(_frame: FrameType, event: str, _value: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    compiled = Pattern(pattern, None)
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        compiled.matches(text)
    finally:
        sys.setprofile(before)
    assert calls <= 8 * (len(text) + len(pattern))


def expression(pattern: str) -> re.Pattern[str]:
    """Return a pattern as a regular expression."""
    written = {"%": ".*", "_": "."}
    return re.compile("".join(written.get(char, re.escape(char)) for char in pattern), re.DOTALL)


@given(
    text=st.text(alphabet="ab\n", max_size=14),
    pattern=st.text(alphabet="ab\n_%", max_size=10),
    free=st.sampled_from([0, 1_024]),
)
def test_a_pattern_is_what_a_regular_expression_says(text: str, pattern: str, free: int) -> None:
    """Whether pieces are tried or walked over."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mayfly.verbs.properties.selectors.conditions.FREE", free)
        if not free:
            patch.setattr("mayfly.verbs.properties.selectors.conditions.PATIENCE", 0)
        assert Pattern(pattern, None).matches(text) is bool(expression(pattern).fullmatch(text))


@given(
    text=st.text(alphabet="ab", max_size=30),
    pieces=st.lists(st.text(alphabet="ab", min_size=1, max_size=3), min_size=2, max_size=4),
    start=st.integers(0, 5),
    end=st.integers(0, 30),
)
def test_a_walk_finds_what_a_search_by_pieces_finds(
    text: str, pieces: list[str], start: int, end: int
) -> None:
    places, at = [], 0
    for piece in pieces:
        places.append((at, piece))
        at += len(piece) + 1
    part = Gapped(at - 1, tuple(places))
    end = min(end, len(text))
    found = expression("_".join(pieces)).search(text, start, end)
    assert part.find(text, start, end) == (-1 if found is None else found.start())
    assert part._walk(text, start, end) == (-1 if found is None else found.start())


def test_an_escaped_character_stands_for_itself() -> None:
    assert Pattern("a!_b!%%", "!").matches("a_b%c")
    assert not Pattern("a!_b!%%", "!").matches("axb%c")
    assert not Pattern("a!_b!%%", "!").matches("a_bc")
    with pytest.raises(ValueError, match="a!"):
        Pattern("a!", "!")


def test_one_character_is_one_code_point() -> None:
    assert Pattern("_", None).matches("\U0001f680")
    assert Pattern("%\U0001f680_x%", None).matches("a\U0001f680\nx")
