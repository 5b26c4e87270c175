"""ASF mode: sessions have threads while there is work; a dispatcher finds messages for the others.

A session gets a thread when the dispatcher has found a message for it. With its thread the session
takes its next messages itself, and keeps the thread until it was unused for some time (the pool
properties) or the port stops. The dispatcher looks for messages only while no session waits with a
thread.
"""

from __future__ import annotations

from functools import partial

from mayfly.client.connection.waits import Wait
from mayfly.jms.factory import ConnectionFactory
from mayfly.mqi import constants as c
from mayfly.services.listener.runs import Recovery, Run
from mayfly.services.listener.server_session import ServerSession
from mayfly.services.listener.settings import Settings
from mayfly.services.listener.statistics import Tally
from mayfly.services.listener.thread_pool import ThreadPool
from mayfly.verbs.messages import Delivery


class ASF(Run):
    """A dispatcher and its workers; their shared state changes with ``pool.changed`` held."""

    def __init__(
        self, factory: ConnectionFactory, settings: Settings, tally: Tally, pool: ThreadPool
    ) -> None:
        """Begin without a session."""
        super().__init__(factory, settings, tally, pool)
        #: Those that have a session.
        self._workers: list[_Worker] = []
        #: Those without a message: with a thread that waits, or without one.
        self._free: list[_Worker] = []
        with pool.changed:
            self._wait = self.new_wait()
            self.recovery = Recovery(self)
        self._failure: Exception | None = None
        #: Whether the dispatcher may start a thread; whether it has asked for that, and whether
        #: others need it more.
        self._has_permit = self._is_asking = self._is_permit_wanted = False
        #: Whether the dispatcher has ended.
        self._is_over = False
        #: Sessions are looked at in intervals from here on.
        self.begun_ms = 0

    def start(self) -> None:
        """Open the first session, and start the dispatcher."""
        try:
            self.begun_ms = self._open_worker().session.now_ms()
            with self.pool.changed:
                self.pool.add(self)
            self.spawn(self._dispatch, is_session=False)
        except BaseException:
            with self.pool.changed:
                self.pool.remove(self)
            self.give_up([worker.session for worker in self._workers])
            raise
        self._wait.begun.wait()

    @property
    def thread_count(self) -> int:
        """How many sessions have a thread; the dispatcher is none of them."""
        return sum(worker.has_thread for worker in self._workers)

    @property
    def receiving_count(self) -> int:
        """How many wait with a thread for a message, which the dispatcher leaves to them then."""
        return 0 if self._wait.is_busy else sum(worker.is_receiving for worker in self._workers)

    # Called by the pool.

    def grant(self) -> None:
        """Have the permit for a thread."""
        self._has_permit, self._is_asking = True, False
        self._wait.wake()

    def give_up_permit(self) -> None:
        """Return the permit, unless a message is there for it."""
        if not self._is_permit_wanted:
            self._is_permit_wanted = True
            self._wait.wake()

    def give_up_idle(self) -> bool:
        """Let the thread of a free worker end; False when none has one."""
        for worker in self._free:
            if worker.has_thread and not worker.is_unwanted:
                worker.is_unwanted = True
                worker.wait.wake()
                return True
        return False

    # Called by workers.

    def release(self, worker: _Worker) -> bool:
        """Let a worker have the next message; False when its thread is to end.

        One whose session was closed is forgotten: another is opened for the next message. Where
        another port waits for a thread of the pool it has this one: the session stays without.
        """
        with self.pool.changed:
            is_free = not self._is_over and worker in self._workers and worker.session.is_open
            if is_free:
                self._free.append(worker)
                worker.has_thread = not self.pool.is_wanted_beside(self)
                self._wait.wake()
            else:
                self.forget(worker)
            return is_free and worker.has_thread

    def occupy(self, worker: _Worker) -> None:
        """Note that a worker with a thread has a message."""
        with self.pool.changed:
            worker.is_unwanted = False
            if worker in self._free:
                self._free.remove(worker)
                self._wait.wake()

    def leave(self, worker: _Worker, *, is_unused: bool) -> bool:
        """Let the thread of a worker without a message end; False when it is to wait on.

        Its session stays if there is no other for the next message to be found.
        """
        with self.pool.changed:
            if not (is_unused or worker.is_unwanted or self.is_stopping):
                return worker not in self._workers
            if any(not free.has_thread for free in self._free):
                self.forget(worker)
            worker.has_thread = worker.is_unwanted = False
            self._wait.wake()
            return True

    def forget(self, worker: _Worker) -> None:
        """Forget a worker whose session closes; with ``pool.changed`` held."""
        for workers in (self._workers, self._free):
            if worker in workers:
                workers.remove(worker)
        self._wait.wake()

    def fail(self, worker: _Worker, failure: Exception) -> None:
        """Forget a worker that has failed, and let all pause.

        One that was forgotten is told of late: it is part of a failure before.
        """
        with self.pool.changed:
            if worker in self._workers:
                self._failure = failure
            self.forget(worker)

    def is_forgotten(self, worker: _Worker) -> bool:
        """Return True if the dispatcher has given a worker up."""
        with self.pool.changed:
            return worker not in self._workers

    # The dispatcher.

    def _dispatch(self) -> None:
        try:
            while not self.is_stopping:
                try:
                    self._next()
                except Exception as failure:  # noqa: BLE001 - a message must not end the run
                    self._wait.begun.set()
                    with self.pool.changed:
                        self._settle_permit(is_needed=False)
                    self._close_free()
                    if not self.recovery.pause(failure):
                        break
                    # All have paused: a failure of a session in work counts with this one.
                    self._failure = None
        finally:
            self._wait.begun.set()
            with self.pool.changed:
                self._is_over = True
                self._has_permit = False
                self.pool.remove(self)
            self._close_free()

    def _next(self) -> None:
        """Find one message for a session without a thread, or wait until that is to be done."""
        with self.pool.changed:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            worker, must_open = self._candidate()
            may_start = self._settle_permit(is_needed=must_open or worker is not None)
        if must_open:
            self._open_worker()
        elif worker is None or self._is_asking:
            self._wait.for_change()
        elif not may_start:
            self._ask_for_thread(worker)
        else:
            delivery = self._receive(worker)
            if delivery is not None:
                self._hand_over(worker, delivery)

    def _candidate(self) -> tuple[_Worker | None, bool]:
        """Return a session to find a message for, and whether one is to be opened."""
        if any(free.has_thread for free in self._free):
            # It takes the next message itself.
            return None, False
        if self._free:
            return self._free[0], False
        return None, len(self._workers) < self.settings.max_sessions

    def _settle_permit(self, *, is_needed: bool) -> bool:
        """Take a permit if one is needed and free, else return it; True if a permit is there."""
        if not is_needed:
            if self._has_permit:
                self._return_permit()
            self.pool.withdraw(self)
            self._is_asking = False
        elif not self._has_permit and not self._is_asking:
            self._has_permit = self.pool.permit(self)
        return self._has_permit

    def _return_permit(self) -> None:
        self._has_permit = self._is_permit_wanted = False
        self.pool.return_permit(self)

    def _ask_for_thread(self, worker: _Worker) -> None:
        """Ask for a thread once there is a message for it.

        Until then the message stays on its queue, where it may expire and others may get it.
        """
        if worker.session.look(self._wait):
            with self.pool.changed:
                self._is_asking = True
                self.pool.ask(self)

    def _receive(self, worker: _Worker) -> Delivery | None:
        """Take a message while the permit is there; one that others need is given up without."""
        delivery = None
        if self._is_permit_wanted:
            # It was asked back as it was granted, and both have woken the same wait. A wake that is
            # left must not end the look that follows.
            self._wait.for_change(0)
        else:
            delivery = worker.session.receive(self._wait, c.MQWI_UNLIMITED)
        if delivery is None and self._is_permit_wanted and not self.is_stopping:
            # Another run wants the permit. A message that it was taken for may be there already.
            delivery = worker.session.receive(self._wait, 0)
            if delivery is None:
                with self.pool.changed:
                    self._return_permit()
        return delivery

    def _hand_over(self, worker: _Worker, delivery: Delivery) -> None:
        """Let a new thread have a message.

        Raises JMSException when there can be none; the message is on its queue again then.
        """
        with self.pool.changed:
            self._free.remove(worker)
            worker.has_thread, worker.wait = True, self.new_wait()
            self._has_permit = self._is_permit_wanted = False
            self.pool.use_permit(self)
            self._reserved_count += 1
        try:
            self.spawn(partial(worker.work, delivery, worker.wait))
        except BaseException:
            with self.pool.changed:
                self.forget(worker)
                self.forget_wait(worker.wait)
            worker.session.close()
            raise

    def _open_worker(self) -> _Worker:
        session = self.open_session()
        with self.pool.changed:
            # Until it has a thread of its own, the dispatcher waits for it.
            worker = _Worker(self, session, self._wait)
            self._workers.append(worker)
            self._free.append(worker)
        return worker

    def _close_free(self) -> None:
        """Close the sessions without a message; after a failure they are opened anew."""
        with self.pool.changed:
            free = list(self._free)
            without_thread = [worker for worker in free if not worker.has_thread]
            for worker in free:
                self.forget(worker)
                if worker.has_thread:
                    worker.wait.end()
        for worker in without_thread:
            worker.session.close()


