"""Topics, subscriptions and publications: who gets a copy, and what it is like."""
