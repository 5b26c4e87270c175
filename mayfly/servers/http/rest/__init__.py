"""IBM MQ's REST API, versions 1 to 3: messaging, MQSC and login (docs/HTTP.md)."""
