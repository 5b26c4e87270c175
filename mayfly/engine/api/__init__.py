"""The API of the engine, in one module for each kind of caller."""
