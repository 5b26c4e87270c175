"""Data that cross a process or a version: stored codes, wire rows, verbs, reasons, columns."""
