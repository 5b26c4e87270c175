"""Who comes in to IBM's REST API: passwords, logins with a cookie, certificates, authority."""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.cookies import SimpleCookie
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.admin.security.admission import Admission
from mayfly.admin.security.developer import DEFINITIONS, self_signed_certificate
from mayfly.admin.security.users import users_of
from mayfly.runtime import SystemClock
from mayfly.servers.http.connection import CACHE_SECONDS
from mayfly.servers.http.service import LIFE_SECONDS, MAX_OF_A_USER, Logins, Mechanism
from mayfly.servers.settings import TlsFiles
from mayfly.testing import VirtualClock
from tests.connection.serving import AdmitEverybody
from tests.facts import wait_until
from tests.servers.certificates import certificate_of
from tests.servers.http.conftest import ADMIN, APP, TOKEN, Answer, Web, listening
from tests.servers.http.rest_client import RestClient, error_of

QUEUE = "DEV.QUEUE.1"
NO_DELAY = "ALTER AUTHINFO(DEV.AUTHINFO) AUTHTYPE(IDPWOS) FAILDLAY(0)\nREFRESH SECURITY"


@pytest.fixture
def rest(developed: QueueManager, guarded: Web) -> RestClient:
    """User app of a developer's queue manager."""
    assert developed.mqsc(NO_DELAY).ok
    return RestClient(guarded)


def log_in(rest: RestClient, user: str = APP[0], password: str = APP[1]) -> Answer:
    """Log in without the header against CSRF, as IBM's samples do."""
    given = {"username": user, "password": password}
    return rest.web.ask("POST", f"{rest.base}/login", given, user=None)


def cookie_of(answer: Answer) -> str:
    """Return name and value of the cookie that an answer sets."""
    [cookie] = SimpleCookie(answer.headers["set-cookie"]).values()
    return f"{cookie.key}={cookie.value}"


# Passwords


def test_a_program_comes_in_by_its_password(rest: RestClient) -> None:
    assert rest.put(QUEUE, "by password").status == 201
    assert rest.get(QUEUE).content == "by password"


@pytest.mark.parametrize("user", [None, ("app", "guessed"), ("nobody", "x")])
def test_others_do_not(rest: RestClient, user: tuple[str, str] | None) -> None:
    rest.user = user
    answer = rest.put(QUEUE)
    assert error_of(answer)[:3] == (401, "MQWB0104E", 2035)
    assert answer.headers["www-authenticate"].startswith("Basic ")


def test_a_right_password_with_a_rule_against_the_user_says_so(rest: RestClient) -> None:
    """An administrator is kept out of the channel of programs by its rule."""
    rest.user = ADMIN
    status, number, reason, text = error_of(rest.put(QUEUE))
    assert (status, number, reason) == (403, "MQWB0103E", 2035)
    assert "the password is right, but user admin is blocked by CHLAUTH(*)" in text
    rest.user = (ADMIN[0], "guessed")
    status, number, _reason, text = error_of(rest.put(QUEUE))
    assert (status, number) == (401, "MQWB0104E")
    assert "CHLAUTH" not in text


def test_the_operator_comes_in_by_the_token(rest: RestClient) -> None:
    rest.user = None
    assert rest.put(QUEUE, authorization=f"Bearer {TOKEN}").status == 201


def test_2035_is_403_by_the_records_of_the_user(rest: RestClient, developed: QueueManager) -> None:
    assert developed.mqsc("DEFINE QLOCAL(PRIVATE)\nDEFINE TOPIC(T) TOPICSTR(private)").ok
    topic = f"{rest.base}/messaging/qmgr/QM1/topic/private/message"
    for answer in (
        rest.put("PRIVATE"),
        rest.get("PRIVATE"),
        rest.browse("PRIVATE"),
        rest.list("PRIVATE"),
        rest.ask("POST", topic, b"x"),
    ):
        assert error_of(answer)[:3] == (403, "MQWB0103E", 2035)
    assert developed.mqsc(
        "SET AUTHREC PROFILE(PRIVATE) OBJTYPE(QUEUE) GROUP(developers) AUTHADD(PUT)"
    ).ok
    assert rest.put("PRIVATE").status == 201
    assert error_of(rest.get("PRIVATE"))[:3] == (403, "MQWB0103E", 2035)


def test_authority_counts_from_the_next_request_on_an_open_connection(
    rest: RestClient, developed: QueueManager
) -> None:
    with rest.web.connected() as web:
        kept = replace(rest, web=web)
        assert kept.put(QUEUE).status == 201
        assert developed.mqsc(
            "SET AUTHREC PROFILE(DEV.**) OBJTYPE(QUEUE) GROUP(developers) AUTHRMV(PUT)"
        ).ok
        assert error_of(kept.put(QUEUE))[:3] == (403, "MQWB0103E", 2035)


