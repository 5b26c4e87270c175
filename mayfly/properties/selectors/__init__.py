"""Message selectors of JMS and MQ: compiled once, then evaluated for each message."""

from mayfly.properties.selectors.fields import MessageFields
from mayfly.properties.selectors.selector import Selector, compile_selector

__all__ = ["MessageFields", "Selector", "compile_selector"]
