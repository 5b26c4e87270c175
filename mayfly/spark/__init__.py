"""The pipeline: queues into and out of Apache Spark, the ledger lake, reports and replay."""

from typing import TYPE_CHECKING, Any

from mayfly.spark.registering import register
from mayfly.spark.session import create_session
from mayfly.spark.source import MayflyDataSource

if TYPE_CHECKING:
    from mayfly.spark.delay_line import lifetime

__all__ = ["MayflyDataSource", "create_session", "lifetime", "register"]


def __getattr__(name: str) -> Any:
    """Return `lifetime` at its first use: the state it needs brings pandas along."""
    if name != "lifetime":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mayfly.spark.delay_line import lifetime

    return lifetime
