"""Commands of Django for workers."""
