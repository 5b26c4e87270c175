"""The trigger monitor: starts programs when trigger messages say so; see docs/TRIGGERING.md."""

from mayfly.trigger_monitor.messages import TriggerMessage
from mayfly.trigger_monitor.monitor import Outcome, TriggerMonitor
from mayfly.trigger_monitor.programs import CannotStart, Program

__all__ = ["CannotStart", "Outcome", "Program", "TriggerMessage", "TriggerMonitor"]
