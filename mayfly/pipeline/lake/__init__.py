"""The lake without Spark: its files, and queries to it, for a lake in Parquet files of a ledger."""
