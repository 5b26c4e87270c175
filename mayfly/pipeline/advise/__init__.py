"""Advice for a JMS listener port (non-ASF): safe receive timeouts and transaction lifetimes."""
