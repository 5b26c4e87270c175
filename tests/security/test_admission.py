"""Admission: who is let in, as which user, and the reason code and log line of a refusal."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import mayfly
from mayfly.admin.security.admission import REMEMBERED_MS, Admission, Admitted, Applicant
from mayfly.admin.security.users import FILE, Users, users_of
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.testing import VirtualClock
from tests.facts import wait_until

TOKEN = "operator-token"
HERE, FAR = "127.0.0.1", "192.0.2.7"
#: A channel for everybody with a password, one for those who show a certificate.
SCRIPT = """
DEFINE CHANNEL(APP) CHLTYPE(SVRCONN) HBINT(20) SHARECNV(3) MAXMSGL(1000) MAXINST(4) MAXINSTC(2)
DEFINE CHANNEL(TLS) CHLTYPE(SVRCONN) SSLCIPH(ANY_TLS12_OR_HIGHER) SSLPEER('O=Example')
ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) FAILDLAY(0)
SET AUTHREC OBJTYPE(QMGR) GROUP('staff') AUTHADD(CONNECT)
"""

Refuses = Callable[[Applicant], tuple[int, str, str]]


@pytest.fixture
def qm() -> Iterator[mayfly.QueueManager]:
    with mayfly.QueueManager("QM1", user="root") as manager:
        assert manager.mqsc(SCRIPT).ok
        yield manager


@pytest.fixture
def admission(qm: mayfly.QueueManager, clock: VirtualClock) -> Iterator[Admission]:
    made = Admission([qm.engine], token=TOKEN, clock=clock)
    yield made
    made.close()


@pytest.fixture
def anna(qm: mayfly.QueueManager) -> Applicant:
    """Return a client of this machine with a user and the right password."""
    users_of(qm.engine).add("anna", "secret", ["staff"])
    return Applicant(
        queue_manager="QM1", address=HERE, channel="APP", user="anna", password="secret"
    )


@pytest.fixture
def refused(admission: Admission, caplog: pytest.LogCaptureFixture) -> Refuses:
    """Return what becomes of an applicant: its reason code, and AMQ number and cause in the log."""

    def ask(applicant: Applicant) -> tuple[int, str, str]:
        caplog.clear()
        with pytest.raises(MQError) as caught:
            admission.admit(applicant)
        assert caught.value.detail == "", "the client is told no cause"
        asked = applicant.channel, applicant.user
        # A check of a test before this one may end meanwhile.
        [record] = [
            r
            for r in caplog.records
            if r.name == "mayfly.security" and (vars(r)["channel"], vars(r)["user"]) == asked
        ]
        told = vars(record)
        assert record.levelno == logging.WARNING
        assert told["reason"] == caught.value.reason
        assert (told["channel"], told["address"]) == (applicant.channel, applicant.address)
        if applicant.password:
            assert applicant.password not in record.getMessage() + repr(applicant)
        return caught.value.reason, told["amq"], told["cause"]

    return ask


def mqsc(qm: mayfly.QueueManager, *commands: str) -> None:
    result = qm.mqsc("\n".join(commands))
    assert result.ok, result.text


# The operator


def test_operator_comes_in_with_the_token_as_password_whatever_the_user_name(
    admission: Admission,
) -> None:
    for address in ("", "127.0.0.1", "::1", "127.9.9.9", "::ffff:127.0.0.1"):
        applicant = Applicant(queue_manager="QM1", address=address, user="x", password=TOKEN)
        admitted = admission.admit(applicant)
        assert (admitted.user, admitted.is_operator) == ("x", True)


def test_token_is_taken_from_another_machine_over_tls_only(
    admission: Admission, refused: Refuses
) -> None:
    far = Applicant(queue_manager="QM1", address=FAR, password=TOKEN)
    assert admission.admit(replace(far, has_tls=True)).is_operator
    assert refused(far)[:2] == (rc.MQRC_NOT_AUTHORIZED, "AMQ5540E")


@pytest.mark.parametrize("password", ["", "wrong", TOKEN + " ", "ä"])
def test_nobody_comes_in_without_a_channel_and_without_the_token(
    qm: mayfly.QueueManager, admission: Admission, password: str
) -> None:
    applicant = Applicant(queue_manager="QM1", address="", user="x", password=password)
    with pytest.raises(MQError) as caught:
        admission.admit(applicant)
    assert caught.value.reason == rc.MQRC_NOT_AUTHORIZED
    # Without a token of the server none is right, an empty one neither.
    other = Admission([qm.engine])
    with pytest.raises(MQError):
        other.admit(applicant)
    other.close()


def test_a_local_connection_with_user_and_password_is_that_user(
    admission: Admission, anna: Applicant, refused: Refuses
) -> None:
    admitted = admission.admit(replace(anna, channel="", address=""))
    assert (admitted.user, admitted.is_operator) == ("anna", False)
    wrong = replace(anna, channel="", address="", password="hunter2")
    assert refused(wrong)[:2] == (2035, "AMQ5534E")


def test_an_unknown_queue_manager_and_a_stopped_one(
    qm: mayfly.QueueManager, anna: Applicant, refused: Refuses
) -> None:
    assert refused(replace(anna, queue_manager="QM2")) == (
        2058,
        "AMQ9524E",
        "queue manager 'QM2' is not served here",
    )
    qm.crash()
    assert refused(anna)[:2] == (2059, "AMQ9524E")


# Channels


def test_the_terms_are_those_of_the_channel(admission: Admission, anna: Applicant) -> None:
    assert admission.admit(anna) == Admitted(
        user="anna",
        groups=("staff",),
        is_operator=False,
        heartbeat_s=20,
        share_conversations=3,
        max_message_bytes=1000,
        max_instances=4,
        max_instances_per_client=2,
    )


def test_a_channel_that_is_not_there_is_2540_and_a_stopped_one_2537(
    qm: mayfly.QueueManager, admission: Admission, anna: Applicant, refused: Refuses
) -> None:
    mqsc(qm, "DEFINE CHANNEL(IN) CHLTYPE(RCVR)", "DEFINE CHANNEL(C) CHLTYPE(CLNTCONN) CONNAME(a)")
    for channel in ("NONE", "IN", "C", "AP*"):
        assert refused(replace(anna, channel=channel))[:2] == (2540, "AMQ9519E"), channel
    mqsc(qm, "STOP CHANNEL(APP)")
    assert refused(anna) == (2537, "AMQ9558E", "channel APP is stopped")
    mqsc(qm, "START CHANNEL(APP)")
    assert admission.admit(anna).user == "anna"


def test_a_TLS_channel_asks_for_TLS_and_a_certificate_of_its_SSLPEER(
    qm: mayfly.QueueManager, admission: Admission, anna: Applicant, refused: Refuses
) -> None:
    plain = replace(anna, channel="TLS", address=FAR)
    tls = replace(plain, has_tls=True)
    shown = replace(tls, certificate_subject="CN=app,O=Example", certificate_issuer="CN=ca")
    assert refused(plain)[:2] == (2393, "AMQ9639E")
    assert refused(tls)[:2] == (2393, "AMQ9637E")
    assert refused(replace(shown, certificate_subject="O=Other"))[:2] == (2393, "AMQ9636E")
    assert admission.admit(shown).user == "anna"
    mqsc(qm, "ALTER CHANNEL(TLS) CHLTYPE(SVRCONN) SSLCAUTH(OPTIONAL) SSLPEER('')")
    assert admission.admit(tls).user == "anna"


# Rules


def test_a_blocked_address_is_2059_and_logged(
    qm: mayfly.QueueManager, anna: Applicant, refused: Refuses
) -> None:
    mqsc(qm, "SET CHLAUTH(*) TYPE(BLOCKADDR) ADDRLIST('192.0.2.*')")
    far = replace(anna, address=FAR, has_tls=True)
    assert refused(far) == (
        2059,
        "AMQ9778E",
        "the address is blocked by CHLAUTH(*) TYPE(BLOCKADDR)",
    )


def test_NOACCESS_is_2035_before_a_password_is_looked_at(
    qm: mayfly.QueueManager, anna: Applicant, refused: Refuses
) -> None:
    mqsc(qm, "SET CHLAUTH(APP) TYPE(ADDRESSMAP) ADDRESS('127.*') USERSRC(NOACCESS)")
    wrong = replace(anna, password="hunter2")
    said = "the partner has no access by CHLAUTH(APP) TYPE(ADDRESSMAP) ADDRESS(127.*)"
    assert refused(wrong) == (2035, "AMQ9777E", said)
    mqsc(qm, "DEFINE CHANNEL(SYSTEM.X) CHLTYPE(SVRCONN)")
    assert refused(replace(anna, channel="SYSTEM.X"))[:2] == (2035, "AMQ9777E")


def test_WARN_YES_lets_in_what_the_rule_refuses_and_logs_it(
    qm: mayfly.QueueManager,
    admission: Admission,
    anna: Applicant,
    caplog: pytest.LogCaptureFixture,
) -> None:
    mqsc(qm, "SET CHLAUTH(APP) TYPE(ADDRESSMAP) ADDRESS(*) USERSRC(NOACCESS) WARN(YES)")
    assert admission.admit(anna).user == "anna"
    [record] = [r for r in caplog.records if r.name == "mayfly.security"]
    assert vars(record)["amq"] == "AMQ9777E"
    assert "let in by WARN(YES)" in record.getMessage()


def test_a_map_goes_before_the_user_with_a_password_that_before_MCAUSER(
    qm: mayfly.QueueManager, admission: Admission, anna: Applicant
) -> None:
    mqsc(qm, "ALTER CHANNEL(APP) CHLTYPE(SVRCONN) MCAUSER('app')")
    assert admission.admit(anna).user == "anna"
    mqsc(qm, "ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) ADOPTCTX(NO)")
    admitted = admission.admit(anna)
    assert (admitted.user, admitted.groups) == ("app", ())
    mqsc(qm, "ALTER CHANNEL(APP) CHLTYPE(SVRCONN) MCAUSER('')")
    assert admission.admit(anna).user == "anna"
    users_of(qm.engine).add("mapped", "x", ["few"])
    mqsc(
        qm,
        "ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) ADOPTCTX(YES)",
        "SET CHLAUTH(APP) TYPE(USERMAP) CLNTUSER('anna') MCAUSER('mapped')",
    )
    admitted = admission.admit(anna)
    assert (admitted.user, admitted.groups) == ("mapped", ("few",))


def test_a_certificate_is_mapped_to_a_user_where_no_password_is_needed(
    qm: mayfly.QueueManager, admission: Admission, refused: Refuses
) -> None:
    mqsc(qm, "SET CHLAUTH(TLS) TYPE(SSLPEERMAP) SSLPEER('CN=app*') MCAUSER('app')")
    applicant = Applicant(
        queue_manager="QM1",
        address=FAR,
        channel="TLS",
        has_tls=True,
        certificate_subject="CN=app7,O=Example",
        certificate_issuer="CN=ca",
    )
    assert refused(applicant)[:2] == (2035, "AMQ5540E")
    mqsc(qm, "ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) CHCKCLNT(OPTIONAL)")
    assert admission.admit(applicant).user == "app"
    # Who is of no map, and names no user, is nobody.
    other = replace(applicant, certificate_subject="CN=x,O=Example")
    assert refused(other)[:2] == (2035, "AMQ9777E")


def test_an_administrator_is_kept_out_unless_a_channel_says_otherwise(
    qm: mayfly.QueueManager, admission: Admission, refused: Refuses
) -> None:
    users_of(qm.engine).add("boss", "pw", ["mqm"])
    users_of(qm.engine).add("root", "pw")
    for user in ("boss", "root"):
        boss = Applicant(queue_manager="QM1", address=HERE, channel="APP", user=user, password="pw")
        said = f"user {user} is blocked by CHLAUTH(*) TYPE(BLOCKUSER)"
        assert refused(boss) == (2035, "AMQ9776E", said)
        mqsc(qm, "DEFINE CHANNEL(ADMIN) CHLTYPE(SVRCONN) REPLACE")
        mqsc(qm, "SET CHLAUTH(ADMIN) TYPE(BLOCKUSER) USERLIST('nobody') ACTION(REPLACE)")
        admitted = admission.admit(replace(boss, channel="ADMIN"))
        assert (admitted.user, admitted.is_operator) == (user, True)


def test_CHLAUTH_DISABLED_asks_for_the_password_alone(
    qm: mayfly.QueueManager, admission: Admission, anna: Applicant, refused: Refuses
) -> None:
    mqsc(qm, "SET CHLAUTH(APP) TYPE(ADDRESSMAP) ADDRESS(*) USERSRC(NOACCESS)")
    mqsc(qm, "ALTER QMGR CHLAUTH(DISABLED)")
    assert admission.admit(anna).user == "anna"
    assert refused(replace(anna, password="x"))[:2] == (2035, "AMQ5534E")


# Passwords


def test_a_fresh_queue_manager_lets_nobody_in(
    qm: mayfly.QueueManager, admission: Admission, refused: Refuses
) -> None:
    for user, password in (
        ("", ""),
        ("anna", ""),
        ("anna", "pwd42"),
        ("mqm", "pwd42"),
        ("root", ""),
    ):
        applicant = Applicant(
            queue_manager="QM1", address=HERE, channel="APP", user=user, password=password
        )
        assert refused(applicant)[0] == 2035, user


def test_nobody_but_administrators_comes_in_while_authority_is_not_checked(
    qm: mayfly.QueueManager, admission: Admission, anna: Applicant, refused: Refuses
) -> None:
    assert admission.admit(anna).user == "anna"
    mqsc(qm, "ALTER QMGR AUTHCHK(NONE)")
    said = "AUTHCHK(NONE): no SET AUTHREC says yet what user anna may do"
    assert refused(anna) == (2035, "AMQ8077E", said)
    assert refused(replace(anna, channel="", address="")) == (2035, "AMQ8077E", said)
    users_of(qm.engine).change("anna", groups=["mqm"])
    mqsc(qm, "SET CHLAUTH(APP) TYPE(BLOCKUSER) USERLIST('nobody')")
    assert admission.admit(anna).is_operator


def test_wrong_and_missing_passwords_are_2035_with_their_own_numbers(
    anna: Applicant, refused: Refuses
) -> None:
    said = "user 'anna' is unknown, or the password is wrong"
    assert refused(replace(anna, password="Secret")) == (2035, "AMQ5534E", said)
    assert refused(replace(anna, user="bob"))[:2] == (2035, "AMQ5534E")
    assert refused(replace(anna, password=""))[:2] == (2035, "AMQ5540E")
    assert refused(replace(anna, user=""))[:2] == (2035, "AMQ5540E")


def test_a_password_from_another_machine_needs_TLS_and_is_not_looked_at_before(
    admission: Admission, anna: Applicant, refused: Refuses
) -> None:
    far = replace(anna, address=FAR)
    said = "the password came from another machine without TLS"
    for _ in range(20):
        assert refused(far) == (2035, "AMQ5534E", said)
    assert admission.admit(replace(far, has_tls=True)).user == "anna"


@pytest.mark.parametrize(
    ("check", "without", "boss_without", "wrong"),
    [
        ("NONE", True, True, True),
        ("OPTIONAL", True, True, False),
        ("REQDADM", True, False, False),
        ("REQUIRED", False, False, False),
    ],
)
def test_CHCKCLNT_says_who_needs_a_password(
    qm: mayfly.QueueManager,
    admission: Admission,
    anna: Applicant,
    *,
    check: str,
    without: bool,
    boss_without: bool,
    wrong: bool,
) -> None:
    users_of(qm.engine).add("boss", "pw", ["mqm"])
    mqsc(
        qm,
        f"ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) CHCKCLNT({check})",
        "SET CHLAUTH(*) TYPE(BLOCKUSER) ACTION(REMOVEALL)",
    )

    def comes_in(applicant: Applicant) -> bool:
        error = admission.submit(applicant).exception()
        if isinstance(error, MQError):
            assert error.reason == rc.MQRC_NOT_AUTHORIZED
        return error is None

    assert comes_in(anna)
    assert comes_in(replace(anna, password="")) is without
    assert comes_in(replace(anna, password="no")) is wrong
    # REQDADM looks at the names of administrators: mqm, and the opener of the queue manager.
    for user in ("mqm", "root"):
        assert comes_in(replace(anna, user=user, password="")) is boss_without


def test_CHCKCLNT_of_a_rule_goes_before_that_of_CONNAUTH(
    qm: mayfly.QueueManager, admission: Admission, anna: Applicant, refused: Refuses
) -> None:
    mqsc(qm, "ALTER QMGR CONNAUTH('')")
    without = replace(anna, password="")
    assert admission.admit(without).user == "anna"
    mqsc(qm, "ALTER QMGR CONNAUTH(SYSTEM.DEFAULT.AUTHINFO.IDPWOS)")
    mqsc(qm, "ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) CHCKCLNT(OPTIONAL)")
    assert admission.admit(without).user == "anna"
    mqsc(qm, "SET CHLAUTH(APP) TYPE(ADDRESSMAP) ADDRESS(*) USERSRC(CHANNEL) CHCKCLNT(REQUIRED)")
    assert refused(without)[:2] == (2035, "AMQ5540E")
    mqsc(qm, "ALTER QMGR CONNAUTH(NONE.SUCH)")
    assert refused(anna)[2] == "CONNAUTH names NONE.SUCH, which is not defined"
    for word in ("OCSP", "CRLLDAP"):
        mqsc(qm, f"DEFINE AUTHINFO({word}) AUTHTYPE({word})", f"ALTER QMGR CONNAUTH({word})")
        said = f"CONNAUTH names {word}, which does not say how passwords are checked"
        assert refused(anna)[2] == said


@pytest.mark.usefixtures("costly_passwords")
def test_a_right_password_is_remembered_for_minutes_until_it_changes(
    qm: mayfly.QueueManager, admission: Admission, anna: Applicant, clock: VirtualClock
) -> None:
    def is_remembered() -> bool:
        # What is remembered is decided in the caller's thread, without argon2.
        answer = admission.submit(anna)
        is_done = answer.done()
        assert answer.result().user == "anna"
        return is_done

    assert not is_remembered()
    assert is_remembered()
    clock.advance(REMEMBERED_MS - 1)
    assert is_remembered()
    clock.advance(1)
    assert not is_remembered()
    assert is_remembered()
    mqsc(qm, "REFRESH SECURITY TYPE(CONNAUTH)")
    assert not is_remembered()
    users_of(qm.engine).change("anna", password="other")
    with pytest.raises(MQError):
        admission.admit(anna)
    users_of(qm.engine).change("anna", password="secret")
    # The same password with another salt.
    assert not is_remembered()
    users_of(qm.engine).remove("anna")
    with pytest.raises(MQError):
        admission.admit(anna)


@pytest.mark.slow
def test_wrong_passwords_close_an_address_for_longer_and_longer(
    admission: Admission, anna: Applicant, refused: Refuses, clock: VirtualClock
) -> None:
    far = replace(anna, address=FAR, has_tls=True)
    wrong = replace(far, user="nobody", password="hunter2")
    closed = "too many wrong passwords: closed for {} s"
    for _ in range(5):
        assert "unknown" in refused(wrong)[2]
    for seconds in (1, 2, 4, 8, 16, 32, 60, 60):
        assert refused(wrong)[2] == closed.format(seconds)
        # Nobody comes in from there, with the right password neither; from elsewhere all do.
        assert refused(far)[2] == closed.format(seconds)
        assert admission.admit(anna).user == "anna"
        assert admission.admit(replace(far, address="192.0.2.8")).user == "anna"
        clock.advance(seconds * 1000)
        assert "unknown" in refused(wrong)[2]
    clock.advance(60_000)
    assert admission.admit(far).user == "anna"


def test_FAILDLAY_keeps_the_answer_back_and_no_thread_with_it(
    qm: mayfly.QueueManager, admission: Admission, anna: Applicant
) -> None:
    mqsc(qm, "ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) FAILDLAY(60)")
    answers = [admission.submit(replace(anna, password=f"no {n}")) for n in range(4)]
    # Both threads are free again while the answers wait.
    assert admission.admit(anna).user == "anna"
    assert not any(answer.done() for answer in answers)
    admission.close()
    for answer in answers:
        with pytest.raises(MQError):
            answer.result(timeout=120)


@pytest.mark.slow
@pytest.mark.usefixtures("costly_passwords")
def test_too_many_passwords_at_a_time_are_refused_with_2537(
    qm: mayfly.QueueManager, anna: Applicant, caplog: pytest.LogCaptureFixture
) -> None:
    admission = Admission([qm.engine])
    answers = [
        admission.submit(replace(anna, address=f"10.0.0.{n}", has_tls=True, password=f"no {n}"))
        for n in range(40)
    ]
    reasons = []
    for answer in answers:
        with pytest.raises(MQError) as caught:
            answer.result()
        reasons.append(caught.value.reason)
    assert reasons[:32] == [2035] * 32
    assert 2537 in reasons[32:]
    assert "AMQ9513E" in [vars(r)["amq"] for r in caplog.records if r.name == "mayfly.security"]
    admission.close()


def test_at_most_two_threads_check_passwords(admission: Admission, anna: Applicant) -> None:
    def checking() -> set[threading.Thread]:
        return {t for t in threading.enumerate() if t.name.startswith("mayfly-password")}

    # Those of tests before this one may still end.
    before = checking()
    answers = [admission.submit(replace(anna, user=f"u{n}")) for n in range(6)]
    assert 1 <= len(checking() - before) <= 2
    # Each is logged, and the log belongs to this test.
    for answer in answers:
        with pytest.raises(MQError):
            answer.result()


# Message channels


def test_a_message_channel_shows_the_token_or_a_certificate_and_may_be_mapped(
    qm: mayfly.QueueManager, admission: Admission, refused: Refuses
) -> None:
    mqsc(qm, "DEFINE CHANNEL(IN) CHLTYPE(RCVR) MCAUSER('rcv')")
    sender = Applicant(
        queue_manager="QM1", address=FAR, channel="IN", sending_manager="QM2", has_tls=True
    )
    assert refused(sender)[:2] == (2035, "AMQ9777E")
    assert admission.admit(replace(sender, password=TOKEN)).user == "rcv"
    shown = replace(sender, certificate_subject="CN=qm2", certificate_issuer="CN=ca")
    mqsc(qm, "SET CHLAUTH(IN) TYPE(QMGRMAP) QMNAME('QM2') MCAUSER('two')")
    assert admission.admit(shown).user == "two"
    mqsc(qm, "SET CHLAUTH(IN) TYPE(QMGRMAP) QMNAME('QM*') USERSRC(NOACCESS)")
    assert refused(replace(shown, sending_manager="QM3"))[:2] == (2035, "AMQ9777E")
    assert refused(replace(shown, channel="APP"))[:2] == (2540, "AMQ9519E")
    # Without MCAUSER its puts are not checked: a certificate alone is that of any program.
    mqsc(qm, "DEFINE CHANNEL(ANY) CHLTYPE(RCVR)", "ALTER QMGR AUTHCHK(NONE)")
    unasked = replace(shown, channel="ANY")
    assert refused(unasked) == (
        2035,
        "AMQ9777E",
        "the certificate counts only with SSLCIPH or SSLPEER of the RCVR, or a map",
    )
    for asked in ("SSLCIPH(ANY_TLS12_OR_HIGHER) SSLPEER('')", "SSLCIPH(' ') SSLPEER('CN=qm2')"):
        mqsc(qm, f"ALTER CHANNEL(ANY) CHLTYPE(RCVR) {asked}")
        admitted = admission.admit(unasked)
        assert (admitted.user, admitted.is_operator) == ("", True)


# Files of users


def test_a_user_is_known_at_once_when_another_process_adds_it(
    tmp_path: Path, clock: VirtualClock
) -> None:
    with mayfly.QueueManager("QM1", tmp_path) as qm:
        assert qm.mqsc(SCRIPT).ok
        admission = Admission([qm.engine], clock=clock)
        applicant = Applicant(
            queue_manager="QM1", address=HERE, channel="APP", user="new", password="pw"
        )
        with pytest.raises(MQError):
            admission.admit(applicant)
        Users(tmp_path).add("new", "pw", ["staff"])
        assert admission.admit(applicant).groups == ("staff",)
        Users(tmp_path).change("new", groups=["other"])
        assert admission.admit(applicant).groups == ("other",)
        Users(tmp_path).remove("new")
        with pytest.raises(MQError):
            admission.admit(applicant)
        admission.close()


def test_nobody_comes_in_while_the_file_of_users_is_damaged(
    tmp_path: Path, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with mayfly.QueueManager("QM1", tmp_path) as qm:
        assert qm.mqsc(SCRIPT).ok
        Users(tmp_path).add("anna", "secret")
        whole = (tmp_path / FILE).read_text()
        admission = Admission([qm.engine], clock=clock)
        anna = Applicant(
            queue_manager="QM1", address=HERE, channel="APP", user="anna", password="secret"
        )
        assert admission.admit(anna).user == "anna"
        (tmp_path / FILE).write_text(whole[:40])
        with pytest.raises(MQError) as caught:
            admission.admit(anna)
        assert caught.value.reason == rc.MQRC_NOT_AUTHORIZED
        assert f"the file of users {tmp_path / FILE} cannot be read" in caplog.text
        (tmp_path / FILE).write_text(whole)
        assert admission.admit(anna).user == "anna"
        admission.close()


# Guesses


def far_away(applicant: Applicant, number: int) -> Applicant:
    """Return an applicant at an address of its own on another machine."""
    return replace(applicant, address=f"198.51.{number // 250}.{number % 250 + 1}", has_tls=True)


@pytest.mark.slow
def test_a_name_is_closed_to_strange_addresses_for_longer_and_longer(
    admission: Admission, anna: Applicant, refused: Refuses, clock: VirtualClock
) -> None:
    """Guessers with many addresses are as slow as one; who has come in before comes in again."""
    home = far_away(anna, 0)
    assert admission.admit(home).user == "anna"
    guess, numbers = replace(anna, password="hunter2"), itertools.count(1)
    closed = "too many wrong passwords: closed for {} s"
    for _ in range(10):
        assert "unknown" in refused(far_away(guess, next(numbers)))[2]
    for seconds in (1, 2, 4, 8, 16, 32, 60, 60):
        assert refused(far_away(guess, next(numbers)))[2] == closed.format(seconds)
        assert refused(far_away(anna, next(numbers)))[2] == closed.format(seconds)
        # The address that has come in before, and this machine, are open.
        assert admission.admit(home).user == "anna"
        assert admission.admit(anna).user == "anna"
        clock.advance(seconds * 1_000)
        assert "unknown" in refused(far_away(guess, next(numbers)))[2]
    clock.advance(60_000)
    assert admission.admit(far_away(anna, next(numbers))).user == "anna"
    # That was one more strange address, and no reason to let guessers begin anew.
    assert "unknown" in refused(far_away(guess, next(numbers)))[2]
    assert refused(far_away(guess, next(numbers)))[2] == closed.format(60)
    clock.advance(60_000 + 15 * 60_000)
    for _ in range(10):
        assert "unknown" in refused(far_away(guess, next(numbers)))[2]
    assert refused(far_away(guess, next(numbers)))[2] == closed.format(1)


@pytest.mark.slow
def test_an_unknown_name_is_closed_as_a_known_one(
    admission: Admission, anna: Applicant, refused: Refuses
) -> None:
    for user in ("anna", "nobody"):
        guess = replace(anna, user=user, password="hunter2")
        for number in range(10):
            assert "unknown" in refused(far_away(guess, number))[2]
        assert "closed for 1 s" in refused(far_away(guess, 10))[2]


def is_kept_back(admission: Admission, applicant: Applicant) -> bool:
    """Return True if the answer waits for FAILDLAY, False if it comes without it."""
    kept_back = admission._delays._waiting
    before = len(kept_back)
    answer = admission.submit(applicant)
    wait_until(lambda: answer.done() or len(kept_back) > before)
    return not answer.done()


@pytest.mark.parametrize(
    ("user", "password"),
    [("nobody", "x"), ("anna", "x"), ("anna", "secret"), ("root", "x"), ("bert", "right")],
)
def test_a_user_who_is_kept_out_by_name_is_answered_when_a_wrong_password_is(
    qm: mayfly.QueueManager, admission: Admission, anna: Applicant, user: str, password: str
) -> None:
    """The time of an answer tells neither which users there are, nor that a password is right."""
    users_of(qm.engine).add("bert", "right", ["staff"])
    mqsc(
        qm,
        "ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) FAILDLAY(60)",
        "SET CHLAUTH(APP) TYPE(USERMAP) CLNTUSER('bert') USERSRC(CHANNEL)",
        "SET CHLAUTH(APP) TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(NOACCESS)",
        "SET CHLAUTH(APP) TYPE(BLOCKUSER) USERLIST('bert')",
    )
    for _ in range(2):
        assert is_kept_back(admission, replace(anna, user=user, password=password))


def test_a_channel_that_is_closed_to_an_address_checks_no_password(
    qm: mayfly.QueueManager, anna: Applicant, refused: Refuses
) -> None:
    """A check takes time: nobody gets one of whom no name would come in."""
    mqsc(
        qm,
        "ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) FAILDLAY(60)",
        "SET CHLAUTH(APP) TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(NOACCESS)",
    )
    assert refused(anna)[:2] == (rc.MQRC_NOT_AUTHORIZED, "AMQ9777E")
