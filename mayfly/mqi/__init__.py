"""The vocabulary of MQ: constants, reason codes, errors, byte layouts; it knows no behaviour."""
