"""Message properties: their names and values, the MQRFH2 they are kept in, message handles."""
