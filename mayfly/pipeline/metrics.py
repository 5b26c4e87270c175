"""Metrics of a pipeline for Prometheus: as text, in a file, and over HTTP on this machine.

The file is for the text file collector of Prometheus' node exporter. The server answers ``GET
/metrics`` on the loopback address only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest, make_wsgi_app, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mayfly.lifetime.times import SECOND_MS
from mayfly.pipeline.progress import OUTCOMES, Progress, write_whole

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

METRICS_PATH = "/metrics"
_HOST = "127.0.0.1"
_PREFIX = "mayfly_pipeline"

# A counter's name ends with "_total" when it is written.
_COUNTER, _GAUGE = CounterMetricFamily, GaugeMetricFamily
_Kind = type[CounterMetricFamily] | type[GaugeMetricFamily]


class _Snapshot(Collector):
    """Prometheus collector of one pipeline; reports the snapshot that was set last."""

    def __init__(self, progress: Progress | None = None, *, is_up: bool = False) -> None:
        """Begin with a snapshot of progress, or with None for no metrics until one is set.

        ``is_up`` is True while the query runs.
        """
        # One tuple, so that a scrape in another thread never sees half of a change.
        self.shown = (progress, is_up)

    def collect(self) -> Iterator[Metric]:
        """Yield each metric that has a value; nothing before the first snapshot of progress."""
        progress, is_up = self.shown
        if progress is None:
            return
        pipeline = [progress.pipeline]
        lag_seconds = None if progress.lag_ms is None else progress.lag_ms / SECOND_MS
        figures: tuple[tuple[_Kind, str, str, float | None], ...] = (
            (_COUNTER, "rows_in", "Rows from the sources.", progress.rows_in),
            (_COUNTER, "reports", "Reports that were owed.", progress.reports),
            (_COUNTER, "batches", "Batches that were finished.", progress.batches),
            (_COUNTER, "restarts", "Restarts of the query.", progress.restarts),
            (_GAUGE, "held_rows", "Rows that wait in the delay line.", progress.held),
            (
                _GAUGE,
                "releasing_rows",
                "Delayed messages not let go yet, of finished batches.",
                progress.releasing,
            ),
            (
                _GAUGE,
                "lag_seconds",
                "How much later than due the latest row of a batch left.",
                lag_seconds,
            ),
            (_GAUGE, "rows_per_second", "Speed of the last batch.", progress.rows_per_second),
            (_GAUGE, "last_batch", "Number of the last batch.", progress.batch),
            (_GAUGE, "up", "Whether the query runs.", is_up),
        )
        for kind, name, text, value in figures:
            if value is not None:
                metric = kind(f"{_PREFIX}_{name}", text, labels=["pipeline"])
                metric.add_metric(pipeline, value)
                yield metric
        ended = _COUNTER(
            f"{_PREFIX}_rows_out", "Rows that left, by outcome.", labels=["pipeline", "outcome"]
        )
        for outcome in OUTCOMES:
            ended.add_metric([*pipeline, outcome], getattr(progress, outcome))
        yield ended


def _registry(snapshot: _Snapshot) -> CollectorRegistry:
    """Return a new Prometheus registry with this collector only, without metrics of the process."""
    # A registry of its own: the library's default one would add metrics of the Python process.
    registry = CollectorRegistry()
    registry.register(snapshot)
    return registry


def metrics_text(progress: Progress, *, is_up: bool = True) -> str:
    """Return the metrics of a snapshot in Prometheus' text format; unknown values are left out.

    ``is_up`` is True while the query runs.
    """
    written: bytes = generate_latest(_registry(_Snapshot(progress, is_up=is_up)))
    return written.decode()


class MetricsFile:
    """A metrics file for Prometheus' node exporter, replaced atomically at each snapshot."""

    def __init__(self, path: Path) -> None:
        """Keep the path of the file; nothing is written yet. Its folder must exist."""
        self._path = path

    def show(self, progress: Progress, *, is_up: bool) -> None:
        """Replace the file by the metrics of a snapshot; ``is_up`` is True while the query runs.

        Raises OSError if the file cannot be written.
        """
        write_whole(self._path, metrics_text(progress, is_up=is_up))


class MetricsServer:
    """HTTP server that answers ``GET /metrics`` on 127.0.0.1 until it is closed."""

    def __init__(self, port: int) -> None:
        """Start to listen on ``port``, 0 for any free one; raises OSError when it is taken."""
        self._snapshot = _Snapshot()
        registry = _registry(self._snapshot)
        self._server, self._thread = start_http_server(port, _HOST, registry)
        self._metrics = make_wsgi_app(registry)
        # The library's own application answers every path.
        self._server.set_app(self._answer)

    @property
    def url(self) -> str:
        """The URL of the metrics page, with the port in use."""
        return f"http://{_HOST}:{self._server.server_port}{METRICS_PATH}"

    def show(self, progress: Progress, *, is_up: bool) -> None:
        """Answer requests with the metrics of this snapshot from now on.

        ``is_up`` is True while the query runs.
        """
        self._snapshot.shown = (progress, is_up)

    def close(self) -> None:
        """Stop listening and wait for the end of the server's thread."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer METRICS_PATH with the metrics and any other path with 404 (a WSGI application)."""
        if environ["PATH_INFO"] == METRICS_PATH:
            found: Iterable[bytes] = self._metrics(environ, start_response)
            return found
        start_response(f"{HTTPStatus.NOT_FOUND.value} {HTTPStatus.NOT_FOUND.phrase}", [])
        return [b""]
