"""The contracts between processes and versions: stored codes, wire rows, reasons, columns."""
