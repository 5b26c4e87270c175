"""Which peers are installed, and what makes a message durable there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bench.amqp_peers import artemis_version, rabbitmq_version
from bench.peer_process import NotHere
from bench.peer_servers import nats_version, postgres_version, redis_version

#: Each acknowledges a put when it is synced, as Mayfly does.
_MAKES: Final[dict[str, tuple[Callable[[], str], str]]] = {
    "PostgreSQL": (postgres_version, "fsync=on, synchronous_commit=on"),
    "Redis": (redis_version, "appendonly yes, appendfsync always"),
    "RabbitMQ": (
        rabbitmq_version,
        "durable classic queue, confirms or a transaction; in growth a quorum queue",
    ),
    "NATS": (nats_version, "JetStream in files, sync_interval: always"),
    "Artemis": (artemis_version, "durable messages; its journal syncs before it answers, as made"),
}
#: The same of ourselves.
_OURS: Final = "each commit syncs the log of SQLite (synchronous=FULL) before it returns"


def survey() -> dict[str, str]:
    """Return by make its version and its settings, or why it is left out."""
    found = {"Mayfly": _OURS}
    for make, (version, settings) in _MAKES.items():
        try:
            found[make] = f"{version()}; {settings}"
        except NotHere as why:
            found[make] = f"left out: {why}"
    return found
