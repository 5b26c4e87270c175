"""MQSC, the command language of a queue manager: runs scripts and answers as runmqsc does."""
