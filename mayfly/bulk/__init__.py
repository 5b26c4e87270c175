"""The bulk plane: Arrow schemas of lives and messages, and the client that reads them by Flight."""
