"""Support for tests of programs that use Mayfly: a clock under control and a pytest plugin."""

from mayfly.runtime.virtual_clock import VirtualClock

__all__ = ["VirtualClock"]
