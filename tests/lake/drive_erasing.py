"""A process that erases a user from a lake, until somebody kills it."""

from __future__ import annotations

import sys

from mayfly.pipeline.lake.compaction import Selection, erase_lives
from mayfly.verbs.contracts.erasure import Erasure


def main(lake: str) -> None:
    erase_lives(lake, Selection("user", "alice"), Erasure(1, "operator", "user", "killed", 0))


if __name__ == "__main__":
    main(*sys.argv[1:])
