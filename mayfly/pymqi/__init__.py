"""The names of pymqi, on Mayfly."""
