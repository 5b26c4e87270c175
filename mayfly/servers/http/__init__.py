"""HTTP for queue managers: probes, and administration as resources in JSON (docs/HTTP.md)."""