class _Worker:
    """A session, and while it is needed its thread."""

    def __init__(self, run: ASF, session: ServerSession, wait: Wait) -> None:
        self._run = run
        self.session = session
        self.has_thread = False
        #: The waits of its thread.
        self.wait = wait
        #: Whether its thread is to end, for another port; the session stays.
        self.is_unwanted = False

    @property
    def is_receiving(self) -> bool:
        """Whether it waits with a thread."""
        return self.has_thread and self.wait.is_standing

    def work(self, first: Delivery, wait: Wait) -> None:
        """Deliver a message and those that follow, until there is none for too long."""
        run, delivery = self._run, first
        try:
            while True:
                # In ASF the time of waiting is not the transaction's.
                transaction = self.session.begin(delivery.result.message.seen_ms)
                if not self.session.deliver(transaction, delivery):
                    run.request_stop()
                run.recovery.succeed()
                following = self._next(wait) if run.release(self) else None
                if following is None:
                    break
                delivery = following
        except Exception as failure:  # noqa: BLE001 - a message must not end the run
            run.fail(self, failure)
        finally:
            with run.pool.changed:
                run.forget_wait(wait)
            self._end()

    def _next(self, wait: Wait) -> Delivery | None:
        """Take the next message; None when unused for too long, or at the end."""
        run = self._run
        until_ms: int | None = None
        if run.settings.is_reaping:
            until_ms = run.settings.reap_ms(run.begun_ms, self.session.now_ms())
        while True:
            wait_ms = c.MQWI_UNLIMITED
            if until_ms is not None:
                wait_ms = max(until_ms - self.session.now_ms(), 0)
            delivery = self.session.receive(wait, wait_ms)
            if delivery is not None:
                run.occupy(self)
                return delivery
            is_unused = until_ms is not None and self.session.now_ms() >= until_ms
            if run.leave(self, is_unused=is_unused):
                return None

    def _end(self) -> None:
        # A worker that was not given up may have a message, and another thread, by now.
        if self._run.is_forgotten(self):
            self.session.close()
