"""The whole queue manager: the engine together with its command language."""

from __future__ import annotations

from mayfly.engine.manager import Manager
from mayfly.mqsc import MqscResult, run_script


class QueueManager(Manager):
    """A queue manager in this process; a context manager.

    ``QueueManager("QM1")`` lives in memory, ``QueueManager("QM1", folder)`` keeps persistent
    messages, definitions and the ledger in the folder. All parameters: ``engine.manager.Manager``.
    """

    def mqsc(self, script: str) -> MqscResult:
        """Run MQSC commands; ``.text`` as runmqsc prints, ``.rows`` for programs, ``.ok`` for all.

        A wrong command makes ``ok`` False and does not stop those after it; nothing is raised.
        """
        return run_script(self, script)
