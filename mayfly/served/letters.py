"""The handler of dead letters of a queue manager that another process serves."""

from __future__ import annotations

import threading
from collections import Counter

from mayfly.dead_letter import Outcome
from mayfly.served.calls import Calls


class ServedLetterHandler:
    """Applies a rule table there; :meth:`stop` may be called from any thread.

    The methods and errors are those of ``dead_letter.DeadLetterHandler``. The handler works in the
    server and ends with this connection; the letter in work is finished or left as it was.
    """

    def __init__(self, calls: Calls, rules: str, *, queue: str) -> None:
        """Open the queue; the served queue manager calls this, and ends the calls."""
        self._calls = calls
        self._stopped = threading.Event()
        self.queue: str = calls.call("letters-open", rules=rules, queue=queue)[0]
        self.counts: Counter[Outcome] = Counter(dict.fromkeys(Outcome, 0))
        self.failures: Counter[int] = Counter()

    def run_once(self) -> None:
        """Go through the whole queue once; waits for nothing."""
        self._run(is_once=True)

    def run(self) -> None:
        """Work as long as WAIT says, or until :meth:`stop`."""
        self._run(is_once=False)

    def stop(self) -> None:
        """End :meth:`run`, at the latest a second later."""
        self._stopped.set()

    def _run(self, *, is_once: bool) -> None:
        self._calls.call("letters-start", once=is_once)
        is_over = False
        while not is_over:
            if self._stopped.is_set():
                self._calls.call("letters-stop")
            (is_over, counts, failures), _ = self._calls.call("letters-standing")
            self.counts = Counter({Outcome(name): count for name, count in counts})
            self.failures = Counter(dict(failures))
