"""Admission: accepts or refuses connections to a queue manager, each as a user, with its limits.

The checks have the order of IBM MQ: address, channel, TLS, the rules for channels, password, and
the users that a channel blocks. A password is checked when the cheaper checks have passed.

A right password is cached for five minutes, so that a program that connects for each request pays
argon2 once. The cache has a keyed hash of the password, valid while the user's hash stays the same.
"""

from __future__ import annotations

import heapq
import hmac
import logging
import secrets
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from mayfly.admin.security.applicant import (
    Admitted,
    Applicant,
    ChannelOffer,
    NoAccessRefusal,
    Refused,
    check_user,
    needs_password,
    offer_of,
    report_refusal,
    user_of,
    wants_host_names,
)
from mayfly.admin.security.rules import KnownNames, Resolver, names_of
from mayfly.admin.security.users import User, Users, is_right, users_of
from mayfly.engine import Engine
from mayfly.engine.api.admission import report_channel_full
from mayfly.lifetime.times import SECOND_MS, Clock
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import StoreError, mq_error
from mayfly.runtime import Loop, Runtime, SystemClock

_CHANGING = threading.Lock()
#: The methods to call at REFRESH SECURITY. Neither a queue manager nor a server is kept by them.
_CALLED_AT_REFRESH: weakref.WeakKeyDictionary[
    Engine, list[weakref.WeakMethod[Callable[[], Any]]]
] = weakref.WeakKeyDictionary()
__all__ = ["Admission", "Admitted", "Applicant"]
REMEMBERED_MS: Final = 300 * SECOND_MS
#: Wrong passwords in a row that are delayed by FAILDLAY only. Each one after them closes its source
#: for twice as long as the one before.
_FREE_FAILURES: Final = 5
_FIRST_PENALTY_MS: Final = SECOND_MS
_LONGEST_PENALTY_MS: Final = 60 * SECOND_MS
#: Wrong passwords for one user, from all addresses, before it is closed for unknown addresses.
_FREE_FAILURES_OF_NAME: Final = 10
#: After this time without a wrong password the count for a user starts again.
_QUIET_MS: Final = 15 * 60 * SECOND_MS
_MAX_SOURCES: Final = 10_000
#: Addresses remembered for each user from which it has connected.
_MAX_KNOWN: Final = 100
_MAX_REMEMBERED: Final = 10_000
#: FAILDLAY as it is first; that of a queue manager which is not open is in its database.
_FAILURE_DELAY_MS: Final = SECOND_MS
_THREADS: Final = 2
_MAX_WAITING: Final = 32
_R = TypeVar("_R")
_MAX_DELAYED: Final = 1_000
_LOG = logging.getLogger("mayfly.security")


class _Question(NamedTuple):
    """A password to be checked before an applicant (a connecting program) is admitted or refused.

    ``refusal`` is set for an applicant that is refused even with the right password, because of the
    user that it names. The answer then takes as long as that to a wrong password, and ``offer`` may
    be None.
    """

    manager: Engine
    applicant: Applicant
    offer: ChannelOffer | None
    user: User | None
    failure_delay_s: int
    refusal: Refused | None = None


