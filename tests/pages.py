"""The parts of the guides in docs/, for tests of what they show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).parents[1] / "docs"


def part(page: str, title: str) -> str:
    """Return a part of a guide as a page of its own: its title is a heading of the first level.

    ``page`` is a file of docs/, such as ``WHY.md``, and ``title`` the heading of the part. Raises
    ValueError for another title.
    """
    lines = (DOCS / page).read_text("utf-8").splitlines(keepends=True)
    found: list[str] = []
    is_code = False
    first = lines.index(f"## {title}\n")
    for line in lines[first:]:
        is_code ^= line.startswith("```")
        is_heading = not is_code and line.startswith("##")
        if found and is_heading and re.match("## ", line):
            break
        found.append(line[1:] if is_heading else line)
    return "".join(found)
