"""What tells the commands of this machine where a folder is served, while it is."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mayfly.store.private_files import write_whole

SERVED_FILE = "served.json"


class Served(NamedTuple):
    """A server; no ``token_file``: it is in MAYFLY_TOKEN, no ``tls_certificate``: without TLS."""

    url: str
    token_file: str | None
    tls_certificate: str | None = None


@contextlib.contextmanager
def announced(folder: Path, served: Served) -> Iterator[None]:
    """Tell of a server as long as it runs."""
    file = folder / SERVED_FILE
    write_whole(file, json.dumps(served._asdict()))
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def served_at(folder: Path) -> Served | None:
    """Return the server that has a folder open, None without one; its certificate is trusted."""
    try:
        text = (folder / SERVED_FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    served = Served(**json.loads(text))
    if served.tls_certificate is not None:
        from mayfly.bulk.client import ROOTS_VARIABLE

        # Spark's workers, which this process starts, find it there as well.
        os.environ.setdefault(ROOTS_VARIABLE, served.tls_certificate)
    return served
