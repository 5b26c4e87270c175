"""The code blocks of the README, for the tests that run them."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block: its language and its text."""

    language: str
    text: str


def blocks() -> list[Block]:
    """Return all blocks in their order."""
    return [Block(*found) for found in _BLOCK.findall((ROOT / "README.md").read_text("utf-8"))]


def demo_excerpt() -> list[str]:
    """Return the lines that ``make demo`` is said to end with."""
    (excerpt,) = [b.text for b in blocks() if b.text.startswith("Does it all agree?")]
    return [line for line in excerpt.splitlines() if line]


def first_program() -> tuple[str, str]:
    """Return the program that stands before its output, and the output."""
    [found] = [
        (block.text, after.text)
        for block, after in pairwise(blocks())
        if (block.language, after.language) == ("python", "text")
    ]
    return found


def install_script() -> str:
    """Return the commands that install Mayfly from a checkout, one a line."""
    return "\n".join(_console_blocks()[0])


def commands() -> list[str]:
    """Return the ``mayfly`` commands of the other blocks, without their comments."""
    return [command for block in _console_blocks()[1:] for command in block]


def _console_blocks() -> list[list[str]]:
    """Return the commands of each block behind a prompt."""
    found = [
        [line[2:].split(" #")[0].strip() for line in block.text.splitlines() if line[:2] == "$ "]
        for block in blocks()
        if block.language == "console"
    ]
    return [block for block in found if block]


def spark_program() -> str:
    """Return the program that reads a ledger in Spark."""
    (program,) = [b.text for b in blocks() if "create_session" in b.text]
    return program
