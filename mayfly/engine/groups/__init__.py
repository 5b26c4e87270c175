"""Message groups and segments: put in order, found in memory, got whole or in logical order."""
