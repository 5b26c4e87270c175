"""Run an unchanged pymqi program: ``python -m mayfly.pymqi program.py arguments``.

For the program, ``import pymqi``, ``import ibmmq``, ``import CMQC`` and ``import CMQCFC`` mean this
package.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from mayfly import ibmmq, pymqi
from mayfly.pymqi import CMQC, CMQCFC, CMQSTRC, CMQXC, CMQZC

_CONSTANTS = {"CMQC": CMQC, "CMQCFC": CMQCFC, "CMQXC": CMQXC, "CMQZC": CMQZC, "CMQSTRC": CMQSTRC}
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
    sys.modules["pymqi"], sys.modules["ibmmq"] = pymqi, ibmmq
    for name, module in _CONSTANTS.items():
        sys.modules[name] = sys.modules[f"pymqi.{name}"] = module
        sys.modules[f"ibmmq.{name}"] = module
    sys.argv = arguments
    # Where Python looks first for what a program imports: beside the program.
    sys.path[0] = str(program.resolve().parent)
    runpy.run_path(str(program), run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
