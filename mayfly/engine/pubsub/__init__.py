"""Topics, subscriptions and publications: each subscriber's copy, and its attributes."""