def test_users_on_one_connection_are_kept_apart(queue_manager: QueueManager) -> None:
    """As behind a proxy, which sends requests of many over one connection."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    admission = AdmitEverybody(operators=frozenset({"anna", "bert"}))
    for site in listening(queue_manager, admission=admission):
        with site.web.connected() as web:
            for user in ("anna", "bert", "anna"):
                assert RestClient(web, user=(user, "x")).put("Q1").status == 201
            with queue_manager.session() as session:
                put_by = [message.descriptor.user_identifier for message in session.browse("Q1")]
            assert put_by == ["anna", "bert", "anna"]
            # Each was asked for once: a connection remembers for a few seconds.
            assert CACHE_SECONDS <= 5
            assert [a.user for a in admission.applicants] in (
                ["anna", "bert"],
                ["anna", "bert", "anna"],
            )
            refused = RestClient(web, user=("anna", "wrong")).put("Q1")
            assert error_of(refused)[0] == 401


# The header against CSRF


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_a_change_needs_the_header_whatever_its_value(rest: RestClient, method: str) -> None:
    body = b"x" if method == "POST" else None
    refused = rest.web.ask(method, rest.queue(QUEUE), body, user=APP, content_type="text/plain")
    said = "the header ibm-mq-rest-csrf-token is missing"
    assert error_of(refused) == (403, "MQWB0100E", None, said)
    for value in ("", "blank", "x" * 200):
        answer = rest.ask(method, rest.queue(QUEUE), body, ibm_mq_rest_csrf_token=value)
        assert answer.status < 300


def test_looking_needs_no_header(rest: RestClient) -> None:
    assert rest.web.ask("GET", rest.queue(QUEUE), user=APP).status == 204


# Logins


def test_a_login_goes_on_by_its_cookie_until_the_logout(rest: RestClient) -> None:
    answer = log_in(rest)
    assert (answer.status, answer.content) == (204, "")
    cookie = cookie_of(answer)
    assert answer.headers["set-cookie"] == (
        f"{cookie}; Path=/; Max-Age={LIFE_SECONDS}; HttpOnly; SameSite=Strict"
    )
    assert cookie.startswith("LtpaToken2")
    rest.user = None
    assert rest.put(QUEUE, "by cookie", cookie=cookie).status == 201
    assert rest.get(QUEUE, cookie=cookie).content == "by cookie"
    shown = rest.ask("GET", f"{rest.base}/login", cookie=cookie)
    assert shown.content == {
        "user": [{"name": "app", "role": ["MQWebUser"], "authenticationMechanism": "form"}]
    }
    out = rest.ask("DELETE", f"{rest.base}/login", cookie=cookie)
    assert out.status == 204
    assert f"{cookie.partition('=')[0]}=; Path=/; Max-Age=0;" in out.headers["set-cookie"]
    for refused in (
        rest.put(QUEUE, cookie=cookie),
        rest.ask("GET", f"{rest.base}/login", cookie=cookie),
        rest.ask("DELETE", f"{rest.base}/login", cookie=cookie),
    ):
        assert error_of(refused)[:3] == (401, "MQWB0112E", 2035)


def test_a_cookie_is_not_enough_for_a_change(rest: RestClient) -> None:
    """Nor for the resources that are not IBM's: another site can send a cookie, and no header."""
    cookie = cookie_of(log_in(rest, *ADMIN))
    clock = "/mayfly/v1/clock"
    refused = rest.web.ask("POST", clock, {"advance_ms": 1}, user=None, cookie=cookie)
    assert refused.said == (403, "the header ibm-mq-rest-csrf-token is missing", None)
    assert rest.web.ask("GET", clock, user=None, cookie=cookie).status == 200
    moved = rest.web.ask(
        "POST", clock, {"advance_ms": 1}, user=None, cookie=cookie, ibm_mq_rest_csrf_token=""
    )
    assert moved.status == 200
    refused = rest.web.ask("DELETE", f"{rest.base}/login", user=None, cookie=cookie)
    assert error_of(refused)[:2] == (403, "MQWB0100E")


def test_an_administrator_logs_in_by_the_channel_of_administrators(rest: RestClient) -> None:
    cookie = cookie_of(log_in(rest, *ADMIN))
    rest.user = None
    [user] = rest.ask("GET", f"{rest.base}/login", cookie=cookie).content["user"]
    assert (user["name"], user["role"]) == ("admin", ["MQWebAdmin"])


