"""An applicant (a program that asks for a connection), the checks of its channel, and the result.

The result is the user and the limits of the connection, or a refusal. The checks follow the
channel's definition, the rules for channels (CHLAUTH) and the AUTHINFO for passwords (CONNAUTH).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mayfly.admin.security.rules import (
    Partner,
    blocking_address,
    blocking_user,
    has_name,
    is_host_name,
    mapping,
    names_users,
    parsed_address,
    spelled,
)
from mayfly.admin.security.users import User
from mayfly.channel import channels_of
from mayfly.engine import LONGEST_MESSAGE_BYTES, Engine, manager_definition
from mayfly.engine.api.admission import (
    AUTHCHK_NONE,
    AUTHINFO,
    CHANNEL,
    AuthenticationDefinition,
    Caller,
    ChannelDefinition,
    ChannelRuleDefinition,
    channel_rules,
    may_do_everything,
    report_blocked,
    report_password,
    report_tls_refusal,
    view_named,
)
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi import event_constants as e
from mayfly.mqi import reasons as rc
from mayfly.mqi.channel_names import is_matched
from mayfly.mqi.errors import MQError, mq_error

_NO_LIMIT: Final = 999_999_999
_LOG: Final = logging.getLogger("mayfly.security")
_LONGEST_USER: Final = 12
#: The refusals of which there are events, by AMQ number: passwords, rules for channels, TLS.
_OF_PASSWORDS: Final = ("AMQ5534E", "AMQ5540E")
_BLOCKED: Final = {
    "AMQ9778E": e.MQRQ_CHANNEL_BLOCKED_ADDRESS,
    "AMQ9776E": e.MQRQ_CHANNEL_BLOCKED_USERID,
    "AMQ9777E": e.MQRQ_CHANNEL_BLOCKED_NOACCESS,
}
_WITHOUT_TLS: Final = {
    "AMQ9639E": e.MQRQ_SSL_CIPHER_SPEC_ERROR,
    "AMQ9637E": e.MQRQ_SSL_CLIENT_AUTH_ERROR,
    "AMQ9636E": e.MQRQ_SSL_PEER_NAME_ERROR,
}
#: Passwords are checked against the file of users, also where a directory was asked in IBM MQ.
_PASSWORD_TYPES: Final = (c.MQAIT_IDPW_OS, c.MQAIT_IDPW_LDAP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Applicant:
    """A program or a partner's message channel that asks for a connection.

    ``address`` is that of the peer without its port, empty for a UNIX socket. ``channel`` is blank
    for a local connection or an operator. ``has_tls`` is True if the password came encrypted;
    subject and issuer are those of the peer's certificate, which TLS has verified, empty without
    one. ``sending_manager`` is the queue manager of a message channel, empty for a client. With
    ``must_prove_user`` a user that the program names needs a password even where CHCKCLNT requires
    none, as over HTTP. Admission sets ``host_names`` when a rule needs them. ``is_of_this_process``
    is not verified, and is for the clocks of tests only.
    """

    queue_manager: str
    address: str
    channel: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    has_tls: bool = False
    certificate_subject: str = ""
    certificate_issuer: str = ""
    application: str = ""
    sending_manager: str = ""
    must_prove_user: bool = False
    host_names: tuple[str, ...] = ()
    is_of_this_process: bool = False

    @property
    def is_local(self) -> bool:
        """Whether the peer is on this machine: a loopback address or a UNIX socket."""
        return is_local(self.address)


def _no_report(_is_of_client: bool) -> None:
    """Make no event for a connection above a limit: nobody counts those without a channel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """An admitted connection: its user and its limits.

    ``user`` and ``groups`` are those whose authority counts. With ``is_operator`` it may do
    everything, and ``user`` is for messages only. The server counts the instances of a channel, and
    those of one address; for one above a limit it calls ``report_full``, with True for the limit of
    one address. The default limits are those of a connection that names no channel.
    """

    user: str
    groups: tuple[str, ...] = ()
    is_operator: bool = False
    heartbeat_s: int = 300
    share_conversations: int = 10
    max_message_bytes: int = LONGEST_MESSAGE_BYTES
    max_instances: int = _NO_LIMIT
    max_instances_per_client: int = _NO_LIMIT
    report_full: Callable[[bool], None] = field(default=_no_report, compare=False, repr=False)