class Admission:
    """Admits programs (applicants) to queue managers, or refuses them; any thread may call it.

    A refusal is logged with its AMQ number and cause; the caller gets the reason code only.
    """

    def __init__(
        self,
        managers: Iterable[Engine],
        *,
        token: str = "",
        clock: Clock | None = None,
        resolve: Resolver = names_of,
        runtime: Runtime | None = None,
        folders: Mapping[str, Path] = MappingProxyType({}),
    ) -> None:
        """Prepare to admit programs to these queue managers, which are open.

        REFRESH SECURITY of each queue manager calls :meth:`refresh`. A program that sends ``token``
        as password is an operator, who may do everything; an empty ``token`` admits no operator.
        ``clock`` times how long passwords and host names are cached; None is the system clock.
        ``resolve`` looks up the host names of an address. ``runtime`` has the threads; None is that
        of the first queue manager. ``folders`` are those of queue managers that may be opened
        later, by name; :meth:`identify` reads their users there.
        """
        self._users_at = {name: Users(folder) for name, folder in folders.items()}
        self._managers = {manager.name: manager for manager in managers}
        self._token = token.encode()
        now_ms = (SystemClock() if clock is None else clock).now_ms
        self._remembered, self._guard = RememberedPasswords(now_ms), PasswordGuard(now_ms)
        self._checkers = Checkers()
        runtimes = [manager.runtime for manager in self._managers.values()]
        self._delays = Delays(runtime or next(iter(runtimes), Runtime()))
        self._names, self._resolvers = KnownNames(now_ms, resolve), Checkers("mayfly-host-name")
        for manager in self._managers.values():
            call_at_refresh(manager, self.refresh)

    def add(self, manager: Engine) -> None:
        """Admit programs to a queue manager that was opened since."""
        with _CHANGING:
            self._managers = {**self._managers, manager.name: manager}
        call_at_refresh(manager, self.refresh)

    def remove(self, name: str) -> None:
        """Admit nobody any more to a queue manager, which is about to be closed."""
        with _CHANGING:
            self._managers = {each: of for each, of in self._managers.items() if each != name}

    def admit(self, applicant: Applicant) -> Admitted:
        """Check a connecting program; return its user and limits. Waits for the password check.

        Raises the reason of the refusal: MQRC_NOT_AUTHORIZED, MQRC_CHANNEL_NOT_AVAILABLE,
        MQRC_UNKNOWN_CHANNEL_NAME, MQRC_Q_MGR_NAME_ERROR, MQRC_Q_MGR_NOT_AVAILABLE,
        MQRC_SSL_INITIALIZATION_ERROR.
        """
        return self.submit(applicant).result()

    def submit(self, applicant: Applicant) -> Future[Admitted]:
        """Check a connecting program without waiting; return a future of its user and limits.

        The future raises the errors of :meth:`admit`. It is done on return for a connecting program
        without a password, or with a cached one, unless host names must be looked up. Other
        passwords are checked in one of two threads; MQRC_CHANNEL_NOT_AVAILABLE when too many wait.
        The answer to a wrong password is delayed by FAILDLAY.
        """
        answer: Future[Admitted] = Future()
        # From now on it cannot be cancelled: the thread that answers need not check whether the
        # client has gone.
        answer.set_running_or_notify_cancel()
        manager = self._managers.get(applicant.queue_manager)
        address = applicant.address
        if manager is None or not wants_host_names(manager, applicant.channel, address):
            self._decide(applicant, answer)
            return answer
        names = self._names.known(address)
        if names is not None:
            self._decide(replace(applicant, host_names=names), answer)
            return answer
        work = self._resolvers.submit(partial(self._look_up, applicant, answer))
        if work is None:
            text = "too many addresses wait for their host names"
            self._refuse(
                answer, applicant, Refused(rc.MQRC_CHANNEL_NOT_AVAILABLE, "AMQ9513E", text)
            )
        else:
            work.add_done_callback(partial(_report_failure, answer))
        return answer

    def identify(self, applicant: Applicant) -> Future[Admitted]:
        """Check the password of a user of a queue manager that is not open; return a future.

        Its result has the user and nothing more: rules of channels and authorities are in the
        database. With the token it is an operator. The future raises MQRC_NOT_AUTHORIZED, a second
        later for a wrong password, and MQRC_CHANNEL_NOT_AVAILABLE when too many wait. Raises
        KeyError for a queue manager of unknown folder.
        """
        answer: Future[Admitted] = Future()
        answer.set_running_or_notify_cancel()
        try:
            if not applicant.channel and self._is_operator(applicant):
                answer.set_result(Admitted(user=applicant.user, is_operator=True))
                return answer
            self._check_may_send_password(applicant)
            user = _find_user(self._users_at[applicant.queue_manager], applicant.user)
            name, password = applicant.queue_manager, applicant.password
            if user is not None and self._remembered.knows(name, user, password):
                answer.set_result(Admitted(user=user.name, groups=user.groups))
                return answer
            self._check_later(partial(self._answer_identity, applicant, user, answer), answer)
        except Refused as refused:
            self._refuse(answer, applicant, refused)
        return answer

    def _answer_identity(
        self, applicant: Applicant, user: User | None, answer: Future[Admitted]
    ) -> None:
        """Check the password of a user, then set ``answer``; runs in a thread."""
        source = _source_of(applicant)
        is_known = is_right(applicant.password, "" if user is None else user.password_hash)
        if user is None or not is_known:
            self._guard.note_refused(source)
            text = f"user {applicant.user!r} is unknown, or the password is wrong"
            refused = Refused(rc.MQRC_NOT_AUTHORIZED, "AMQ5534E", text)
            self._refuse(answer, applicant, refused, _FAILURE_DELAY_MS)
            return
        self._guard.note_admitted(source)
        self._remembered.note(applicant.queue_manager, user, applicant.password)
        answer.set_result(Admitted(user=user.name, groups=user.groups))

    def _check_later(self, check: Callable[[], None], answer: Future[Admitted]) -> None:
        """Let a thread check a password and set ``answer``; raises Refused if too many wait."""
        work = self._checkers.submit(check)
        if work is None:
            text = "too many passwords wait to be checked"
            raise Refused(rc.MQRC_CHANNEL_NOT_AVAILABLE, "AMQ9513E", text)
        work.add_done_callback(partial(_report_failure, answer))

    def _check_may_send_password(self, applicant: Applicant) -> None:
        """Raise Refused for a password that came in the clear, or while its source is closed.

        A source is closed after too many wrong passwords.
        """
        if not (applicant.is_local or applicant.has_tls):
            text = "the password came from another machine without TLS"
            raise Refused(rc.MQRC_NOT_AUTHORIZED, "AMQ5534E", text)
        closed_ms = self._guard.closed_ms(_source_of(applicant))
        if closed_ms:
            text = f"too many wrong passwords: closed for {closed_ms / SECOND_MS:.0f} s"
            raise Refused(rc.MQRC_NOT_AUTHORIZED, "AMQ5534E", text)

    def _look_up(self, applicant: Applicant, answer: Future[Admitted]) -> None:
        """Look up the host names of a connecting program, then decide.

        Runs in a thread and waits for DNS.
        """
        names = self._names.look_up(applicant.address)
        self._decide(replace(applicant, host_names=names), answer)

    def _decide(self, applicant: Applicant, answer: Future[Admitted]) -> None:
        """Admit or refuse a connecting program, or queue its password for a thread.

        Sets the result or error of ``answer``. The host names of the program must be known if a
        rule needs them.
        """
        try:
            outcome = self._first_checks(applicant)
            if isinstance(outcome, Admitted):
                answer.set_result(outcome)
                return
            self._check_later(partial(self._answer, outcome, answer), answer)
        except Refused as refused:
            self._refuse(answer, applicant, refused)

    def refresh(self) -> None:
        """Empty the caches of passwords and host names; make the users' files be read again."""
        self._remembered.forget()
        self._names.forget()
        for manager in self._managers.values():
            users_of(manager).read_again()
        for users in self._users_at.values():
            users.read_again()

    def close(self) -> None:
        """End the threads without waiting for them; send delayed refusals at once.

        Checks that no thread has begun fail with MQRC_Q_MGR_QUIESCING.
        """
        self._resolvers.close()
        self._checkers.close()
        self._delays.close()

    def _first_checks(self, applicant: Applicant) -> Admitted | _Question:
        """Do all checks but the password's; return the user and limits of an admitted applicant.

        Returns a question, the password to be checked in a thread, if there is one. Raises Refused.
        """
        manager = self._managers.get(applicant.queue_manager)
        if manager is None:
            text = f"queue manager {applicant.queue_manager!r} is not served here"
            raise Refused(rc.MQRC_Q_MGR_NAME_ERROR, "AMQ9524E", text)
        if manager.is_stopped:
            text = f"queue manager {manager.name} has stopped"
            raise Refused(rc.MQRC_Q_MGR_NOT_AVAILABLE, "AMQ9524E", text)
        if not applicant.channel and self._is_operator(applicant):
            return Admitted(user=applicant.user, is_operator=True)
        try:
            offer = offer_of(manager, applicant)
        except NoAccessRefusal as no_access:
            if not no_access.has_password:
                raise
            delay_s = no_access.failure_delay_s
            return _Question(manager, applicant, None, None, delay_s, no_access)
        if applicant.sending_manager:
            self._check_sender(applicant, offer)
            return self._admit(manager, applicant, offer, is_verified=False)
        if not needs_password(manager, applicant, offer):
            return self._admit(manager, applicant, offer, is_verified=False)
        return self._known_password(manager, applicant, offer)

    def _known_password(
        self, manager: Engine, applicant: Applicant, offer: ChannelOffer
    ) -> Admitted | _Question:
        """Return the user and limits of a connecting program whose password is cached as right.

        ``offer`` is that of its channel. Returns a question, to be checked in a thread, for any
        other password. Raises Refused while passwords of this user or address are refused
        unchecked, after too many wrong ones, and for one in the clear.
        """
        # This check comes first: a comparison with remembered passwords is fast enough to guess.
        self._check_may_send_password(applicant)
        user = _find_user(users_of(manager), applicant.user)
        question = _Question(manager, applicant, offer, user, offer.failure_delay_s)
        password = applicant.password
        if user is not None and self._remembered.knows(manager.name, user, password):
            try:
                return self._admit(manager, applicant, offer, is_verified=True)
            except Refused as refused:
                return question._replace(refusal=refused)
        return question

    def _answer(self, question: _Question, answer: Future[Admitted]) -> None:
        """Check a password, then set ``answer`` to admission or refusal; runs in a thread.

        A refusal is delayed by FAILDLAY and counted against the guessing of passwords.
        """
        manager, applicant, user = question.manager, question.applicant, question.user
        source = _source_of(applicant)
        # An unknown user takes as long as a known one.
        password_hash = "" if user is None else user.password_hash
        has_right_password = is_right(applicant.password, password_hash)
        try:
            if question.refusal is not None:
                raise question.refusal
            if not has_right_password or question.offer is None:
                text = f"user {applicant.user!r} is unknown, or the password is wrong"
                raise Refused(rc.MQRC_NOT_AUTHORIZED, "AMQ5534E", text)
            admitted = self._admit(manager, applicant, question.offer, is_verified=True)
        except Refused as refused:
            # A right password of a blocked user is refused like a wrong one: else the time of the
            # answer would reveal that it is right. Over HTTP the answer gives the cause, as late.
            self._guard.note_refused(source)
            delay_ms = question.failure_delay_s * SECOND_MS
            tells_cause = has_right_password and applicant.must_prove_user
            self._refuse(answer, applicant, refused, delay_ms, tells_cause=tells_cause)
        else:
            assert user is not None
            self._guard.note_admitted(source)
            self._remembered.note(manager.name, user, applicant.password)
            answer.set_result(admitted)

    def _admit(
        self, manager: Engine, applicant: Applicant, offer: ChannelOffer, *, is_verified: bool
    ) -> Admitted:
        """Return the user whose authority counts, with limits; raises Refused for a blocked user.

        ``is_verified`` is True after the right password.
        """
        name = user_of(applicant, offer, is_verified=is_verified)
        user = _find_user(users_of(manager), name) or User(name)
        is_operator = check_user(manager, applicant, user)
        admitted = offer.admitted(user, is_operator=is_operator)
        report = partial(self._report_full, manager, applicant, admitted)
        return replace(admitted, report_full=report)

    def _report_full(
        self, manager: Engine, applicant: Applicant, admitted: Admitted, is_of_client: bool
    ) -> None:
        """Make the event Channel Not Available, in a thread; nothing while too many checks wait.

        ``is_of_client`` is True for a client above MAXINSTC, False for one above MAXINST.
        """
        limit = admitted.max_instances_per_client if is_of_client else admitted.max_instances
        self._checkers.submit(
            partial(
                report_channel_full,
                manager,
                channel=applicant.channel,
                address=applicant.address,
                limit=limit,
                is_of_client=is_of_client,
            )
        )

    def _is_operator(self, applicant: Applicant) -> bool:
        """Return True if the password is the operator's token, sent locally or by TLS.

        The token is a secret of the server that gives all authority. Returns False if the server
        has none.
        """
        if not self._token or not (applicant.is_local or applicant.has_tls):
            return False
        return hmac.compare_digest(applicant.password.encode(), self._token)

    def _check_sender(self, applicant: Applicant, offer: ChannelOffer) -> None:
        """Raise Refused for a sender channel without the token or a certificate that counts.

        A certificate counts if the channel requires TLS or a rule maps the sender. Without this
        check every program with a certificate could start a receiver, whose puts may be unchecked.
        """
        is_shown = bool(applicant.certificate_subject)
        if not (is_shown and offer.heeds_certificates) and not self._is_operator(applicant):
            text = f"queue manager {applicant.sending_manager} shows no certificate and no token"
            if is_shown:
                text = "the certificate counts only with SSLCIPH or SSLPEER of the RCVR, or a map"
            if applicant.password:
                text = f"the token of queue manager {applicant.sending_manager} is wrong"
            if applicant.password and not (applicant.is_local or applicant.has_tls):
                text = "the token came from another machine without TLS"
            raise Refused(rc.MQRC_NOT_AUTHORIZED, "AMQ9777E", text)

    def _refuse(
        self,
        answer: Future[Admitted],
        applicant: Applicant,
        refused: Refused,
        delay_ms: int = 0,
        *,
        tells_cause: bool = False,
    ) -> None:
        """Log a refusal now, and set the error of ``answer`` after ``delay_ms``; does not wait.

        ``tells_cause`` says that the client may know why: its password was right.
        """
        error = refused.noted(applicant, tells_cause=tells_cause)
        manager = self._managers.get(applicant.queue_manager)
        if manager is not None:
            report_refusal(manager, applicant, refused)
        self._delays.call_after(delay_ms, partial(answer.set_exception, error))


