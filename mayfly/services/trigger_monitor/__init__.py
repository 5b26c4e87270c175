"""The trigger monitor: starts programs when trigger messages say so; see docs/TRIGGERING.md."""

from mayfly.services.trigger_monitor.messages import TriggerMessage
from mayfly.services.trigger_monitor.monitor import Outcome, TriggerMonitor
from mayfly.services.trigger_monitor.programs import CannotStart, Program

__all__ = ["CannotStart", "Outcome", "Program", "TriggerMessage", "TriggerMonitor"]
