"""Message properties: the folders of an MQRFH2, their names, and their values with types."""