def _source_of(applicant: Applicant) -> Source:
    """Return the source of a password: queue manager, user, address (empty for this machine)."""
    address = "" if applicant.is_local else applicant.address
    return Source(applicant.queue_manager, applicant.user, address)


def _find_user(users: Users, name: str) -> User | None:
    """Return a user, None for an unknown name.

    Raises Refused if the users' file is damaged or unreadable.
    """
    try:
        return users.find(name)
    except (StoreError, OSError) as error:
        raise Refused(rc.MQRC_NOT_AUTHORIZED, "AMQ5534E", str(error)) from error


def _report_failure(answer: Future[Admitted], work: Future[None]) -> None:
    """Set the error of ``answer`` if ``work`` failed or was cancelled; else do nothing.

    A cancelled check becomes MQRC_Q_MGR_QUIESCING.
    """
    if work.cancelled():
        answer.set_exception(mq_error(rc.MQRC_Q_MGR_QUIESCING, "the server ends"))
    elif work.exception() is not None:
        answer.set_exception(work.exception())


def call_at_refresh(manager: Engine, method: Callable[[], Any]) -> None:
    """Call a method at each REFRESH SECURITY of a queue manager, as long as its object exists."""
    with _CHANGING:
        alive = [each for each in _CALLED_AT_REFRESH.get(manager, ()) if each() is not None]
        _CALLED_AT_REFRESH[manager] = [*alive, weakref.WeakMethod(method)]