def is_local(address: str) -> bool:
    """Return True for a loopback address, and for the empty address of a UNIX socket.

    Returns False for a text that is no IP address.
    """
    if not address:
        return True
    try:
        return parsed_address(address).is_loopback
    except ValueError:
        return False


class Refused(Exception):
    """A refusal of an applicant: reason code for the client, AMQ number and cause for the log.

    It ends the checks, and is never raised outside this package.
    """

    def __init__(self, reason: int, amq: str, cause: str) -> None:
        """Store the MQRC_* for the client; ``amq`` (AMQ number) and ``cause`` are for the log."""
        super().__init__(reason, amq, cause)
        self.reason, self.amq, self.cause = reason, amq, cause

    def noted(self, applicant: Applicant, *, tells_cause: bool = False) -> MQError:
        """Log the refusal; return the MQError for the client, without the cause.

        ``tells_cause`` adds the cause: for a user whose password was right, over HTTP.
        The fields are also attributes of the log record, for structured logs.
        """
        fields = {
            "amq": self.amq,
            "reason": self.reason,
            "cause": self.cause,
            "channel": applicant.channel,
            "address": applicant.address,
            "user": applicant.user,
            "queue_manager": applicant.queue_manager,
            "application": applicant.application,
        }
        _LOG.warning(
            "%s: %s refused (%d): %s; channel %r, address %s, user %r, application %r",
            self.amq,
            applicant.queue_manager,
            self.reason,
            self.cause,
            applicant.channel,
            applicant.address or "local",
            applicant.user,
            applicant.application,
            extra=fields,
        )
        if tells_cause:
            return mq_error(self.reason, f"the password is right, but {self.cause}")
        return mq_error(self.reason)


class NoAccessRefusal(Refused):
    """A refusal by USERSRC(NOACCESS) in a rule of a channel that may admit other users.

    ``has_password`` is True if the applicant sent a password that would be checked for another
    user. The answer to a wrong one is delayed by ``failure_delay_s`` seconds.
    """

    has_password = False
    failure_delay_s = 0


class ChannelOffer(NamedTuple):
    """The offer of a channel to an applicant that passed its checks, before the user is known.

    ``channel`` and ``rule`` are None for a local connection; ``rule`` is also None if no rule
    applies. ``check`` is MQCHK_*, whether a password is required. ``adopts_user`` is ADOPTCTX.
    """

    channel: ChannelDefinition | None
    rule: ChannelRuleDefinition | None
    check: int
    adopts_user: bool
    failure_delay_s: int

    @property
    def heeds_certificates(self) -> bool:
        """Whether a certificate counts: the channel has SSLCIPH or SSLPEER, or a rule applies."""
        channel = self.channel
        is_asked_for = channel is not None and bool(channel.sslciph or channel.sslpeer)
        return is_asked_for or self.rule is not None

    def admitted(self, user: User, *, is_operator: bool) -> Admitted:
        """Return the connection of a user: its groups, and the limits of the channel.

        Without a channel the limits are the defaults. ``is_operator`` means that the user may do
        everything.
        """
        channel = self.channel
        if channel is None:
            return Admitted(user=user.name, groups=user.groups, is_operator=is_operator)
        return Admitted(
            user=user.name,
            groups=user.groups,
            is_operator=is_operator,
            heartbeat_s=channel.hbint,
            share_conversations=channel.sharecnv,
            max_message_bytes=channel.maxmsgl or LONGEST_MESSAGE_BYTES,
            max_instances=channel.maxinst,
            max_instances_per_client=channel.maxinstc,
        )


