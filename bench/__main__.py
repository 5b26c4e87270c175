"""``python -m bench [messaging|opening|delay ...]``: measure the parts named, print the table."""

from __future__ import annotations

import sys
from importlib import import_module

from bench.figures import Figure, table

PARTS = (
    "messaging",
    "remote_clients",
    "client_peers",
    "amqp",
    "http",
    "consoles",
    "console",
    "by_id",
    "authority",
    "channel",
    "listener",
    "fanout",
    "opening",
    "delay",
    "selectors",
    "staged",
    "timeline",
    "pipeline",
    "queue_source",
    "release_by_spark",
    "sink",
    "delay_line",
    "replay",
    "story",
    "lake",
    "demo",
)


def main(parts: list[str]) -> int:
    """Run the named parts, all without a name; 1 when an aim was missed, 2 for a wrong name."""
    wrong = [part for part in parts if part not in PARTS]
    if wrong:
        print(f"unknown part {wrong[0]!r}; known are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    figures: list[Figure] = []
    for part in parts or PARTS:
        print(f"measuring {part} …", file=sys.stderr, flush=True)
        figures.extend(import_module(f"bench.{part}").figures())
    print(table(figures))
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
