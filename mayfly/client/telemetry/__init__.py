"""The OpenTelemetry spans and metrics of connections; `mayfly.telemetry` has the public names."""
