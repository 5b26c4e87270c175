"""Roles: users who look, operate and administer, by their authority on the queue manager."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.admin.mqsc.commands import ACTIONS, heads_of, role_of
from mayfly.admin.pcf.commands import answer
from mayfly.admin.security.roles import Role, admitted_as, roles_of
from mayfly.admin.security.users import users_of
from mayfly.mqi import command_constants as k
from mayfly.mqi import reasons as rc
from mayfly.mqi.pcf import Header, Structure, integer, pack, string, unpack
from mayfly.servers.http.application import OPERATIONS
from tests.connection.serving import AdmitEverybody
from tests.pcf.names import numbers_of
from tests.servers.http.conftest import ADMIN, TOKEN, Answer, Web, listening
from tests.servers.http.rest_client import RestClient, error_of

LENA, OTTO, KARL = ("lena", "looks"), ("otto", "operates"), ("karl", "has no role")
QM1 = "/mayfly/v1/qmgr/QM1"
MQSC = "/ibmmq/rest/v3/admin/action/qmgr/QM1/mqsc"
RECORDS = """
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL(lena) AUTHADD(CONNECT,DSP)
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL(karl) AUTHADD(CONNECT,INQ)
"""
GIVEN = f"""{RECORDS}
SET AUTHREC OBJTYPE(QMGR) GROUP(ops) AUTHADD(CONNECT,CHG)
SET CHLAUTH(DEV.ADMIN.SVRCONN) TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(CHANNEL) CHCKCLNT(REQUIRED)
"""


@pytest.fixture
def web(developed: QueueManager, guarded: Web) -> Web:
    """QM1 with a user who looks, one who operates, and one without a role."""
    users = users_of(developed.engine)
    users.add(*LENA)
    users.add(*OTTO, groups=["ops"])
    users.add(*KARL)
    assert developed.mqsc(GIVEN).ok
    return guarded


@pytest.fixture
def trusting(queue_manager: QueueManager) -> Iterator[Web]:
    """The same users of a queue manager that looks at no password."""
    script = f"""DEFINE QLOCAL(DEV.QUEUE.1)
        DEFINE CHANNEL(DEV.APP.SVRCONN) CHLTYPE(SVRCONN)
        SET AUTHREC OBJTYPE(QMGR) PRINCIPAL(otto) AUTHADD(CONNECT,CHG)
        {RECORDS}"""
    assert queue_manager.mqsc(script).ok
    admission = AdmitEverybody(operators=frozenset({"admin"}))
    for site in listening(queue_manager, admission=admission):
        yield site.web


def refusal(user: tuple[str, str], role: Role) -> str:
    """Return the detail of a refusal."""
    if role is Role.ADMINISTER:
        return f"user {user[0]!r} is no administrator: a member of mqm, or the opener"
    return f"user {user[0]!r} lacks {'DSP' if role is Role.LOOK else 'CHG'} on QMGR QM1"


@pytest.mark.parametrize(
    ("user", "roles"), [(LENA, {Role.LOOK}), (OTTO, {Role.LOOK, Role.OPERATE}), (KARL, set())]
)
def test_an_operation_is_for_users_with_its_role(
    trusting: Web, user: tuple[str, str], roles: set[Role]
) -> None:
    with trusting.connected() as client:
        for one in OPERATIONS:
            if one.role is None:
                continue
            path = one.path.format_map(dict.fromkeys(one.names, "01") | {"qmgr": "QM1"})
            # An answer that never ends is asked for its head.
            is_stream = one.role in roles and one.media_type == "text/event-stream"
            answer = client.ask("HEAD" if is_stream else one.method, path, user=user)
            if one.role in roles:
                assert answer.status not in (401, 403), one.path
            else:
                assert answer.said == (403, refusal(user, one.role), 2035), one.path


@pytest.mark.parametrize("user", [LENA, OTTO, KARL])
def test_a_user_may_do_the_same_by_mqsc_as_by_pcf(
    trusting: Web, queue_manager: QueueManager, user: tuple[str, str]
) -> None:
    engine = queue_manager.engine
    as_user = admitted_as(engine, user[0])

    def reason_of(number: int, *structures: Structure) -> int:
        """Give a PCF command as the user; return the reason code of its answer."""
        body = pack(Header(k.MQCFT_COMMAND, number), structures)
        replies = answer(engine, body, big_endian=False, ccsid=1208, admitted=as_user)
        return unpack(replies[0]).header.reason

    with trusting.connected() as client:
        for verb, kinds in ACTIONS.items():
            for kind in kinds:
                text = f"{verb} {kind}(NONE)"
                body = {"type": "runCommand", "parameters": {"command": text}}
                asked = client.ask("POST", MQSC, body, user=user, ibm_mq_rest_csrf_token="")
                is_refused = role_of(verb, kind) not in roles_of(engine, as_user)
                assert (asked.status == 403) == is_refused, text
                escaped = reason_of(
                    k.MQCMD_ESCAPE,
                    integer(k.MQIACF_ESCAPE_TYPE, k.MQET_MQSC),
                    string(k.MQCACF_ESCAPE_TEXT, text),
                )
                assert (escaped == rc.MQRC_NOT_AUTHORIZED) == is_refused, text
                for number in numbers_of(verb, kind):
                    refused = reason_of(number) == rc.MQRC_NOT_AUTHORIZED
                    assert refused == is_refused, (text, number)


@pytest.mark.slow
def test_D26_the_audit_names_the_operator(web: Web, developed: QueueManager) -> None:
    with developed.session() as session:
        msg_id = session.put("DEV.QUEUE.1", b"x", delay_ms=60_000).hex()
    path = f"{QM1}/schedule/{msg_id}/cancel"
    assert web.ask("POST", path, user=LENA).status == 403
    assert web.ask("POST", path, user=OTTO).content["receipt"] == "cancelled"
    [change] = web.ask("GET", f"{QM1}/schedule/audit", user=LENA).content["changes"]
    assert (change["user"], change["msg_id"]) == ("otto", msg_id)


def test_a_role_ends_with_its_record_and_needs_connect(
    trusting: Web, queue_manager: QueueManager
) -> None:
    with trusting.connected() as client:
        assert client.ask("GET", f"{QM1}/queues", user=LENA).status == 200
        script = "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL(lena) AUTHRMV(CONNECT)"
        assert queue_manager.mqsc(script).ok
        refused = client.ask("GET", f"{QM1}/queues", user=LENA)
        assert refused.said == (403, "user 'lena' lacks CONNECT on QMGR QM1", 2035)


@pytest.mark.slow
def test_a_login_tells_the_roles(web: Web) -> None:
    """A user with a role logs in by the channel for administrators, a program by its own."""
    for user, roles in (
        (LENA, ["MQWebAdminRO"]),
        (OTTO, ["MQWebAdminRO", "MayflyOperator"]),
        (KARL, ["MQWebUser"]),
        (ADMIN, ["MQWebAdmin"]),
    ):
        given = {"username": user[0], "password": user[1]}
        begun = web.ask("POST", "/ibmmq/rest/v3/login", given, user=None)
        assert begun.status == 204
        cookie = begun.headers["set-cookie"].partition(";")[0]
        [told] = web.ask("GET", "/ibmmq/rest/v3/login", user=None, cookie=cookie).content["user"]
        assert (told["name"], told["role"]) == (user[0], roles)
        listed = web.ask("GET", f"{QM1}/queues", user=None, cookie=cookie)
        assert listed.status == (200 if roles[0].startswith("MQWebAdmin") else 403)


# MQSC


def run(web: Web, user: tuple[str, str], command: str) -> Answer:
    asked = {"type": "runCommand", "parameters": {"command": command}}
    path = "/ibmmq/rest/v3/admin/action/qmgr/QM1/mqsc"
    return web.ask("POST", path, asked, user=user, ibm_mq_rest_csrf_token="")


@pytest.mark.parametrize(
    ("user", "command", "missing"),
    [
        (LENA, "DISPLAY QLOCAL(*)", None),
        (LENA, "dis ql(*)\n* a comment\nPING QMGR\nEND\nSTOP CHANNEL(X)", None),
        (LENA, "DISPLAYS QLOCAL(*)", Role.ADMINISTER),
        (LENA, "DISPLAY (", None),
        (LENA, "STOP CHANNEL(DEV.APP.SVRCONN)", Role.OPERATE),
        (LENA, "DISPLAY QMGR\nALTER QMGR DESCR(mine)", Role.ADMINISTER),
        (LENA, "ALT+\nER QMGR DESCR(mine)", Role.ADMINISTER),
        (OTTO, "STOP CHANNEL(DEV.APP.SVRCONN)\nSTA CHL(DEV.APP.SVRCONN)", None),
        (OTTO, "STOP CHANNEL(DEV.APP.SVRCONN)\nSTOP CONN(0000000000000007)", None),
        (OTTO, "RESET CHL(X) SEQNUM(1)\nRESOLVE CHL(X) ACTION(COMMIT)", None),
        (OTTO, "RESET SETTING(X)", Role.ADMINISTER),
        (OTTO, "DISPLAY QMGR", None),
        (OTTO, "CLEAR QLOCAL(DEV.QUEUE.1)", Role.ADMINISTER),
        (KARL, "DISPLAY QMGR", Role.LOOK),
        (ADMIN, "ALTER QMGR DESCR(mine)\nDISPLAY QMGR\nSTART CHANNEL(DEV.APP.SVRCONN)", None),
    ],
)
def test_a_verb_of_mqsc_needs_its_role(
    trusting: Web,
    queue_manager: QueueManager,
    user: tuple[str, str],
    command: str,
    missing: Role | None,
) -> None:
    """A script of which one command is refused runs none of its commands."""
    answer = run(trusting, user, command)
    if missing is None:
        assert answer.status == 200
        return
    said = f"MQRC_NOT_AUTHORIZED (2035): {refusal(user, missing)}"
    assert error_of(answer) == (403, "MQWB0103E", 2035, said)
    assert queue_manager.mqsc("DISPLAY QMGR DESCR").rows[0]["DESCR"] == ""


def test_a_command_in_json_needs_the_role_of_its_verb(trusting: Web) -> None:
    web, rest = trusting, RestClient(trusting, user=LENA)
    path = f"{rest.base}/admin/action/qmgr/QM1/mqsc"
    asked = {"type": "runCommandJSON", "command": "display", "qualifier": "qmgr"}
    csrf = {"ibm_mq_rest_csrf_token": ""}
    assert web.ask("POST", path, asked, user=LENA, **csrf).status == 200
    altering = asked | {"command": "alter", "parameters": {"descr": "mine"}}
    assert error_of(web.ask("POST", path, altering, user=LENA, **csrf))[0] == 403


def test_the_operators_token_has_every_role(web: Web) -> None:
    answer = web.ask("GET", f"{QM1}/queues", user=None, authorization=f"Bearer {TOKEN}")
    assert answer.status == 200
    assert web.ask("GET", f"{QM1}/queues", user=None, authorization="Bearer x").status == 401


@pytest.mark.parametrize(
    ("script", "heads"),
    [
        ("", set()),
        ("* DELETE QLOCAL(Q1)", set()),
        ("DEF QL(Q1)\nALT QL(Q1) GET(DISABLED)", {("DEFINE", "QLOCAL"), ("ALTER", "QLOCAL")}),
        ("DIS QL('a + b')\nEND\nDELETE QL(Q1)", {("DISPLAY", "QLOCAL")}),
        ("DEL+\nETE QLOCAL(Q1)", {("DELETE", "QLOCAL")}),
        ("DISPLAY QMGR; ALTER QMGR DESCR(x)", set()),
        ("NONSENSE QMGR", {("NONSENSE", "QMGR")}),
    ],
)
def test_the_heads_of_a_script_are_those_that_it_would_run(
    script: str, heads: set[tuple[str, str]]
) -> None:
    assert heads_of(script) == heads
