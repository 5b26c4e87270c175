"""Admission: lets applicants in to a queue manager, each as a user, with its limits.

The checks follow each other as in IBM MQ: address, channel, TLS, the rules for channels, password,
and the users that a channel keeps out. A password is looked at when the cheaper checks have passed.
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
    KeptOut,
    Refused,
    Terms,
    check_user,
    needs_password,
    terms_of,
    user_of,
    wants_host_names,
)
from mayfly.admin.security.authentication import Authenticator, Checkers, Delays, Source
from mayfly.admin.security.rules import KnownNames, Resolver, names_of
from mayfly.admin.security.users import User, users_of
from mayfly.engine import Engine
from mayfly.lifetime.times import SECOND_MS, Clock
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import StoreError, mq_error
from mayfly.runtime import Runtime, SystemClock

_FINDING = threading.Lock()


__all__ = ["Admission", "Admitted", "Applicant"]


class _Question(NamedTuple):
    """A password that is to be checked before an applicant is let in, or is refused.

    ``refusal`` is there for an applicant that is kept out whatever the password is: because of the
    user that it names. The answer takes as long as that to a wrong password.
    """

    manager: Engine
    applicant: Applicant
    terms: Terms | None
    user: User | None
    source: Source
    failure_delay_s: int
    refusal: Refused | None = None


class Admission:
    """Lets programs in, or refuses them; any thread may call it.

    A refusal is logged with its AMQ number and cause; the caller learns the reason code alone.
    """

    def __init__(
        self,
        managers: Iterable[Engine],
        *,
        token: str = "",
        clock: Clock | None = None,
        resolve: Resolver = names_of,
    ) -> None:
        """Admit to some open queue managers; with ``token`` as password an operator comes in.

        Wrong and right passwords are remembered by the time of ``clock``, and so are the host
        names of addresses, which ``resolve`` looks up.
        """
        self._managers = {manager.name: manager for manager in managers}
        self._token = token.encode()
        now_ms = (SystemClock() if clock is None else clock).now_ms
        self._authenticator = Authenticator(now_ms)
        self._checkers = Checkers()
        runtimes = [manager.runtime for manager in self._managers.values()]
        self._delays = Delays(next(iter(runtimes), Runtime()))
        self._names, self._resolvers = KnownNames(now_ms, resolve), Checkers("mayfly-host-name")
        for manager in self._managers.values():
            refreshes_of(manager).tell(self.refresh)

    def admit(self, applicant: Applicant) -> Admitted:
        """Return the terms on which a program is let in; waits as long as :meth:`submit`.

        Raises MQRC_NOT_AUTHORIZED, MQRC_CHANNEL_NOT_AVAILABLE, MQRC_UNKNOWN_CHANNEL_NAME,
        MQRC_Q_MGR_NAME_ERROR, MQRC_Q_MGR_NOT_AVAILABLE, MQRC_SSL_INITIALIZATION_ERROR.
        """
        return self.submit(applicant).result()

    def submit(self, applicant: Applicant) -> Future[Admitted]:
        """Begin to decide, and return at once: a loop that serves others may call it.

        An applicant without a password, or with a remembered one, is decided when it returns. Other
        passwords are checked in one of two threads; when too many wait, the applicant gets
        MQRC_CHANNEL_NOT_AVAILABLE. The answer to a wrong password comes after FAILDLAY.
        """
        answer: Future[Admitted] = Future()
        # From now on nobody can cancel it: a client that goes meanwhile changes nothing for the
        # thread that answers.
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
            work.add_done_callback(partial(_pass_on, answer))
        return answer

    def _look_up(self, applicant: Applicant, answer: Future[Admitted]) -> None:
        """Decide once the host names are known: the work of a thread."""
        names = self._names.look_up(applicant.address)
        self._decide(replace(applicant, host_names=names), answer)

    def _decide(self, applicant: Applicant, answer: Future[Admitted]) -> None:
        try:
            outcome = self._first_checks(applicant)
            if isinstance(outcome, Admitted):
                answer.set_result(outcome)
                return
            work = self._checkers.submit(partial(self._answer, outcome, answer))
            if work is None:
                text = "too many passwords wait to be checked"
                raise Refused(rc.MQRC_CHANNEL_NOT_AVAILABLE, "AMQ9513E", text)
            work.add_done_callback(partial(_pass_on, answer))
        except Refused as refused:
            self._refuse(answer, applicant, refused)

    def refresh(self) -> None:
        """Forget passwords that were right and host names, and read the files of users again."""
        self._authenticator.memory.forget()
        self._names.forget()
        for manager in self._managers.values():
            users_of(manager).read_again()

    def close(self) -> None:
        """End its threads; answers that are kept back come at once."""
        self._resolvers.close()
        self._checkers.close()
        self._delays.close()

    def _first_checks(self, applicant: Applicant) -> Admitted | _Question:
        """Return the terms, or the password that is to be checked; raises Refused."""
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
            terms = terms_of(manager, applicant)
        except KeptOut as kept_out:
            if not kept_out.has_password:
                raise
            source, delay_s = _source_of(applicant), kept_out.failure_delay_s
            return _Question(manager, applicant, None, None, source, delay_s, kept_out)
        if applicant.sending_manager:
            self._check_sender(applicant, terms)
            return self._admit(manager, applicant, terms, is_verified=False)
        if not needs_password(manager, applicant, terms):
            return self._admit(manager, applicant, terms, is_verified=False)
        if not (applicant.is_local or applicant.has_tls):
            text = "the password came from another machine without TLS"
            raise Refused(rc.MQRC_NOT_AUTHORIZED, "AMQ5534E", text)
        return self._known_password(manager, applicant, terms)

    def _known_password(
        self, manager: Engine, applicant: Applicant, terms: Terms
    ) -> Admitted | _Question:
        """Let in whose password is remembered; ask for a check of any other."""
        source, authenticator = _source_of(applicant), self._authenticator
        # It comes first: remembered passwords are compared so fast that it would help to guess.
        closed_ms = authenticator.closed_ms(source)
        if closed_ms:
            text = f"too many wrong passwords: closed for {closed_ms / SECOND_MS:.0f} s"
            raise Refused(rc.MQRC_NOT_AUTHORIZED, "AMQ5534E", text)
        user = _found(manager, applicant.user)
        question = _Question(manager, applicant, terms, user, source, terms.failure_delay_s)
        if user is not None and authenticator.memory.knows(manager.name, user, applicant.password):
            try:
                return self._admit(manager, applicant, terms, is_verified=True)
            except Refused as refused:
                return question._replace(refusal=refused)
        return question

    def _answer(self, question: _Question, answer: Future[Admitted]) -> None:
        """Check a password, and let the applicant in or refuse it: the work of a thread."""
        manager, applicant, user = question.manager, question.applicant, question.user
        authenticator, source = self._authenticator, question.source
        is_right = authenticator.check(user, applicant.password)
        try:
            if question.refusal is not None:
                raise question.refusal
            if not is_right or question.terms is None:
                text = f"user {applicant.user!r} is unknown, or the password is wrong"
                raise Refused(rc.MQRC_NOT_AUTHORIZED, "AMQ5534E", text)
            admitted = self._admit(manager, applicant, question.terms, is_verified=True)
        except Refused as refused:
            # A right password of a user who is kept out is refused as a wrong one is: the time of
            # the answer would tell a guesser that it is right.
            authenticator.note_refused(source)
            delay_ms = question.failure_delay_s * SECOND_MS
            self._refuse(answer, applicant, refused, delay_ms)
        else:
            assert user is not None
            authenticator.note_admitted(source)
            authenticator.memory.note(manager.name, user, applicant.password)
            answer.set_result(admitted)

    def _admit(
        self, manager: Engine, applicant: Applicant, terms: Terms, *, is_verified: bool
    ) -> Admitted:
        """Return the terms for the user whose authority counts; raises Refused."""
        name = user_of(applicant, terms, is_verified=is_verified)
        user = _found(manager, name) or User(name)
        is_operator = check_user(manager, applicant, user)
        return terms.admitted(user, is_operator=is_operator)

    def _is_operator(self, applicant: Applicant) -> bool:
        """Return True if the password is the operator's token, and has not come in the clear."""
        if not self._token or not (applicant.is_local or applicant.has_tls):
            return False
        return hmac.compare_digest(applicant.password.encode(), self._token)

    def _check_sender(self, applicant: Applicant, terms: Terms) -> None:
        """Let a message channel in that shows the token, or a certificate; raises Refused.

        A certificate counts where the channel asks for TLS or a rule maps the sender: else every
        program with a certificate could open a receiver, whose puts may be unchecked.
        """
        is_shown = bool(applicant.certificate_subject)
        if not (is_shown and terms.heeds_certificates) and not self._is_operator(applicant):
            text = f"queue manager {applicant.sending_manager} shows no certificate and no token"
            if is_shown:
                text = "the certificate counts only with SSLCIPH or SSLPEER of the RCVR, or a map"
            if applicant.password:
                text = f"the token of queue manager {applicant.sending_manager} is wrong"
            if applicant.password and not (applicant.is_local or applicant.has_tls):
                text = "the token came from another machine without TLS"
            raise Refused(rc.MQRC_NOT_AUTHORIZED, "AMQ9777E", text)

    def _refuse(
        self, answer: Future[Admitted], applicant: Applicant, refused: Refused, delay_ms: int = 0
    ) -> None:
        error = refused.noted(applicant)
        self._delays.call_after(delay_ms, partial(answer.set_exception, error))


