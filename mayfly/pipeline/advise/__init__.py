"""Safe receive timeouts and transaction lifetimes for a queue; effects of other settings."""
