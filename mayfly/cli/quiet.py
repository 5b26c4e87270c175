"""Keep what Java says on stderr out of the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_STDERR = 2


@contextmanager
def quiet_stderr() -> Iterator[TextIO]:
    """Lead stderr of this process and its children nowhere; yields the real one for us alone.

    Java and Spark's workers inherit it and warn of much that is no concern of the user's.
    """
    sys.stderr.flush()
    kept = os.dup(_STDERR)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with open(kept, "w", encoding="utf-8") as real:  # noqa: PTH123  # a descriptor, no path
        os.dup2(nowhere, _STDERR)
        os.close(nowhere)
        try:
            yield real
        finally:
            sys.stderr.flush()
            os.dup2(kept, _STDERR)
