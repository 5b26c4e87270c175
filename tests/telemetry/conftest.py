"""Telemetry on for a test, with the exporters of the SDK that keep what they are given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mayfly import QueueManager, telemetry
from mayfly.testing import VirtualClock


@dataclass
class Recorded:
    """What was recorded so far."""

    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader
    tracers: TracerProvider

    @property
    def spans(self) -> list[ReadableSpan]:
        """The spans that have ended, in that order."""
        return list(self.exporter.get_finished_spans())

    def span(self, name: str) -> ReadableSpan:
        """Return the one span of a name."""
        [found] = [span for span in self.spans if span.name == name]
        return found

    def names(self) -> list[str]:
        """Return the names of the spans that have ended, in that order."""
        return [span.name for span in self.spans]

    def points(self, metric: str) -> list[tuple[dict[str, object], float]]:
        """Return attributes and value, for a histogram its count, of each point of a metric."""
        data = self.reader.get_metrics_data()
        return [
            (dict(point.attributes or {}), getattr(point, "value", getattr(point, "count", 0)))
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for found in scope.metrics
            if found.name == metric
            for point in found.data.data_points
        ]


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    """Telemetry is on for connections that the test makes."""
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider([reader])
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry.instrument(tracer_provider=tracers, meter_provider=meters)
    try:
        yield Recorded(exporter, reader, tracers)
    finally:
        telemetry.uninstrument()
        tracers.shutdown()
        meters.shutdown()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(start_ms=1_700_000_000_000)


@pytest.fixture
def qm(clock: VirtualClock) -> Iterator[QueueManager]:
    """``QM1`` with the queue ORDERS."""
    with QueueManager("QM1", clock=clock) as manager:
        assert manager.mqsc("DEFINE QLOCAL(ORDERS)\nDEFINE QLOCAL(SMALL) MAXMSGL(100)").ok
        yield manager
