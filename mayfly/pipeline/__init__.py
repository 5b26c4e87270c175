"""Pipelines: Spark streaming queries that a TOML file describes, from message sources to sinks."""
