"""Contracts: data that cross a process or a version: stored codes, wire rows, columns."""
