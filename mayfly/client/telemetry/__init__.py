"""OpenTelemetry; `mayfly.telemetry` has the public names."""
