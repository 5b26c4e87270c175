"""From queue CALLS by Python into queue BILLS, exactly once: ``spark-pipelines run``."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

SERVER = {"url": "grpc://127.0.0.1:9414", "tokenFile": "/etc/mayfly/token"}

dp.create_sink("bills", "mayfly", {**SERVER, "queue": "BILLS"})


@dp.append_flow(target="bills")
def priced() -> DataFrame:
    """Return a bill for each call: 25 cents for each minute that has begun."""
    spark = SparkSession.active()
    calls = spark.readStream.format("mayfly").options(**SERVER, queue="CALLS", consumer="billing")
    seconds = f.col("payload").cast("string").cast("int")
    bill = f.format_string("%d cents", f.ceil(seconds / 60) * 25)
    return calls.load().select(bill.alias("payload"), "expire_at_ms", "priority")
