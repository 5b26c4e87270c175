"""What tests of programs that use Mayfly need: a clock under control and a pytest plugin."""

from mayfly.runtime.virtual_clock import VirtualClock

__all__ = ["VirtualClock"]
