"""Topics, subscriptions and publications, and the copies that subscribers get."""
