"""Metrics of a pipeline or a ledger run for Prometheus: as text, in a file, and over HTTP.

The file is for the text file collector of Prometheus' node exporter. The server answers ``GET
/metrics`` without a password: the figures contain no message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from prometheus_client import CollectorRegistry, generate_latest, make_wsgi_app, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mayfly.lifetime.times import SECOND_MS
from mayfly.pipeline.progress import OUTCOMES, LedgerProgress, Progress, write_whole

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

METRICS_PATH = "/metrics"

#: The figures of a run: a pipeline or a copy of a ledger.
AnyProgress: TypeAlias = Progress | LedgerProgress

# A counter's name ends with "_total" when it is written.
_COUNTER, _GAUGE = CounterMetricFamily, GaugeMetricFamily


class _Figure(NamedTuple):
    """A metric with one value; None leaves it out."""

    kind: type[CounterMetricFamily] | type[GaugeMetricFamily]
    name: str
    text: str
    value: float | None


def _pipeline_metrics(progress: Progress, *, is_up: bool) -> Iterator[Metric]:
    """Yield the metrics of a pipeline that have a value; ``is_up``: its query runs."""
    figures = (
        _Figure(_COUNTER, "rows_in", "Rows from the sources.", progress.rows_in),
        _Figure(_COUNTER, "reports", "Reports that were owed.", progress.reports),
        _Figure(_COUNTER, "batches", "Batches that were finished.", progress.batches),
        _Figure(_COUNTER, "restarts", "Restarts of the query.", progress.restarts),
        _Figure(_GAUGE, "held_rows", "Rows that wait in the delay line.", progress.held),
        _Figure(
            _GAUGE,
            "releasing_rows",
            "Delayed messages not let go yet, of finished batches.",
            progress.releasing,
        ),
        _Figure(
            _GAUGE,
            "lag_seconds",
            "How much later than due the latest row of a batch left.",
            _seconds(progress.lag_ms),
        ),
        _Figure(_GAUGE, "rows_per_second", "Speed of the last batch.", progress.rows_per_second),
        _Figure(_GAUGE, "last_batch", "Number of the last batch.", progress.batch),
        _Figure(_GAUGE, "last_batch_rows", "Rows of the last batch.", progress.batch_rows),
        _Figure(
            _GAUGE,
            "last_batch_timestamp_seconds",
            "When the last batch was finished, since 1970.",
            _seconds(progress.batch_ended_ms),
        ),
        _Figure(_GAUGE, "up", "Whether the query runs.", is_up),
    )
    labels = {"pipeline": progress.pipeline}
    yield from _families("mayfly_pipeline", labels, figures)
    ended = _COUNTER(
        "mayfly_pipeline_rows_out", "Rows that left, by outcome.", labels=[*labels, "outcome"]
    )
    for outcome in OUTCOMES:
        ended.add_metric([*labels.values(), outcome], getattr(progress, outcome))
    yield ended


def _ledger_metrics(progress: LedgerProgress, *, is_up: bool) -> Iterator[Metric]:
    """Yield the metrics of a ledger run that have a value; ``is_up``: it runs."""
    figures = (
        _Figure(_COUNTER, "rows", "Rows that were copied.", progress.rows),
        _Figure(_COUNTER, "commits", "Commits with rows.", progress.commits),
        _Figure(_GAUGE, "position", "Last position that the lake has.", progress.position),
        _Figure(_GAUGE, "lag_rows", "Rows of the ledger that the lake lacks.", progress.lag_rows),
        _Figure(
            _GAUGE,
            "last_commit_timestamp_seconds",
            "When rows were last committed, since 1970.",
            _seconds(progress.committed_ms),
        ),
        _Figure(_GAUGE, "up", "Whether the ledger is copied.", is_up),
    )
    labels = {"queue_manager": progress.manager, "lake": progress.lake}
    yield from _families("mayfly_ledger_run", labels, figures)


def _families(prefix: str, labels: dict[str, str], figures: Iterable[_Figure]) -> Iterator[Metric]:
    """Yield a metric family for each figure that has a value, with the same labels for all.

    ``prefix`` and ``_`` come before the name of the figure.
    """
    for figure in figures:
        if figure.value is not None:
            metric = figure.kind(f"{prefix}_{figure.name}", figure.text, labels=list(labels))
            metric.add_metric(list(labels.values()), figure.value)
            yield metric


def _seconds(value_ms: int | None) -> float | None:
    """Return ms as seconds, None for None."""
    return None if value_ms is None else value_ms / SECOND_MS


class _Snapshot(Collector):
    """Prometheus collector of one run; reports the snapshot that was set last."""

    def __init__(self, progress: AnyProgress | None = None, *, is_up: bool = False) -> None:
        """Begin with a snapshot of progress, or with None for no metrics until one is set.

        ``is_up`` is True while the pipeline or the ledger run works.
        """
        # One tuple, so that a scrape in another thread never sees half of a change.
        self.shown = (progress, is_up)

    def collect(self) -> Iterator[Metric]:
        """Yield each metric that has a value; nothing before the first snapshot of progress."""
        progress, is_up = self.shown
        if isinstance(progress, Progress):
            yield from _pipeline_metrics(progress, is_up=is_up)
        elif progress is not None:
            yield from _ledger_metrics(progress, is_up=is_up)


def _registry(snapshot: _Snapshot) -> CollectorRegistry:
    """Return a new Prometheus registry with this collector only, without metrics of the process."""
    # A registry of its own: the library's default one would add metrics of the Python process.
    registry = CollectorRegistry()
    registry.register(snapshot)
    return registry


def metrics_text(progress: AnyProgress, *, is_up: bool = True) -> str:
    """Return the metrics of a snapshot in Prometheus' text format; unknown values are left out.

    ``is_up`` is True while the pipeline or ledger run works, False while it waits for a restart
    and after its end.
    """
    written: bytes = generate_latest(_registry(_Snapshot(progress, is_up=is_up)))
    return written.decode()


class MetricsFile:
    """A metrics file for Prometheus' node exporter, replaced atomically at each snapshot."""

    def __init__(self, path: Path) -> None:
        """Keep the path of the file; nothing is written yet. Its folder must exist."""
        self._path = path

    def show(self, progress: AnyProgress, *, is_up: bool, failure: str = "") -> None:
        """Replace the file by the metrics of a snapshot; ``is_up`` as in `metrics_text`.

        ``failure`` is not shown: it is text. Raises OSError if the file cannot be written.
        """
        del failure
        write_whole(self._path, metrics_text(progress, is_up=is_up))


class MetricsServer:
    """HTTP server that answers ``GET /metrics`` until it is closed."""

    def __init__(self, host: str, port: int) -> None:
        """Start to listen on an address of this machine; port 0 is any free one.

        Raises OSError when the address is taken or is not one of this machine.
        """
        self._host = host
        self._snapshot = _Snapshot()
        registry = _registry(self._snapshot)
        self._server, self._thread = start_http_server(port, host, registry)
        self._metrics = make_wsgi_app(registry)
        # The library's own application answers every path.
        self._server.set_app(self._answer)

    @property
    def url(self) -> str:
        """The URL of the metrics page, with the port in use."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._server.server_port}{METRICS_PATH}"

    def show(self, progress: AnyProgress, *, is_up: bool, failure: str = "") -> None:
        """Answer requests with the metrics of this snapshot from now on.

        ``is_up`` as in `metrics_text`; ``failure`` is not shown: it is text.
        """
        del failure
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