def offer_of(manager: Engine, applicant: Applicant) -> ChannelOffer:
    """Check address, channel, TLS and rules for a connecting program; return its channel's offer.

    The offer says which rule applies and whether a password is required. The password is not
    checked. Raises Refused; its subclass NoAccessRefusal for a rule with NOACCESS.
    """
    authentication = _authentication(manager)
    adopts = authentication is not None and authentication.adoptctx == k.MQADPCTX_YES
    delay_s = 0 if authentication is None else authentication.faildlay
    if not applicant.channel:
        check = k.MQCHK_NONE if authentication is None else authentication.chcklocl
        return ChannelOffer(None, None, check, True, delay_s)
    rules = rules_of(manager)
    blocking = blocking_address(rules, applicant.address)
    if blocking is not None:
        text = f"the address is blocked by {spelled(blocking)}"
        refused = Refused(rc.MQRC_Q_MGR_NOT_AVAILABLE, "AMQ9778E", text)
        _refuse_or_warn(manager, applicant, blocking, refused)
    channel = _channel(manager, applicant)
    _check_tls(channel, applicant)
    check = k.MQCHK_NONE if authentication is None else authentication.chckclnt
    partner = partner_of(applicant)
    rule = mapping(rules, partner)
    if rule is not None and rule.usersrc == c.MQUSRC_NOACCESS:
        text = f"the partner has no access by {spelled(rule)}"
        no_access = NoAccessRefusal(rc.MQRC_NOT_AUTHORIZED, "AMQ9777E", text)
        if names_users(rules, partner):
            is_checked = check != k.MQCHK_NONE or applicant.must_prove_user
            no_access.has_password = bool(is_checked and applicant.user and applicant.password)
            no_access.failure_delay_s = delay_s
        _refuse_or_warn(manager, applicant, rule, no_access)
        rule = None
    if rule is not None and rule.chckclnt != k.MQCHK_AS_Q_MGR:
        check = rule.chckclnt
    return ChannelOffer(channel, rule, check, adopts, delay_s)


def failure_delay_s(manager: Engine) -> int:
    """Return FAILDLAY, the delay in seconds of the answer to a wrong password.

    Returns 0 without CONNAUTH, or if its AUTHINFO does not exist.
    """
    try:
        authentication = _authentication(manager)
    except Refused:
        return 0
    return 0 if authentication is None else authentication.faildlay


def needs_password(manager: Engine, applicant: Applicant, offer: ChannelOffer) -> bool:
    """Return True if a connecting program's password must be checked, False if none is needed.

    ``offer`` is that of its channel, which says whether a password is required. Raises Refused when
    user or password is required and missing.
    """
    is_given = bool(applicant.password and applicant.user)
    if is_given and (offer.check != k.MQCHK_NONE or applicant.must_prove_user):
        return True
    user = user_of(applicant, offer, is_verified=False)
    is_needed = (
        offer.channel is None
        or (applicant.must_prove_user and applicant.user)
        or offer.check == k.MQCHK_REQUIRED
        or (offer.check == k.MQCHK_REQUIRED_ADMIN and is_administrator(manager, User(user)))
    )
    if is_needed:
        by = "a local connection" if offer.channel is None else "CHCKCLNT"
        by = "HTTP" if applicant.must_prove_user else by
        text = f"user and password are missing, which {by} asks for"
        raise Refused(rc.MQRC_NOT_AUTHORIZED, "AMQ5540E", text)
    return False


