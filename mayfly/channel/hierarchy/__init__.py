"""Publish/subscribe between queue managers: neighbours in a tree, and their proxy subscriptions."""

from mayfly.channel.hierarchy.hierarchy import Hierarchy

__all__ = ["Hierarchy"]
