"""The pipeline: queues into and out of Apache Spark, the ledger lake, reports and replay."""

from mayfly.spark.session import create_session
from mayfly.spark.source import MayflyDataSource

__all__ = ["MayflyDataSource", "create_session"]
