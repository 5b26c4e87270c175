"""All rules about time: pure functions of data and ``now_ms``; they need no store or engine."""
