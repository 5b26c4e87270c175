"""The what-if replay in one process: the rules of lifetimes over a trace, with other settings."""
