"""A program: runs samples one after the other, each as ``python -m mayfly.pymqi`` would.

Each line of the standard input is a sample and its environment, in JSON. Each line of the standard
output is what the sample has said, and the error that ended it, if one did.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import sys

from mayfly.mqi.errors import MQError
from mayfly.pymqi import MQMIError
from mayfly.pymqi.__main__ import main
from tests.pymqi.samples import SAMPLES


def run(name: str, environment: dict[str, str]) -> dict[str, object]:
    """Run one."""
    os.environ.update(environment)
    printed, failure = io.StringIO(), ""
    with contextlib.redirect_stdout(printed):
        try:
            main([str(SAMPLES / name)])
        except (MQMIError, MQError) as error:
            failure = str(error)
    # Objects that a failed sample has left open are closed when they are collected.
    gc.collect()
    return {"said": printed.getvalue().splitlines(), "failure": failure}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(run(*json.loads(line))), flush=True)
