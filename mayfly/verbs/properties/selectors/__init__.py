"""Message selectors of JMS and MQ: compiled once, then evaluated for each message."""
