"""Triggering: trigger messages let a program be started for a queue (T1-T9, docs/LISTENERS.md)."""
