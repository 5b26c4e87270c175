"""Apache Spark: queues as sources and sinks, the delay line, the ledger lake, reports, replay."""

from typing import TYPE_CHECKING, Any

from mayfly.pipeline.spark.session import create_session, write_from_any_thread
from mayfly.pipeline.spark.source import MayflyDataSource

if TYPE_CHECKING:
    from mayfly.pipeline.spark.delay_line import lifetime

__all__ = ["MayflyDataSource", "create_session", "lifetime", "write_from_any_thread"]


def __getattr__(name: str) -> Any:
    """Import ``lifetime`` at its first use, because it loads pandas.

    Raises AttributeError for any other name.
    """
    if name != "lifetime":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mayfly.pipeline.spark.delay_line import lifetime

    return lifetime
