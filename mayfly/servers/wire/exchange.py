"""The parts of a server that all its connections share: its loop, its threads, admission."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
from typing import NoReturn, Protocol, TypeAlias

from mayfly.admin.security.applicant import Admitted, Applicant
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.queue_manager import QueueManager
from mayfly.runtime import Runtime
from mayfly.servers.budget import Budget
from mayfly.servers.wire.entrances import AnyConversation, Entered, Entrance
from mayfly.servers.wire.limits import Limits
from mayfly.servers.wire.outbox import Outbox
from mayfly.servers.wire.status import ConnectionStatus

#: Threads for verbs that may block, and for admission, which connects.
_BLOCKING_THREADS, _ADMISSION_THREADS = 8, 4
_LOG = logging.getLogger("mayfly.wire")
#: The end of an admission: the opened connection or receiver with its terms, or the error.
Outcome: TypeAlias = tuple[Entered, Admitted] | MQError


class Admits(Protocol):
    """Lets programs in; ``security.Admission`` does."""

    def submit(self, applicant: Applicant) -> Future[Admitted]:
        """Begin to decide; the terms, or an MQError, may come long after, and hold no thread."""


class Member(Protocol):
    """A connection of a client, as the exchange needs it."""

    number: int
    channel: str
    #: Queue manager and channel of its first conversation, None before that.
    instance: tuple[str, str] | None

    @property
    def address(self) -> str:
        """The address of the client, empty for a UNIX socket."""

    def end(self, error: MQError) -> None:
        """Tell the client why, and end the connection."""

    def quiesce(self, refusal: MQError, ending: MQError) -> None:
        """End the connection with an error unless it has work left; waits are refused."""

    def abort(self) -> None:
        """End the connection at once."""

    def has_conversation(self, number: int) -> bool:
        """Return True if a conversation, by its number on its queue manager, uses this link."""

    def status(self) -> list[ConnectionStatus]:
        """Return the status of its conversations."""


class Exchange:
    """The shared parts of a server; only the loop calls its methods, but for ``call_soon``."""

    def __init__(
        self,
        managers: Iterable[QueueManager],
        admission: Admits,
        limits: Limits,
        log: logging.Logger,
        runtime: Runtime,
        budget: Budget,
    ) -> None:
        """Make the loop, which does not run yet."""
        self.budget = budget
        self.managers = {manager.name: manager for manager in managers}
        self._admission, self.limits, self.log = admission, limits, log
        self._runtime = runtime
        self.loop = asyncio.SelectorEventLoop()
        self._loop_thread: int | None = None
        self._blocking = ThreadPoolExecutor(_BLOCKING_THREADS, "mayfly-wire-verb")
        self._admitting = ThreadPoolExecutor(_ADMISSION_THREADS, "mayfly-wire-admit")
        #: Calls that other threads have left for the loop; it is woken once for all of them.
        self._calls: deque[Callable[[], object]] = deque()
        self._is_woken = False
        self.outbox = Outbox()
        self.members: dict[int, Member] = {}
        #: Those that are refused because the server drains.
        self.turned_away: dict[int, Member] = {}
        self.is_draining = self._is_ending = False
        #: Conversations whose connection broke and that are being backed out.
        self.ending_count = 0

    def run(self) -> bool:
        """Run the loop; the turn of the server's thread, which is the last one behind a stop."""
        self._loop_thread = self._runtime.thread_id()
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        return not self._is_ending

    def stop(self) -> None:
        """Let the loop end, from another thread."""
        self._is_ending = True
        self.loop.call_soon_threadsafe(self.loop.stop)

    def shut_down(self) -> None:
        """End the threads, when the loop has stopped."""
        self._blocking.shutdown()
        self._admitting.shutdown()
        self.loop.close()

    def is_in_loop(self) -> bool:
        """Return True if the calling thread runs the loop."""
        return self._runtime.thread_id() == self._loop_thread

    def call_soon(self, call: Callable[[], object]) -> None:
        """Let the loop call something; any thread may."""
        self._calls.append(call)
        if not self._is_woken:
            self._is_woken = True
            try:
                self.loop.call_soon_threadsafe(self._call)
            except RuntimeError:
                # The server is closed: nobody is there any more to be told.
                self._calls.clear()

    def run_blocking(self, work: Callable[[], None]) -> None:
        """Run work that may block on another thread."""
        self._blocking.submit(work)

    def manager_name(self, asked: str) -> str:
        """Return the queue manager that a client has asked for; blank is the only one."""
        if not asked and len(self.managers) == 1:
            return next(iter(self.managers))
        return asked

    def enter(self, member: Member) -> bool:
        """Keep a connection; False for one too many.

        The drain waits for no connection that comes meanwhile, whose CONNECT is refused.
        """
        if self.is_draining:
            self.turn_away(member)
            return True
        if len(self.members) >= self.limits.connections:
            self.log.warning(
                "AMQ9213E: %s is refused: %d connections", member.address, len(self.members)
            )
            return False
        self.members[member.number] = member
        return True

    def turn_away(self, member: Member) -> None:
        """Let a connection that is not let in yet wait for its refusal, and nobody for it."""
        self.members.pop(member.number, None)
        self.turned_away[member.number] = member

    def leave(self, member: Member, conversations: list[AnyConversation]) -> None:
        """Forget a connection that is gone, and back out its units of work."""
        self.members.pop(member.number, None)
        self.turned_away.pop(member.number, None)
        for conversation in conversations:
            self.ending_count += 1
            self._blocking.submit(partial(self._end, conversation))

    def admit(
        self,
        applicant: Applicant,
        entrance: Entrance,
        member: Member,
        on_done: Callable[[Outcome], None],
    ) -> None:
        """Ask admission on another thread; ``on_done`` is called in the loop.

        The answer comes late when the password is wrong. No thread waits for it: clients that guess
        passwords would otherwise use up all threads.
        """

        def finish(answer: Future[Admitted]) -> None:
            self._decide(lambda: self._entered(applicant, entrance, answer.result()), decided)

        def decided(outcome: Outcome) -> None:
            self.call_soon(partial(self._admitted, member, on_done, outcome))

        def ask() -> None:
            try:
                answer = self._admission.submit(applicant)
            except Exception as error:  # noqa: BLE001 - a mistake must not let the client wait
                self._decide(partial(_raise, error), decided)
            else:
                answer.add_done_callback(lambda answer: self._on_thread(partial(finish, answer)))

        self._on_thread(ask)

    def _on_thread(self, work: Callable[[], None]) -> None:
        """Let a thread of admission do something; nobody waits for it once the server has ended."""
        with contextlib.suppress(RuntimeError):
            self._admitting.submit(work)

    def _decide(self, connect: Callable[[], Outcome], decided: Callable[[Outcome], None]) -> None:
        outcome: Outcome
        try:
            outcome = connect()
        except MQError as error:
            outcome = error
        except CancelledError:
            outcome = mq_error(rc.MQRC_Q_MGR_QUIESCING, "the server stops")
        except Exception as error:  # noqa: BLE001 - a mistake must not let the client wait
            _LOG.exception("admission has failed")
            outcome = mq_error(rc.MQRC_UNEXPECTED_ERROR, type(error).__name__)
        decided(outcome)

    def _entered(
        self, applicant: Applicant, entrance: Entrance, admitted: Admitted
    ) -> tuple[Entered, Admitted]:
        if self.is_draining:
            raise mq_error(rc.MQRC_Q_MGR_QUIESCING, "the server stops")
        return entrance.enter(self.managers, applicant, admitted), admitted

    def _admitted(
        self,
        member: Member,
        on_done: Callable[[Outcome], None],
        outcome: Outcome,
    ) -> None:
        """Refuse an instance of a channel that has too many; in the loop."""
        if not isinstance(outcome, MQError) and self._one_too_many(member, *outcome):
            self._blocking.submit(partial(outcome[0].close, commit=False))
            said = f"channel {member.channel} has as many instances as it may"
            self.log.warning("AMQ9489E: %s; refused: %s", said, member.address or "local")
            outcome = mq_error(rc.MQRC_CHANNEL_NOT_AVAILABLE, said)
        on_done(outcome)

    def _one_too_many(self, member: Member, entered: Entered, admitted: Admitted) -> bool:
        instance = entered.name, member.channel
        if member.instance is not None:
            return False
        same = [each for each in self.members.values() if each.instance == instance]
        of_client = [each for each in same if each.address == member.address]
        return len(same) >= admitted.max_instances or (
            len(of_client) >= admitted.max_instances_per_client
        )

    def _end(self, conversation: AnyConversation) -> None:
        try:
            conversation.end()
        except MQError as error:
            self.log.warning("a conversation could not be backed out: %s", error)
        except Exception:  # noqa: BLE001 - its thread serves other conversations as well
            _LOG.exception("a conversation could not be backed out")
        finally:
            self.call_soon(self._note_end)

    def _note_end(self) -> None:
        self.ending_count -= 1

    def _call(self) -> None:
        self._is_woken = False
        calls = self._calls
        self.outbox.begin()
        while calls:
            try:
                calls.popleft()()
            except Exception:  # noqa: BLE001 - one connection's mistake is not the others'
                _LOG.exception("a call in the loop has failed")
        self.outbox.end()


def _raise(error: Exception) -> NoReturn:
    raise error