def user_of(applicant: Applicant, offer: ChannelOffer, *, is_verified: bool) -> str:
    """Return the name of the user whose authority counts for a connecting program.

    The first of these that has a name: the MCAUSER of a rule, the user with the right password
    (``is_verified``) if ADOPTCTX is set, the MCAUSER of the channel, the user that the program
    names. This is the order of IBM MQ's ChlauthEarlyAdopt. Returns "" if none has a name.
    """
    if offer.rule is not None and offer.rule.usersrc == c.MQUSRC_MAP:
        return offer.rule.mcauser
    if is_verified and offer.adopts_user:
        return applicant.user
    return (offer.channel.mcauser if offer.channel is not None else "") or applicant.user


def check_user(manager: Engine, applicant: Applicant, user: User) -> bool:
    """Return True if a user may connect as administrator, False if as another user.

    Raises Refused for an empty or too long name and a user that BLOCKUSER blocks. With
    AUTHCHK(NONE) only administrators are admitted, because any user could do everything. A message
    channel without MCAUSER returns True; its puts are not checked.
    """
    if applicant.sending_manager and not user.name:
        return True
    if not user.name or len(user.name) > _LONGEST_USER:
        text = f"user {user.name!r} is not 1 to {_LONGEST_USER} characters"
        raise Refused(rc.MQRC_NOT_AUTHORIZED, "AMQ9777E", text)
    is_admin = is_administrator(manager, user)
    if applicant.channel and not applicant.sending_manager:
        blocking = blocking_user(
            rules_of(manager), applicant.channel, user.name, is_administrator=is_admin
        )
        if blocking is not None:
            text = f"user {user.name} is blocked by {spelled(blocking)}"
            refused = Refused(rc.MQRC_NOT_AUTHORIZED, "AMQ9776E", text)
            _refuse_or_warn(manager, applicant, blocking, refused)
    is_unchecked = manager_definition(manager).authchk == AUTHCHK_NONE
    if is_unchecked and not (is_admin or applicant.sending_manager):
        text = f"AUTHCHK(NONE): no SET AUTHREC says yet what user {user.name} may do"
        raise Refused(rc.MQRC_NOT_AUTHORIZED, "AMQ8077E", text)
    return is_admin


def is_administrator(manager: Engine, user: User) -> bool:
    """Return True for a user in the group mqm, and for the user who opened the queue manager."""
    return may_do_everything(manager, user.name, user.groups)


def rules_of(manager: Engine) -> list[ChannelRuleDefinition]:
    """Return the CHLAUTH rules in force; empty with CHLAUTH(DISABLED)."""
    is_enabled = manager_definition(manager).chlauth == k.MQCHLA_ENABLED
    return channel_rules(manager) if is_enabled else []


def partner_of(applicant: Applicant) -> Partner:
    """Return the attributes of a connecting program that CHLAUTH rules compare."""
    return Partner(
        applicant.channel,
        applicant.address,
        "" if applicant.sending_manager else applicant.user,
        applicant.sending_manager,
        applicant.certificate_subject,
        applicant.certificate_issuer,
        applicant.host_names,
    )


def wants_host_names(manager: Engine, channel: str, address: str) -> bool:
    """Return True if host names of an address are needed to apply the rules of a channel.

    That is so if a rule has a host name and REVDNS is enabled. Always False without channel or
    address.
    """
    if not channel or not address or manager_definition(manager).revdns == k.MQRDNS_DISABLED:
        return False
    rules = rules_of(manager)
    return any(has_name(channel, r.profile) and is_host_name(r.address) for r in rules)


def _authentication(manager: Engine) -> AuthenticationDefinition | None:
    """Return the AUTHINFO that CONNAUTH names, None without CONNAUTH.

    Raises Refused if that AUTHINFO does not exist, or is not of type IDPWOS or IDPWLDAP.
    """
    name = manager_definition(manager).connauth
    if not name:
        return None
    for found in view_named(manager, AUTHINFO, name):
        if isinstance(found, AuthenticationDefinition):
            if found.authtype not in _PASSWORD_TYPES:
                text = f"CONNAUTH names {name}, which does not say how passwords are checked"
                raise Refused(rc.MQRC_NOT_AUTHORIZED, "AMQ5534E", text)
            return found
    text = f"CONNAUTH names {name}, which is not defined"
    raise Refused(rc.MQRC_NOT_AUTHORIZED, "AMQ5534E", text)


