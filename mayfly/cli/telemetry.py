"""Telemetry of ``mayfly serve``: on when the environment names an exporter of OpenTelemetry."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import entry_points
from typing import Any

from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.queue_manager import QueueManager

_TRACES, _METRICS = "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"
#: The groups of entry points by which packages of exporters name them.
_GROUPS = {
    _TRACES: "opentelemetry_traces_exporter",
    _METRICS: "opentelemetry_metrics_exporter",
}


@contextmanager
def telemetry_of(
    managers: Sequence[QueueManager], environment: Mapping[str, str] = os.environ
) -> Iterator[None]:
    """Have telemetry on for a block, if OTEL_TRACES_EXPORTER or OTEL_METRICS_EXPORTER asks for it.

    Each holds names of exporters that are installed, as ``console`` or ``otlp``. The SDK reads its
    other variables itself. Raises CommandFailed for an exporter that is not installed.
    """
    asked = {name: _names(environment.get(name, "")) for name in (_TRACES, _METRICS)}
    if not any(asked.values()) or environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        yield
        return
    try:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from mayfly import telemetry
    except ModuleNotFoundError as error:
        said = f"{_TRACES}, {_METRICS}: need mayfly-mq[otel] and opentelemetry-sdk: {error}"
        raise CommandFailed(ExitCode.USAGE, said) from error
    readers = [PeriodicExportingMetricReader(each) for each in _exporters(_METRICS, asked)]
    meters, tracers = MeterProvider(readers), TracerProvider()
    with ExitStack() as stack:
        for provider in (tracers, meters):
            # Spans and figures that are not yet exported are exported then.
            stack.callback(provider.shutdown)
        for exporter in _exporters(_TRACES, asked):
            tracers.add_span_processor(BatchSpanProcessor(exporter))
        telemetry.instrument(tracer_provider=tracers, meter_provider=meters)
        stack.callback(telemetry.uninstrument)
        for manager in managers:
            stack.callback(telemetry.watch(manager, tracer_provider=tracers))
        yield


def _names(given: str) -> list[str]:
    return [name for each in given.split(",") if (name := each.strip()) not in ("", "none")]


def _exporters(variable: str, asked: Mapping[str, Sequence[str]]) -> list[Any]:
    made = []
    for name in asked[variable]:
        found = next(iter(entry_points(group=_GROUPS[variable], name=name)), None)
        if found is None:
            known = sorted(entry_points(group=_GROUPS[variable]).names)
            said = (
                f"{variable}: exporter {name!r} is none of {', '.join(known)}; install its package"
            )
            raise CommandFailed(ExitCode.USAGE, said)
        made.append(found.load()())
    return made