def refresh_security(manager: Engine) -> None:
    """Do REFRESH SECURITY: servers empty their caches of passwords and read their files again.

    The files are those of users and certificates.
    """
    for reference in _CALLED_AT_REFRESH.get(manager, ()):
        method = reference()
        if method is not None:
            method()


class _Remembered(NamedTuple):
    """A cached right password: its keyed digest, the user's hash, and its end in ms since 1970."""

    digest: bytes
    password_hash: str
    until_ms: int


class RememberedPasswords:
    """A cache of passwords that were right in the last five minutes; any thread may call it."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """Start empty, with a new random key; ``now_ms`` returns ms since 1970."""
        self._now_ms = now_ms
        self._key = secrets.token_bytes(32)
        self._found: dict[tuple[str, str], _Remembered] = {}

    def knows(self, manager: str, user: User, password: str) -> bool:
        """Return True if a password is cached as right for a user whose hash has not changed.

        Returns False for a wrong, unknown or outdated password.
        """
        found = self._found.get((manager, user.name))
        if found is None or found.password_hash != user.password_hash:
            return False
        is_same = hmac.compare_digest(found.digest, self._digest(password))
        return is_same and self._now_ms() < found.until_ms

    def note(self, manager: str, user: User, password: str) -> None:
        """Cache a password that was right, for five minutes.

        A full cache (10 000 users) is emptied first.
        """
        if len(self._found) >= _MAX_REMEMBERED:
            self._found.clear()
        until_ms = self._now_ms() + REMEMBERED_MS
        made = _Remembered(self._digest(password), user.password_hash, until_ms)
        self._found[manager, user.name] = made

    def forget(self) -> None:
        """Empty the cache, for REFRESH SECURITY."""
        self._found = {}

    def _digest(self, password: str) -> bytes:
        """Return the keyed BLAKE2b digest of a password."""
        return blake2b(password.encode(), key=self._key).digest()


class Failures:
    """Counts wrong passwords by key (a text); after several in a row it closes the key."""

    def __init__(
        self, now_ms: Callable[[], int], free: int = _FREE_FAILURES, quiet_ms: int | None = None
    ) -> None:
        """Start without counts. A source of passwords is an address or a user name, as text.

        From failure number ``free`` of a source on, each failure makes its passwords be refused
        unchecked for a time. The count of a source without a failure for ``quiet_ms`` starts again
        from 0. With None only a right password resets it. ``now_ms`` returns ms since 1970.
        """
        self._now_ms, self._free, self._quiet_ms = now_ms, free, quiet_ms
        self._changing = threading.Lock()
        #: Source -> failures in a row, and until when it is closed; the oldest first.
        self._found: dict[str, tuple[int, int]] = {}

    def closed_ms(self, source: str) -> int:
        """Return for how many ms passwords from ``source`` are still refused unchecked.

        ``source`` is an address or a user name, as text. Returns 0 if its passwords are checked.
        """
        with self._changing:
            _count, until_ms = self._found.get(source, (0, 0))
        return max(0, until_ms - self._now_ms())

    def note(self, source: str) -> None:
        """Count a wrong password of a source: an address or a user name, as text.

        From number ``free`` on, each one makes passwords of the source be refused unchecked for a
        time: one second at first, then twice as long each time, at most one minute.
        """
        with self._changing:
            now_ms = self._now_ms()
            count, until_ms = self._found.pop(source, (0, now_ms))
            if self._quiet_ms is not None and now_ms - until_ms >= self._quiet_ms:
                count = 0
            count, until_ms = count + 1, now_ms
            over = count - self._free
            if over >= 0:
                until_ms += min(_FIRST_PENALTY_MS << min(over, 10), _LONGEST_PENALTY_MS)
            if len(self._found) >= _MAX_SOURCES:
                # The source without failures for the longest time: one under attack stays.
                del self._found[next(iter(self._found))]
            self._found[source] = count, until_ms

    def forget(self, source: str) -> None:
        """Set the count of a source to 0, so that its passwords are checked."""
        with self._changing:
            self._found.pop(source, None)


class Source(NamedTuple):
    """The sender of a password: queue manager, user, and address."""

    manager: str
    user: str
    #: Empty for this machine, where all users have the same address.
    address: str

    @property
    def address_key(self) -> str:
        """The key for counting wrong passwords: the address, or the user on this machine."""
        return self.address or f"local {self.user}"

    @property
    def user_key(self) -> str:
        """The key for counting wrong passwords for one user from all other machines."""
        return f"{self.manager} {self.user}"


class PasswordGuard:
    """Slows down the guessing of passwords at all queue managers of a server.

    A source (queue manager, user, address) is closed for a time after several wrong passwords.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """Start without counts and known addresses; ``now_ms`` returns ms since 1970."""
        self._by_address = Failures(now_ms)
        self._by_user = Failures(now_ms, _FREE_FAILURES_OF_NAME, _QUIET_MS)
        #: User -> addresses of other machines from which it has connected, the latest last.
        self._known: dict[str, dict[str, None]] = {}
        self._noting = threading.Lock()

    def closed_ms(self, source: Source) -> int:
        """Return for how many ms passwords from a source are refused, 0 if they are checked.

        A source is queue manager, user and address. After many wrong passwords for one user, that
        user is refused from addresses from which the user has never connected.
        """
        closed_ms = self._by_address.closed_ms(source.address_key)
        if source.address and source.address not in self._known.get(source.user_key, ()):
            closed_ms = max(closed_ms, self._by_user.closed_ms(source.user_key))
        return closed_ms

    def note_refused(self, source: Source) -> None:
        """Count a refusal against the address and the user name of a source.

        A refusal is a wrong password, or a right one of a user who is blocked. After several of
        them passwords of the source are refused unchecked for a time.
        """
        self._by_address.note(source.address_key)
        if source.address:
            self._by_user.note(source.user_key)

    def note_admitted(self, source: Source) -> None:
        """Set the count of wrong passwords from this address to 0; record the address as known.

        The count of the user name stays. For each user the last 100 addresses are known.
        """
        self._by_address.forget(source.address_key)
        if source.address:
            with self._noting:
                known = self._known.setdefault(source.user_key, {})
                known.pop(source.address, None)
                if len(known) >= _MAX_KNOWN:
                    del known[next(iter(known))]
                known[source.address] = None


