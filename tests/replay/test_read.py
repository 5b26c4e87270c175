"""Traces in files: three formats, what may be missing, and what is wrong named with its value."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mayfly.pipeline.errors import ReplayError
from mayfly.pipeline.replay.trace import read_trace, write_split

CSV = """queue,put_ms,delay_ms,life_ms,correl_id,get_ms,priority
Q1,1000,,5000,a,2000,9
Q2,1000,10,,b,,
"""
ROWS = [
    {"queue": "Q1", "seq": 1, "put_ms": 1000, "delay_ms": None, "life_ms": 5000}
    | {"correl_id": b"a", "get_ms": 2000, "priority": 9, "recorded": None},
    {"queue": "Q2", "seq": 2, "put_ms": 1000, "delay_ms": 10, "life_ms": None}
    | {"correl_id": b"b", "get_ms": None, "priority": None, "recorded": None},
]


def _csv(folder: Path, text: str) -> Path:
    file = folder / "trace.csv"
    file.write_text(text)
    return file


def test_csv_parquet_arrow_and_a_split_folder_say_the_same(tmp_path: Path) -> None:
    """Empty cells are null, a missing seq is the number of the row."""
    trace = read_trace(_csv(tmp_path, CSV))
    assert trace.to_pylist() == ROWS
    pq.write_table(trace, tmp_path / "trace.parquet")
    with (
        pa.OSFile(str(tmp_path / "trace.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, trace.schema) as writer,
    ):
        writer.write_table(trace)
    write_split(trace, tmp_path / "split")
    for name in ("trace.parquet", "trace.arrow", "split"):
        assert read_trace(tmp_path / name) == trace


def test_queue_and_put_time_are_enough(tmp_path: Path) -> None:
    """Without correlation ids all share one: whatever comes first is taken."""
    trace = read_trace(_csv(tmp_path, "queue,put_ms\nQ1,5\nQ1,6\n"))
    assert trace["correl_id"].to_pylist() == [b"", b""]
    assert trace["get_ms"].null_count == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queue,put_ms,color\nQ1,1,red\n", "has a column 'color'; known are queue, seq, put_ms"),
        ("queue,delay_ms\nQ1,1\n", "has no column 'put_ms'"),
        ("queue,put_ms,put_ms\nQ1,1,1\n", "has the column 'put_ms' twice"),
        ("queue,put_ms\nQ1,soon\n", "column put_ms: .*'soon'"),
        ("queue,put_ms\nQ1,1\nQ1,-7\n", "column put_ms is -7 in row 2, not from 0 to"),
        ("queue,put_ms,delay_ms\nQ1,1,-5\n", "column delay_ms is -5 in row 1"),
        ("queue,put_ms,life_ms\nQ1,1,-1\n", "column life_ms is -1 in row 1"),
        ("queue,put_ms,get_ms\nQ1,1,-1\n", "column get_ms is -1 in row 1"),
        ("queue,put_ms,priority\nQ1,1,10\n", "column priority is 10 in row 1, not from 0 to 9"),
        ("queue,put_ms\n,1\n", "column queue has no value in row 1"),
        ("queue,put_ms,seq\nQ1,1,3\nQ1,2,3\n", "seq 3 occurs twice in queue 'Q1'"),
        ("", "cannot be read"),
    ],
)
def test_what_is_wrong_with_a_trace_is_named_with_its_value(
    tmp_path: Path, text: str, said: str
) -> None:
    """File, column, row and value."""
    with pytest.raises(ReplayError, match=f"trace.csv.*{said}"):
        read_trace(_csv(tmp_path, text))


def test_other_files_and_folders_are_no_traces(tmp_path: Path) -> None:
    """A suffix of another kind, a folder of neither kind, a Parquet file that is none."""
    with pytest.raises(ReplayError, match=r"x.txt: the suffix is not .csv, .parquet"):
        read_trace(tmp_path / "x.txt")
    with pytest.raises(ReplayError, match="neither a lake nor a trace split by queue"):
        read_trace(tmp_path)
    (tmp_path / "x.parquet").write_text("no")
    with pytest.raises(ReplayError, match=r"x.parquet cannot be read"):
        read_trace(tmp_path / "x.parquet")
    with pytest.raises(FileNotFoundError):
        read_trace(tmp_path / "gone.parquet")
