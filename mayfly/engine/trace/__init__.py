"""Message traces: where a message is now, and how it ended."""