class Checkers:
    """Two threads for slow checks, with a queue of at most 32."""

    def __init__(self, name: str = "mayfly-password") -> None:
        """Prepare two threads, which start when needed; ``name`` begins their names."""
        self._threads = ThreadPoolExecutor(_THREADS, name)
        self._capacity = threading.BoundedSemaphore(_MAX_WAITING)

    def submit(self, work: Callable[[], _R]) -> Future[_R] | None:
        """Run work in a thread; return its future, None if 32 checks already run or wait."""
        if not self._capacity.acquire(blocking=False):
            return None
        future = self._threads.submit(work)
        future.add_done_callback(lambda _future: self._capacity.release())
        return future

    def close(self) -> None:
        """Cancel the work that waits; let the threads end after their current work.

        Does not wait for them.
        """
        self._threads.shutdown(wait=False, cancel_futures=True)


class Delays:
    """Calls functions after a delay, in one thread that the first delay starts."""

    def __init__(self, runtime: Runtime) -> None:
        """Prepare the thread, which ``runtime`` makes; the delays are of the system clock."""
        self._runtime, self._clock = runtime, SystemClock()
        self._changed = threading.Condition()
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        self._loop: Loop | None = None
        self._is_closed = False

    def call_after(self, delay_ms: int, function: Callable[[], None]) -> None:
        """Call a function after ``delay_ms``, in the thread.

        The caller's thread calls it at once for a delay of 0, after :meth:`close`, when 1000
        functions wait, or when no thread can be started.
        """
        with self._changed:
            is_kept_back = delay_ms > 0 and len(self._waiting) < _MAX_DELAYED and self._has_thread()
            if is_kept_back:
                due_ms = self._clock.now_ms() + delay_ms
                heapq.heappush(self._waiting, (due_ms, next(self._numbers), function))
                self._changed.notify()
        if not is_kept_back:
            function()

    def close(self) -> None:
        """Make the thread call all waiting functions now, and end; does not wait for that."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _has_thread(self) -> bool:
        """Start the thread unless it runs; return True if it runs. The lock must be held.

        Returns False if the start fails (logged), or after :meth:`close`.
        """
        if self._loop is None and not self._is_closed:
            loop = Loop(self._runtime, self._call_next, "mayfly-refusals")
            try:
                loop.start()
            except RuntimeError as error:
                _LOG.error("a wrong password is refused at once: %s", error)
            else:
                self._loop = loop
        return self._loop is not None and not self._is_closed

    def _call_next(self) -> bool:
        """Wait for the next function that is due and call it; log its exception.

        Returns False if it is closed and no function waits, otherwise True.
        """
        with self._changed:
            while not self._is_closed and (not self._waiting or self._left_ms() > 0):
                left_s = self._left_ms() / SECOND_MS if self._waiting else None
                self._changed.wait(left_s)
            if not self._waiting:
                return False
            _due_ms, _number, function = heapq.heappop(self._waiting)
        try:
            function()
        except Exception:  # noqa: BLE001 - one client's answer is not the others'
            _LOG.exception("a refusal cannot be answered")
        return True

    def _left_ms(self) -> int:
        """Return the ms until the next function is due, 0 or less if overdue.

        The lock must be held, and a function must wait.
        """
        return self._waiting[0][0] - self._clock.now_ms()
