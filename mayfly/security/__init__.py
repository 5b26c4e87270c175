"""Security: who may come in over a network or a socket, and as which user (docs/SECURITY.md)."""