def _channel(manager: Engine, applicant: Applicant) -> ChannelDefinition:
    """Return the SVRCONN channel that a client names, or the RCVR channel for a sender.

    Raises Refused if it is not defined, of another type, or stopped.
    """
    wanted = c.MQCHT_RECEIVER if applicant.sending_manager else c.MQCHT_SVRCONN
    name = applicant.channel
    found = view_named(manager, CHANNEL, name) if "*" not in name else []
    if not found or not isinstance(found[0], ChannelDefinition) or found[0].chltype != wanted:
        text = f"channel {name!r} is not defined, or is of another type"
        raise Refused(rc.MQRC_UNKNOWN_CHANNEL_NAME, "AMQ9519E", text)
    if channels_of(manager).is_stopped(name):
        text = f"channel {name} is stopped"
        raise Refused(rc.MQRC_CHANNEL_NOT_AVAILABLE, "AMQ9558E", text)
    return found[0]


def _check_tls(channel: ChannelDefinition, applicant: Applicant) -> None:
    """Raise Refused if TLS, the certificate or its name is not as the channel requires.

    SSLCIPH requires TLS, SSLCAUTH(REQUIRED) a certificate, SSLPEER its name.
    """
    if channel.sslciph and not applicant.has_tls:
        text = f"the channel speaks TLS, SSLCIPH({channel.sslciph}), and the client does not"
        raise Refused(rc.MQRC_SSL_INITIALIZATION_ERROR, "AMQ9639E", text)
    subject = applicant.certificate_subject
    if channel.sslciph and channel.sslcauth == k.MQSCA_REQUIRED and not subject:
        text = "the client shows no certificate, which SSLCAUTH(REQUIRED) asks for"
        raise Refused(rc.MQRC_SSL_INITIALIZATION_ERROR, "AMQ9637E", text)
    if channel.sslpeer and not is_matched(subject, channel.sslpeer):
        text = f"the name {subject!r} in the certificate does not match SSLPEER({channel.sslpeer})"
        raise Refused(rc.MQRC_SSL_INITIALIZATION_ERROR, "AMQ9636E", text)


def _refuse_or_warn(
    manager: Engine, applicant: Applicant, rule: ChannelRuleDefinition, refused: Refused
) -> None:
    """Raise ``refused``; for a rule with WARN(YES) only report it and return: the check passes."""
    if rule.warn != c.MQWARN_YES:
        raise refused
    fields = {"amq": refused.amq, "cause": refused.cause}
    _LOG.warning("%s: let in by WARN(YES) though %s", refused.amq, refused.cause, extra=fields)
    report_refusal(manager, applicant, refused, is_warning=True)


def report_refusal(
    manager: Engine, applicant: Applicant, refused: Refused, *, is_warning: bool = False
) -> None:
    """Make the event of a refusal, by rule, by TLS or by password; nothing for other refusals.

    With ``is_warning`` the applicant is admitted, by WARN(YES).
    """
    if refused.amq in _OF_PASSWORDS:
        caller = Caller(applicant.application, applicant.address, applicant.channel)
        report_password(manager, applicant.user, caller)
    elif applicant.channel and refused.amq in _BLOCKED:
        report_blocked(
            manager,
            _BLOCKED[refused.amq],
            channel=applicant.channel,
            address=applicant.address,
            user=applicant.user,
            manager=applicant.sending_manager,
            subject=applicant.certificate_subject,
            is_warning=is_warning,
        )
    elif refused.amq in _WITHOUT_TLS:
        report_tls_refusal(
            manager,
            _WITHOUT_TLS[refused.amq],
            channel=applicant.channel,
            address=applicant.address,
            subject=applicant.certificate_subject,
        )
