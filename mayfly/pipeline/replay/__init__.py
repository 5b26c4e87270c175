"""The what-if replay: decides again how recorded messages end, with other lifetime settings."""
