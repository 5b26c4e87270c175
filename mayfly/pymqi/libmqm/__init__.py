"""A C library with the names of the MQI, for programs of IBM MQ's client (docs/LIBMQM.md)."""
