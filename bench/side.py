"""One part, measured in a process of its own with the Mayfly of the folder it runs in."""

from __future__ import annotations

import sys
from pathlib import Path

import mayfly
from bench.machine import machine
from bench.parts import measured
from bench.record import Run, to_json


def main(arguments: list[str]) -> None:
    """Measure the part named first; write the record to the file named second."""
    name, file = arguments
    check_package(Path.cwd())
    Path(file).write_text(to_json(Run(machine(), [measured(name)])))


def check_package(folder: Path) -> None:
    """Exit with a message unless the Mayfly of a folder is the one that was imported."""
    package = Path(str(mayfly.__file__)).resolve().parent
    if package != folder.resolve() / "mayfly":
        sys.exit(f"imported {package}, which is not the Mayfly of {folder}")


if __name__ == "__main__":
    main(sys.argv[1:])
