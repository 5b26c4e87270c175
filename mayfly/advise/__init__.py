"""Which receive timeout and transaction lifetime are safe for a queue, and what others would do."""
