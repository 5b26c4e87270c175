"""The parts of bench by the subject that a reader looks for."""

from __future__ import annotations

from typing import Final

#: Each part once.
SUBJECTS: Final[dict[str, tuple[str, ...]]] = {
    "Units of work, single puts, non-persistent messages": (
        "units",
        "messaging",
        "before",
        "authority",
    ),
    "Listeners, topics and channels": ("listener", "fanout", "channel"),
    "Programs over a network": ("remote_clients", "libmqm", "client_peers"),
    "Tasks of Celery, taskiq and Django": ("tasks",),
    "AMQP": ("amqp",),
    "HTTP and the console": ("http", "consoles", "console"),
    "Delay and release": ("delay", "steady", "flood", "staged", "timeline"),
    "Finding messages and lives": ("by_id", "selectors", "trace"),
    "Opening and growth": ("opening", "growth"),
    "A replica in PostgreSQL": ("replica",),
    "Spark": (
        "ledger_copy",
        "queue_source",
        "sink",
        "release_by_spark",
        "delay_line",
        "replay",
        "lake",
        "lake_scale",
        "demo",
    ),
}
