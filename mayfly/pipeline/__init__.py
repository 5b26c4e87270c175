"""Pipelines written down in TOML: sources, limit, delay line, routes and sinks of one query."""
