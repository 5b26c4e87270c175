"""All rules about time: pure functions of data and ``now_ms``, importable without store or engine."""
