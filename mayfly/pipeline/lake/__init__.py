"""The lake without Spark: its files, the part that a question is about, and questions as SQL."""