def _source_of(applicant: Applicant) -> Source:
    address = "" if applicant.is_local else applicant.address
    return Source(applicant.queue_manager, applicant.user, address)


def _found(manager: Engine, name: str) -> User | None:
    """Return a user, None when there is none; nobody comes in while the file is damaged."""
    try:
        return users_of(manager).find(name)
    except (StoreError, OSError) as error:
        raise Refused(rc.MQRC_NOT_AUTHORIZED, "AMQ5534E", str(error)) from error


def _pass_on(answer: Future[Admitted], work: Future[None]) -> None:
    """Let nobody wait for ever for an answer whose work was cancelled, or has failed."""
    if work.cancelled():
        answer.set_exception(mq_error(rc.MQRC_Q_MGR_QUIESCING, "the server ends"))
    elif work.exception() is not None:
        answer.set_exception(work.exception())


class Refreshes:
    """The methods that are called when the security of one queue manager is refreshed."""

    def __init__(self) -> None:
        """Begin without methods to call."""
        self._methods: list[weakref.WeakMethod[Callable[[], Any]]] = []

    def tell(self, method: Callable[[], Any]) -> None:
        """Call a method at each refresh, as long as its object lives."""
        alive = [reference for reference in self._methods if reference() is not None]
        self._methods = [*alive, weakref.WeakMethod(method)]

    def refresh(self) -> None:
        """Call the methods whose objects live still."""
        for reference in self._methods:
            method = reference()
            if method is not None:
                method()


_OF_MANAGERS: weakref.WeakKeyDictionary[Engine, Refreshes] = weakref.WeakKeyDictionary()


def refreshes_of(manager: Engine) -> Refreshes:
    """Return the methods that are called when the security of a queue manager is refreshed."""
    with _FINDING:
        return _OF_MANAGERS.setdefault(manager, Refreshes())


def refresh_security(manager: Engine) -> None:
    """Forget passwords that were right, and read users and certificates again."""
    refreshes_of(manager).refresh()
