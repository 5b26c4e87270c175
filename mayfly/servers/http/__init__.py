"""HTTP for queue managers: IBM's REST API, probes, administration in JSON (docs/HTTP.md)."""
