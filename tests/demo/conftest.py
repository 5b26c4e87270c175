"""The Spark session that the demo takes over, and the command line in this process."""

from tests.cli.conftest import home, mayfly
from tests.spark.conftest import spark, start_spark

__all__ = ["home", "mayfly", "spark", "start_spark"]
