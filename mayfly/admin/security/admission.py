"""Admission: accepts or refuses connections to a queue manager, each as a user, with its limits.

The checks have the order of IBM MQ: address, channel, TLS, the rules for channels, password, and
the users that a channel blocks. A password is checked when the cheaper checks have passed.
"""

from __future__ import annotations

import hmac
import threading
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

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
from mayfly.admin.security.authentication import (
    Checkers,
    Delays,
    PasswordGuard,
    RememberedPasswords,
    Source,
)
from mayfly.admin.security.rules import KnownNames, Resolver, names_of
from mayfly.admin.security.users import User, is_right, users_of
from mayfly.engine import Engine
from mayfly.lifetime.times import SECOND_MS, Clock
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import StoreError, mq_error
from mayfly.runtime import Runtime, SystemClock

_CHANGING = threading.Lock()
#: The methods to call at REFRESH SECURITY. Neither a queue manager nor a server is kept by them.
_CALLED_AT_REFRESH: weakref.WeakKeyDictionary[
    Engine, list[weakref.WeakMethod[Callable[[], Any]]]
] = weakref.WeakKeyDictionary()


__all__ = ["Admission", "Admitted", "Applicant"]


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
    ) -> None:
        """Prepare to admit programs to these queue managers, which are open.

        REFRESH SECURITY of each queue manager calls :meth:`refresh`. A program that sends ``token``
        as password is an operator, who may do everything; an empty ``token`` admits no operator.
        ``clock`` times how long passwords and host names are cached; None is the system clock.
        ``resolve`` looks up the host names of an address.
        """
        self._managers = {manager.name: manager for manager in managers}
        self._token = token.encode()
        now_ms = (SystemClock() if clock is None else clock).now_ms
        self._remembered, self._guard = RememberedPasswords(now_ms), PasswordGuard(now_ms)
        self._checkers = Checkers()
        runtimes = [manager.runtime for manager in self._managers.values()]
        self._delays = Delays(next(iter(runtimes), Runtime()))
        self._names, self._resolvers = KnownNames(now_ms, resolve), Checkers("mayfly-host-name")
        for manager in self._managers.values():
            call_at_refresh(manager, self.refresh)

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
            work = self._checkers.submit(partial(self._answer, outcome, answer))
            if work is None:
                text = "too many passwords wait to be checked"
                raise Refused(rc.MQRC_CHANNEL_NOT_AVAILABLE, "AMQ9513E", text)
            work.add_done_callback(partial(_report_failure, answer))
        except Refused as refused:
            self._refuse(answer, applicant, refused)

    def refresh(self) -> None:
        """Empty the caches of passwords and host names; make the users' files be read again."""
        self._remembered.forget()
        self._names.forget()
        for manager in self._managers.values():
            users_of(manager).read_again()

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
        if not (applicant.is_local or applicant.has_tls):
            text = "the password came from another machine without TLS"
            raise Refused(rc.MQRC_NOT_AUTHORIZED, "AMQ5534E", text)
        return self._known_password(manager, applicant, offer)

    def _known_password(
        self, manager: Engine, applicant: Applicant, offer: ChannelOffer
    ) -> Admitted | _Question:
        """Return the user and limits of a connecting program whose password is cached as right.

        ``offer`` is that of its channel. Returns a question, to be checked in a thread, for any
        other password. Raises Refused while passwords of this user or address are refused
        unchecked, after too many wrong ones.
        """
        source = _source_of(applicant)
        # This check comes first: a comparison with remembered passwords is fast enough to guess.
        closed_ms = self._guard.closed_ms(source)
        if closed_ms:
            text = f"too many wrong passwords: closed for {closed_ms / SECOND_MS:.0f} s"
            raise Refused(rc.MQRC_NOT_AUTHORIZED, "AMQ5534E", text)
        user = _find_user(manager, applicant.user)
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
            # answer would reveal that it is right. Over HTTP the user is told, as late.
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
        user = _find_user(manager, name) or User(name)
        is_operator = check_user(manager, applicant, user)
        return offer.admitted(user, is_operator=is_operator)

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


def _find_user(manager: Engine, name: str) -> User | None:
    """Return a user, None for an unknown name.

    Raises Refused if the users' file is damaged or unreadable.
    """
    try:
        return users_of(manager).find(name)
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
