"""The Spark session of the tests beside these, and the token of their servers."""

from tests.spark.conftest import spark, start_spark, token_file

__all__ = ["spark", "start_spark", "token_file"]
