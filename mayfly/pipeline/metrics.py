"""Metrics of a pipeline for Prometheus: as text, in a file, and over HTTP on this machine.

The file suits the text file collector of Prometheus' node exporter; the server answers
``GET /metrics`` on loopback alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from mayfly.lifetime.times import SECOND_MS
from mayfly.pipeline.progress import OUTCOMES, Progress, write_whole

METRICS_PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_HOST = "127.0.0.1"
_PREFIX = "mayfly_pipeline"


def metrics_text(progress: Progress, *, is_up: bool = True) -> str:
    """Return a snapshot in the text format of Prometheus; what is not known is left out."""
    return "".join(
        f"# HELP {_PREFIX}_{name} {told}\n# TYPE {_PREFIX}_{name} {kind}\n"
        + "".join(f"{_PREFIX}_{name}{labels} {value}\n" for labels, value in samples)
        for name, kind, told, samples in _families(progress, is_up=is_up)
    )


_Samples = list[tuple[str, float]]


def _families(progress: Progress, *, is_up: bool) -> Iterator[tuple[str, str, str, _Samples]]:
    """Yield name, kind, help and samples of each metric that has a value."""
    name = progress.pipeline
    labels = _labels(pipeline=name)
    ended: _Samples = [
        (_labels(pipeline=name, outcome=outcome), getattr(progress, outcome))
        for outcome in OUTCOMES
    ]
    lag_seconds = None if progress.lag_ms is None else progress.lag_ms / SECOND_MS
    yield "rows_in_total", "counter", "Rows from the sources.", [(labels, progress.rows_in)]
    yield "rows_out_total", "counter", "Rows that left, by outcome.", ended
    yield "reports_total", "counter", "Reports that were owed.", [(labels, progress.reports)]
    yield "batches_total", "counter", "Batches that were finished.", [(labels, progress.batches)]
    yield "restarts_total", "counter", "Restarts of the query.", [(labels, progress.restarts)]
    gauges: tuple[tuple[str, str, float | None], ...] = (
        ("held_rows", "Rows that wait in the delay line.", progress.held),
        (
            "releasing_rows",
            "Delayed messages not let go yet, of finished batches.",
            progress.releasing,
        ),
        ("lag_seconds", "How much later than due the latest row of a batch left.", lag_seconds),
        ("rows_per_second", "Speed of the last batch.", progress.rows_per_second),
        ("last_batch", "Number of the last batch.", progress.batch),
        ("up", "Whether the query runs.", int(is_up)),
    )
    for gauge, told, value in gauges:
        if value is not None:
            yield gauge, "gauge", told, [(labels, value)]


def _labels(**labels: str) -> str:
    escaped = (
        (name, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))
        for name, value in labels.items()
    )
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped) + "}"


class MetricsFile:
    """A file that always holds the metrics of the last batch, replaced as a whole."""

    def __init__(self, path: Path) -> None:
        """Name the file; its folder must be there."""
        self._path = path

    def show(self, progress: Progress, *, is_up: bool) -> None:
        """Write a snapshot; raises OSError."""
        write_whole(self._path, metrics_text(progress, is_up=is_up))


class MetricsServer:
    """Answers ``GET /metrics`` on loopback while it is open."""

    def __init__(self, port: int) -> None:
        """Listen on a port, 0 being any; raises OSError when it is taken."""
        self._text = ""
        self._server = ThreadingHTTPServer((_HOST, port), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="mayfly-metrics", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """Where the metrics are."""
        return f"http://{_HOST}:{self._server.server_port}{METRICS_PATH}"

    def show(self, progress: Progress, *, is_up: bool) -> None:
        """Answer with this snapshot from now on."""
        self._text = metrics_text(progress, is_up=is_up)

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        metrics = self

        class Handler(BaseHTTPRequestHandler):
            """One request."""

            def do_GET(self) -> None:
                """Answer with the metrics; there is nothing else here."""
                if self.path.partition("?")[0] != METRICS_PATH:
                    self.send_error(HTTPStatus.NOT_FOUND)
                    return
                body = metrics._text.encode()
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # their name
                """Say nothing: the terminal is the pipeline's."""

        return Handler
