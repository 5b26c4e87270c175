"""OpenTelemetry: spans and metrics of messages, and contexts that travel with them.

``instrument()`` records the connections that a program makes from then on. ``watch`` records the
expiries of a queue manager in this process (docs/METRICS.md). Before that nothing is recorded.
"""

from mayfly.client.telemetry.connections import instrument, processing, uninstrument, watch

__all__ = ["instrument", "processing", "uninstrument", "watch"]
