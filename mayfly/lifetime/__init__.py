"""The lifetime rules: pure functions of data and ``now_ms`` that need no store or engine."""
