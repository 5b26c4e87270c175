"""``mayfly cluster``: a Spark cluster on this machine, to try a pipeline on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mayfly.cli.lake_engine import pipeline_errors
from mayfly.cli.signals import stop_event
from mayfly.cli.values import local_path

_LOOK_EVERY_SECONDS = 1.0

WorkersOption = Annotated[int, typer.Option("--workers", min=1, help="How many workers.")]
PortOption = Annotated[
    int, typer.Option("--master-port", min=0, max=65535, help="Port of the master; 0 is any.")
]
CoresOption = Annotated[int, typer.Option("--cores", min=1, help="Cores of each worker.")]
MemoryOption = Annotated[str, typer.Option("--memory", help="Memory of each worker's executors.")]
FolderOption = Annotated[
    Path,
    typer.Option(
        "--folder",
        parser=local_path,
        metavar="FOLDER",
        help="For the logs, and what executors write.",
    ),
]


def cluster(
    *,
    worker_count: WorkersOption = 2,
    master_port: PortOption = 7077,
    worker_cores: CoresOption = 1,
    worker_memory: MemoryOption = "2g",
    folder: FolderOption = Path("cluster"),
) -> None:
    """Run a Spark master and workers on 127.0.0.1 until interrupted or terminated.

    A worker that ends is started again.

    \b
    Example:
      mayfly cluster --workers 2
      mayfly pipeline run calls.toml --master spark://127.0.0.1:7077
    """
    with pipeline_errors(), stop_event() as stopped:
        from mayfly.pipeline.spark.cluster import cluster as started

        with started(
            folder,
            worker_count=worker_count,
            master_port=master_port,
            worker_cores=worker_cores,
            worker_memory=worker_memory,
        ) as running:
            print(f"master {running.master_url}, console {running.console_url}")
            print(f"{worker_count} workers, logs in {folder}", flush=True)
            while not stopped.wait(_LOOK_EVERY_SECONDS):
                for worker in running.mend():
                    text = f"{worker.name} had ended and is started again; see {worker.log}"
                    print(text, file=sys.stderr, flush=True)
