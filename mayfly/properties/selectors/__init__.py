"""Message selectors of JMS and MQ: compiled once, then evaluated for each message."""

from mayfly.properties.selectors.fields import SelectorFields
from mayfly.properties.selectors.selector import Selector, compile_selector

__all__ = ["SelectorFields", "Selector", "compile_selector"]
