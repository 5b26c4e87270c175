"""The Spark session of the tests beside these, and the token of their servers."""

from tests.spark.conftest import spark, token_file

__all__ = ["spark", "token_file"]
