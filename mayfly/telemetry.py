"""OpenTelemetry: spans and metrics of messages, and contexts that travel with them.

``instrument()`` switches it on for the connections that a program makes from then on, and ``watch``
for the expiries of a queue manager of this process (docs/TELEMETRY.md). Nothing is recorded, and
nothing of it runs, before that.
"""

from mayfly.client.telemetry.switch import instrument, processing, uninstrument, watch

__all__ = ["instrument", "processing", "uninstrument", "watch"]
