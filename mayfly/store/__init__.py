"""One embedded storage engine: messages, ledger and definitions in SQLite, through apsw."""
