"""A connection to a queue manager that another process serves, for who operates it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

import pyarrow.flight as flight

from mayfly.bulk.queue_client import QueueClient
from mayfly.contracts.sessions import SESSION_VERB, VERSION, OpenRequest
from mayfly.engine import Identifier, OwnTime, Stay, Step, Verification, Whereabouts
from mayfly.mqsc.result import CommandResult, Message, MqscResult
from mayfly.served.calls import Calls
from mayfly.served.letters import ServedLetterHandler
from mayfly.served.session import ServedSession
from mayfly.served.wire import id_bytes

_PROGRAM = "mayfly"


class ServedQueueManager(QueueClient):
    """An operator's interface to a served queue manager, over Arrow Flight.

    ``ServedQueueManager("grpc://127.0.0.1:9414", token_file=…)``; the parameters are those of
    ``bulk.client.LedgerClient``. Methods, values and MQErrors are those of ``QueueManager``. The
    bearer of the token may do everything, like the opener of the queue manager. Raises BulkError
    besides: WrongToken, UnknownManager, ServerNotReachable, ServerFailed.
    """

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __repr__(self) -> str:
        """Show where it leads, never the token."""
        return f"ServedQueueManager({self.url!r})"

    def mqsc(self, script: str) -> MqscResult:
        """Run MQSC commands there; ``.text`` as runmqsc prints, ``.rows`` for programs, ``.ok``.

        A wrong command makes ``ok`` False and does not stop those after it. Where BulkError is
        raised, commands may have been carried out.
        """
        with self._calls() as calls:
            (text, commands), _ = calls.call("mqsc", script=script)
        return MqscResult(
            text,
            tuple(
                CommandResult(number, command, tuple(Message(*m) for m in messages), tuple(rows))
                for number, command, messages, rows in commands
            ),
        )

    def session(
        self, user: str | None = None, transacted: bool = False, program: str = _PROGRAM
    ) -> ServedSession:
        """Connect; ``user`` stands in the messages put, and in the audit, ``program`` as well."""
        return ServedSession(
            self._open(user or "", program, transacted=transacted), transacted=transacted
        )

    def verify(self) -> Verification:
        """Recount everything there and compare."""
        with self._calls() as calls:
            return Verification(*calls.call("verify")[0])

    def why(self, identifier: Identifier) -> Whereabouts:
        """Say where the message with a MsgId or CorrelId is, or what became of it."""
        with self._calls() as calls:
            values, _ = calls.call("why", identifier=id_bytes(identifier, "id") or b"")
        found = Whereabouts(*values)
        steps, stays = (Step(*step) for step in found.steps), (Stay(*stay) for stay in found.stays)
        return found._replace(steps=tuple(steps), stays=tuple(stays))

    def delay_processor_status(self) -> str:
        """Return how delayed messages go: ``running``, ``spark``, ``stopped:`` and why (D28)."""
        with self._calls() as calls:
            return str(calls.call("delay-processor-status")[0])

    def own_time(self) -> OwnTime:
        """Return its own time beside the clock of its machine (docs/CLOCKS.md)."""
        with self._calls() as calls:
            return OwnTime(*calls.call("own-time")[0])

    def follow_wall(self) -> OwnTime:
        """Let it follow its machine's clock forward; MQRC_ENVIRONMENT_ERROR where it is ahead."""
        with self._calls() as calls:
            return OwnTime(*calls.call("follow-wall")[0])

    @contextmanager
    def letter_handler(self, rules: str, *, queue: str = "") -> Iterator[ServedLetterHandler]:
        """Yield a handler of dead letters, by the text of a rule table (docs/DEAD_LETTERS.md)."""
        with self._calls() as calls:
            yield ServedLetterHandler(calls, rules, queue=queue)

    @contextmanager
    def _calls(self) -> Iterator[Calls]:
        calls = self._open("", _PROGRAM, transacted=False)
        try:
            yield calls
        finally:
            calls.close()

    def _open(self, user: str, program: str, *, transacted: bool) -> Calls:
        asked = OpenRequest(VERSION, user, program, transacted)
        options = flight.FlightCallOptions(headers=self._headers)
        command = json.dumps({SESSION_VERB: {"manager": self._manager, **asked._asdict()}}).encode()
        return Calls(self._flight, command, options, self.url)
