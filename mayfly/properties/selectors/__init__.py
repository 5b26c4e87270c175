"""Message selectors: conditions of JMS and MQ, compiled once, asked for each message."""

from mayfly.properties.selectors.fields import MessageFields
from mayfly.properties.selectors.selector import Selector, compile_selector

__all__ = ["MessageFields", "Selector", "compile_selector"]
