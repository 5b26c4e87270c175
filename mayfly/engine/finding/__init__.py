"""Which message is next: search by ids, keys and selectors, past what is hidden or expired."""