def test_the_login_shows_whoever_is_there(rest: RestClient) -> None:
    [user] = rest.ask("GET", f"{rest.base}/login").content["user"]
    assert user == {"name": "app", "role": ["MQWebUser"], "authenticationMechanism": "basic"}
    rest.user = None
    assert error_of(rest.ask("GET", f"{rest.base}/login"))[:2] == (401, "MQWB0104E")


@pytest.mark.parametrize("password", ["guessed", ""])
def test_a_wrong_password_logs_nobody_in(rest: RestClient, password: str) -> None:
    answer = log_in(rest, APP[0], password)
    assert error_of(answer)[:3] == (401, "MQWB0104E", 2035)
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]",
        b"x",
        b"[" * 4_000,
        b'{"username": "app"}',
        b'{"username": "app", "password": 1}',
        b'{"username": "app", "password": "x", "more": ""}',
    ],
)
def test_a_login_is_an_object_of_two_texts(rest: RestClient, body: bytes) -> None:
    answer = rest.web.ask("POST", f"{rest.base}/login", body, user=None)
    said = "the body is no JSON object with username and password, two texts"
    assert error_of(answer) == (400, "MQWB0301E", None, said)


def test_a_login_is_json_and_short(rest: RestClient) -> None:
    path = f"{rest.base}/login"
    form = rest.web.ask("POST", path, b"username=app", user=None, content_type="text/plain")
    assert error_of(form)[:2] == (415, "MQWB0306E")
    assert error_of(rest.web.ask("POST", path, b" " * 4_097, user=None))[0] == 413


def test_a_login_ends_with_its_password(rest: RestClient, developed: QueueManager) -> None:
    """A changed password counts, as the next request is checked like the login was."""
    from mayfly.admin.security.users import users_of

    cookie = cookie_of(log_in(rest))
    users_of(developed.engine).change(APP[0], password="another one")
    rest.user = None
    assert error_of(rest.put(QUEUE, cookie=cookie))[0] == 401


def test_a_login_lasts_for_two_hours() -> None:
    clock = VirtualClock()
    logins = Logins(clock.now_ms)
    token = logins.begin("anna", "gehëim")
    clock.advance(LIFE_SECONDS * 1_000 - 1)
    found = logins.find(token)
    assert found is not None
    assert (found.mechanism, found.user, found.password) == (Mechanism.FORM, "anna", "gehëim")
    clock.advance(1)
    assert logins.find(token) is None
    assert logins.find("guessed") is None


def test_the_oldest_of_too_many_logins_of_a_user_ends_and_nobody_elses() -> None:
    logins = Logins(VirtualClock().now_ms)
    other = logins.begin("bert", "x")
    tokens = [logins.begin("anna", "x") for _ in range(10_001)]
    assert logins.find(other)
    known = [token for token in tokens if logins.find(token)]
    assert known == tokens[-MAX_OF_A_USER:]
    logins.end(known[0])
    assert logins.begin("anna", "x")
    assert logins.find(known[1])


def test_a_login_that_is_over_takes_no_room() -> None:
    clock = VirtualClock()
    logins = Logins(clock.now_ms)
    for _ in range(MAX_OF_A_USER - 1):
        logins.begin("anna", "x")
    clock.advance(LIFE_SECONDS * 1_000 - 1)
    kept = logins.begin("anna", "x")
    clock.advance(1)
    for _ in range(MAX_OF_A_USER - 1):
        logins.begin("anna", "x")
    assert logins.find(kept)


#: Users by what they may do, and passwords: which of these there are is nobody's business.
GUESSES = (
    ("nobody", "x"),
    ("bare", "x"),
    ("looker", "x"),
    ("admin", "x"),
    ("app", "x"),
    # Right, of a user whom the channel of administrators keeps out.
    ("looker", "right"),
)


class Refusal:
    """A login that is being asked for, on a thread of its own."""

    def __init__(self, web: Web, user: str, password: str) -> None:
        self.answers: list[Answer] = []
        self._asked = RestClient(web), user, password
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        self.answers.append(log_in(*self._asked))

    def is_kept_back(self, admission: Admission, count: int) -> bool:
        """Return True if so many answers wait for FAILDLAY, False if this one comes without it."""
        kept_back = admission._delays._waiting
        wait_until(lambda: self.answers or len(kept_back) == count)
        return not self.answers

    def told(self) -> tuple[int, str]:
        self._thread.join()
        [answer] = self.answers
        return answer.status, str(answer.content)


