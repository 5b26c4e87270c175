"""IBM MQ's REST API, versions 1 to 3: login and messaging (docs/HTTP.md)."""
