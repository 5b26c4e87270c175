"""What tests of programs that use Mayfly need: a clock under control and a pytest plugin."""

from mayfly.lifetime.virtual_clock import VirtualClock

__all__ = ["VirtualClock"]
