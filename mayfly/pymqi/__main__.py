"""Run an unchanged pymqi program: ``python -m mayfly.pymqi program.py arguments``.

For the program, ``import pymqi``, ``import ibmmq``, ``import CMQC`` and ``import CMQCFC`` mean this
package.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from mayfly import ibmmq, pymqi
from mayfly.pymqi.import_names import names_in_place

_USAGE = "usage: python -m mayfly.pymqi program.py [argument ...]\n"


def main(arguments: list[str]) -> int:
    """Run the Python program that the first argument names, with the other arguments.

    Returns 0. Returns 2, with a usage text on stderr, if the argument or the file is missing.
    Changes ``sys.modules``, ``sys.argv`` and ``sys.path[0]`` for the program.
    """
    if not arguments:
        sys.stderr.write(_USAGE)
        return 2
    program = Path(arguments[0])
    if not program.is_file():
        sys.stderr.write(f"{program} is not a file\n{_USAGE}")
        return 2
    sys.modules.update(names_in_place(pymqi) | names_in_place(ibmmq))
    sys.argv = arguments
    # Where Python looks first for what a program imports: beside the program.
    sys.path[0] = str(program.resolve().parent)
    runpy.run_path(str(program), run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
