"""Lets Spark find ``format("mayfly")`` by its name: it asks modules pyspark_* for DefaultSource."""

from mayfly.pipeline.spark.source import MayflyDataSource as DefaultSource

__all__ = ["DefaultSource"]
