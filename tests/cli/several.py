"""Run several commands in this process and print exit code and JSON answer of each as a line."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path

import pyarrow.parquet as pq

from mayfly.cli import main


def run(words: list[str]) -> dict[str, object]:
    """Return how a command ended and what it printed."""
    sys.argv = ["mayfly", *words]
    printed = io.StringIO()
    code: object = None
    with contextlib.redirect_stdout(printed):
        try:
            main()
        except SystemExit as end:
            code = end.code
    return {"code": code, "answer": json.loads(printed.getvalue())}


def spoil(lake: str) -> None:
    """Take the first row out of a file of a lake."""
    file = min(Path(lake).glob("date=*/*.parquet"))
    pq.write_table(pq.ParquetFile(file).read().slice(1), file)
    # Hadoop's checksum of the file that was.
    for checksum in file.parent.glob(".*.crc"):
        checksum.unlink()


for words in json.loads(sys.argv[1]):
    if words[0] == "SPOIL":
        spoil(words[1])
    verb = words if words[0] != "SPOIL" else ["ledger", "verify", words[1], "--json"]
    print(json.dumps(run(verb)))
