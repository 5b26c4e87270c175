"""Triggering: a queue with messages lets a program be started (T1-T9, docs/TRIGGERING.md)."""
