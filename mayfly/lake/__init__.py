"""The lake without Spark: its files, which part is asked for, and what is asked, as SQL."""
