"""A process that says that it runs a pipeline until somebody kills it."""

from __future__ import annotations

import signal
import sys

from mayfly.cli.run_notes import RunKind, noted
from mayfly.pipeline.progress import Progress


def main(place: str) -> None:
    with noted(RunKind.PIPELINE, place, print) as note:
        assert note is not None
        note.show(Progress("calls", batch=4, batch_rows=20), is_up=True)
        print("up", flush=True)
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
