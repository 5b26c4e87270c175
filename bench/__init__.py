"""Benchmarks: each figure is measured in one run beside the thing it is compared with."""