@pytest.mark.slow
def test_a_login_is_refused_after_the_same_time_whoever_it_is(
    developed: QueueManager, guarded: Web, admission: Admission
) -> None:
    for name, groups in (("bare", []), ("looker", ["lookers"])):
        users_of(developed.engine).add(name, "right", groups)
    assert developed.mqsc(
        "SET AUTHREC OBJTYPE(QMGR) GROUP(lookers) AUTHADD(CONNECT,DSP)\n"
        "ALTER AUTHINFO(DEV.AUTHINFO) AUTHTYPE(IDPWOS) FAILDLAY(60)\nREFRESH SECURITY"
    ).ok
    refusals = []
    for user, password in GUESSES:
        refusals.append(Refusal(guarded, user, password))
        assert refusals[-1].is_kept_back(admission, len(refusals)), (user, password)
    admission.close()
    [told] = {refusal.told() for refusal in refusals}
    assert told[0] == 401


@pytest.mark.slow
def test_a_user_of_two_queue_managers_is_refused_as_soon_as_one_of_none() -> None:
    with QueueManager("QM1") as one, QueueManager("QM2") as other:
        for manager in (one, other):
            assert manager.mqsc(DEFINITIONS).ok
            users_of(manager.engine).add("anna", "right", ["developers"])
        admission = Admission([one.engine, other.engine])
        for site in listening(one, other, admission=admission):
            refusal = Refusal(site.web, "anna", "x")
            # Both are asked at once, not one behind the other.
            assert refusal.is_kept_back(admission, 2)
            admission.close()
            assert refusal.told()[0] == 401


def test_neither_token_nor_password_can_be_read_in_what_is_kept() -> None:
    logins = Logins(VirtualClock().now_ms)
    token = logins.begin("anna", "a secret password")
    kept = repr(vars(logins))
    assert "anna" in kept
    assert token not in kept
    assert "secret" not in kept


def test_guessing_closes_the_door_for_logins_as_well(
    rest: RestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "mayfly.security"):
        for _ in range(6):
            assert log_in(rest, APP[0], "guessed").status == 401
        assert log_in(rest).status == 401
    assert "too many wrong passwords: closed for" in caplog.text


def test_no_secret_is_logged(rest: RestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        cookie = cookie_of(log_in(rest))
        log_in(rest, "app", "guessed-secret")
        rest.user = None
        rest.put(QUEUE, cookie=cookie)
        rest.put(QUEUE, cookie=f"{cookie}x")
        rest.put(QUEUE, authorization="Bearer guessed-token")
    assert "AMQ5534E" in caplog.text
    for secret in (APP[1], cookie.partition("=")[2], "guessed-secret", "guessed-token"):
        assert secret not in caplog.text


# TLS and certificates


@pytest.fixture
def tls(tmp_path: Path) -> TlsFiles:
    files = self_signed_certificate(tmp_path, ["127.0.0.1"], SystemClock().now_ms())
    client = certificate_of(tmp_path / "client.pem", CN="anna", O="Shop")
    return TlsFiles(*files, client)


@pytest.fixture
def secure(developed: QueueManager, admission: Admission, tls: TlsFiles) -> Iterator[Web]:
    assert developed.mqsc(
        NO_DELAY + "\nSET CHLAUTH(DEV.APP.SVRCONN) TYPE(SSLPEERMAP) SSLPEER('CN=anna,O=Shop') "
        "USERSRC(MAP) MCAUSER(app) CHCKCLNT(ASQMGR)"
    ).ok
    for site in listening(developed, admission=admission, tls=tls):
        site.web.tls = ssl.create_default_context(cafile=tls.certificate)
        yield site.web


def test_a_cookie_of_tls_is_for_tls_alone(secure: Web) -> None:
    assert log_in(RestClient(secure)).headers["set-cookie"].endswith("; SameSite=Strict; Secure")


def test_a_program_comes_in_by_its_certificate(secure: Web, tls: TlsFiles) -> None:
    rest = RestClient(secure, user=None)
    assert error_of(rest.put(QUEUE))[:2] == (401, "MQWB0104E")
    assert secure.tls is not None
    assert tls.client_roots is not None
    secure.tls.load_cert_chain(tls.client_roots)
    assert rest.put(QUEUE, "by certificate").status == 201
    assert rest.get(QUEUE).content == "by certificate"
    [user] = rest.ask("GET", f"{rest.base}/login").content["user"]
    assert (user["name"], user["authenticationMechanism"]) == ("app", "clientCertificate")
