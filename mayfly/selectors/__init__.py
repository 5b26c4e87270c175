"""Message selectors: conditions of JMS and MQ, compiled once, asked for each message."""

from mayfly.selectors.fields import MessageFields
from mayfly.selectors.selector import Selector, compile_selector

__all__ = ["MessageFields", "Selector", "compile_selector"]
