"""Channels between clients and a queue manager: SVRCONN, CLNTCONN, and the table of clients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import mayfly
from mayfly import admin
from mayfly.client.connection.ccdt import read_table
from mayfly.client.connection.endpoint import Address, Reconnect
from mayfly.mqi.constants import MQCHT_CLNTCONN, MQCHT_SVRCONN


@pytest.fixture
def qm() -> Iterator[mayfly.QueueManager]:
    with mayfly.QueueManager("QM1") as manager:
        yield manager


def done(qm: mayfly.QueueManager, *commands: str) -> list[dict[str, int | str]]:
    result = qm.mqsc("\n".join(commands))
    assert result.ok, result.text
    return result.rows


def test_a_new_queue_manager_has_models_of_both_types_and_a_check_of_passwords(
    qm: mayfly.QueueManager,
) -> None:
    [client, _] = done(qm, "DISPLAY CHANNEL(*)")
    assert (client["CHANNEL"], client["CHLTYPE"]) == ("SYSTEM.DEF.CLNTCONN", "CLNTCONN")
    [server] = done(qm, "DISPLAY CHANNEL(SYSTEM.DEF.SVRCONN)")
    assert server == {
        "CHANNEL": "SYSTEM.DEF.SVRCONN",
        "CHLTYPE": "SVRCONN",
        "DESCR": "",
        "TRPTYPE": "TCP",
        "SSLCIPH": "",
        "SSLCAUTH": "REQUIRED",
        "SSLPEER": "",
        "DISCINT": 0,
        "HBINT": 300,
        "MAXMSGL": 4_194_304,
        "MCAUSER": "",
        "SHARECNV": 10,
        "MAXINST": 999_999_999,
        "MAXINSTC": 999_999_999,
    }
    [authentication] = done(qm, "DISPLAY AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS)")
    assert authentication == {
        "AUTHINFO": "SYSTEM.DEFAULT.AUTHINFO.IDPWOS",
        "AUTHTYPE": "IDPWOS",
        "DESCR": "",
        "CHCKCLNT": "REQUIRED",
        "CHCKLOCL": "OPTIONAL",
        "ADOPTCTX": "YES",
        "FAILDLAY": 1,
    }
    assert done(qm, "DISPLAY QMGR CHLAUTH CONNAUTH") == [
        {
            "QMNAME": "QM1",
            "CHLAUTH": "ENABLED",
            "CONNAUTH": "SYSTEM.DEFAULT.AUTHINFO.IDPWOS",
        }
    ]


def test_a_client_channel_may_be_called_as_the_one_it_leads_to(qm: mayfly.QueueManager) -> None:
    done(
        qm,
        "DEFINE CHANNEL(APP) CHLTYPE(SVRCONN) TRPTYPE(TCP) MCAUSER('app') MAXINST(5) MAXINSTC(2)",
        "DEFINE CHANNEL(APP) CHLTYPE(CLNTCONN) CONNAME('mq1(1415)') QMNAME(QM1) CLNTWGHT(3)",
    )
    rows = done(qm, "DISPLAY CHANNEL(APP) CHLTYPE MCAUSER MAXINST CONNAME")
    assert rows == [
        {"CHANNEL": "APP", "CHLTYPE": "SVRCONN", "MCAUSER": "app", "MAXINST": 5},
        {"CHANNEL": "APP", "CHLTYPE": "CLNTCONN", "CONNAME": "mq1(1415)"},
    ]
    assert done(qm, "DISPLAY CHANNEL(A*) TYPE(CLNTCONN)") == [
        {"CHANNEL": "APP", "CHLTYPE": "CLNTCONN"}
    ]
    done(qm, "ALTER CHANNEL(APP) CHLTYPE(CLNTCONN) AFFINITY(NONE)")
    done(qm, "ALTER CHANNEL(APP) CHLTYPE(SVRCONN) HBINT(60)")
    done(qm, "DELETE CHANNEL(APP)")
    assert [r["CHLTYPE"] for r in done(qm, "DISPLAY CHANNEL(APP)")] == ["CLNTCONN"]
    assert qm.mqsc("DELETE CHANNEL(APP)").codes == ["AMQ8147E"]
    done(qm, "DELETE CHANNEL(APP) CHLTABLE(CLNTTAB)")
    assert qm.mqsc("DISPLAY CHANNEL(APP)").codes == ["AMQ8147E"]


def test_a_new_channel_is_like_the_model_of_its_type(qm: mayfly.QueueManager) -> None:
    done(
        qm,
        "ALTER CHANNEL(SYSTEM.DEF.SVRCONN) CHLTYPE(SVRCONN) SHARECNV(1) HBINT(30)",
        "DEFINE CHANNEL(APP) CHLTYPE(SVRCONN) HBINT(20)",
        "DEFINE CHANNEL(OTHER) CHLTYPE(SVRCONN) LIKE(APP) DESCR('x')",
    )
    assert [(r["SHARECNV"], r["HBINT"]) for r in done(qm, "DIS CHANNEL(APP)")] == [(1, 20)]
    assert [(r["SHARECNV"], r["HBINT"]) for r in done(qm, "DIS CHANNEL(OTHER)")] == [(1, 20)]
    done(qm, "DEFINE CHANNEL(APP) CHLTYPE(SVRCONN) DESCR('new') REPLACE")
    assert [(r["HBINT"], r["DESCR"]) for r in done(qm, "DIS CHANNEL(APP)")] == [(20, "new")]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("DEFINE CHANNEL(C) CHLTYPE(SVRCONN) XMITQ(Q)", "not a keyword of CHANNEL CHLTYPE(SVRCO"),
        ("DEFINE CHANNEL(C) CHLTYPE(SDR) MAXINST(1)", "not a keyword of CHANNEL CHLTYPE(SDR)"),
        ("DEFINE CHANNEL(C) CHLTYPE(CLNTCONN) MAXINST(1)", "MAXINST is not a keyword of CLNTCONN"),
        ("DEFINE CHANNEL(C) CHLTYPE(SVRCONN) CLNTWGHT(1)", "CLNTWGHT is not a keyword of CHANNEL"),
        ("DEFINE CHANNEL(C) CHLTYPE(CLNTCONN)", "CONNAME is missing: a client needs it"),
        ("DEFINE CHANNEL(C) CHLTYPE(CLNTCONN) CONNAME('a(0)')", "port 0 is not 1 to 65535"),
        ("DEFINE CHANNEL(C) CHLTYPE(SVRCONN) TRPTYPE(LOCAL)", "TRPTYPE must be TCP"),
        ("DEFINE CHANNEL(C) CHLTYPE(SVRCONN) SSLCIPH(RC4)", "blank or ANY_TLS12_OR_HIGHER"),
        ("DEFINE CHANNEL(C) CHLTYPE(SVRCONN) SSLPEER('app')", "'app' is no attribute of a dist"),
        ("DEFINE CHANNEL(C) CHLTYPE(CLNTCONN) CLNTWGHT(100) CONNAME(a)", "from 0 to 99"),
        ("DEFINE CLNTCONN(C) CONNAME(a)", "DEFINE knows"),
        ("DISPLAY CHANNEL(*) TYPE(CLUS)", "it must be ALL or SDR"),
        ("DELETE CHANNEL(C) CHLTABLE(OTHER)", "it must be QMGRTAB or CLNTTAB"),
        ("DEFINE AUTHINFO(A) CHCKCLNT(NONE)", "AUTHTYPE is missing: IDPWOS"),
        ("DEFINE AUTHINFO(A) AUTHTYPE(PAM)", "it must be IDPWOS or CRLLDAP"),
        ("DEFINE AUTHINFO(A) AUTHTYPE(IDPWOS) FAILDLAY(61)", "a number from 0 to 60"),
    ],
)
def test_wrong_commands_name_what_is_wrong(
    qm: mayfly.QueueManager, command: str, said: str
) -> None:
    result = qm.mqsc(command)
    assert result.codes == ["AMQ8405E"]
    assert said in result.text
    assert qm.mqsc("DISPLAY CHANNEL(C)").codes == ["AMQ8147E"]


def test_the_check_that_CONNAUTH_names_is_not_deleted(qm: mayfly.QueueManager) -> None:
    done(qm, "DEFINE AUTHINFO(MINE) AUTHTYPE(IDPWOS) CHCKCLNT(OPTIONAL) REPLACE")
    [row] = done(qm, "DISPLAY AUTHINFO(MINE) CHCKCLNT ADOPTCTX")
    assert (row["CHCKCLNT"], row["ADOPTCTX"]) == ("OPTIONAL", "YES")
    done(qm, "ALTER QMGR CONNAUTH(MINE)")
    assert qm.mqsc("DELETE AUTHINFO(MINE)").codes == ["AMQ8148E"]
    done(qm, "ALTER QMGR CONNAUTH('')", "DELETE AUTHINFO(MINE)")


def test_a_stopped_channel_stays_stopped_over_a_restart_until_it_is_started(tmp_path: Path) -> None:
    with mayfly.QueueManager("QM1", tmp_path) as qm:
        done(qm, "DEFINE CHANNEL(APP) CHLTYPE(SVRCONN)", "STOP CHANNEL(APP)")
        assert admin.channels_of(qm.engine).is_stopped("APP")
        [row] = done(qm, "DISPLAY CHSTATUS(APP) STATUS")
        assert row == {"CHANNEL": "APP", "CHLTYPE": "SVRCONN", "STATUS": "STOPPED"}
        assert not qm.mqsc("RESET CHANNEL(APP)").ok
    with mayfly.QueueManager("QM1", tmp_path) as qm:
        assert admin.channels_of(qm.engine).is_stopped("APP")
        done(qm, "START CHANNEL(APP)")
        assert not admin.channels_of(qm.engine).is_stopped("APP")
        assert qm.mqsc("DISPLAY CHSTATUS(APP)").codes == ["AMQ8420I"]
        done(qm, "DELETE CHANNEL(APP)")


def test_what_an_operator_deletes_of_the_first_objects_stays_away(tmp_path: Path) -> None:
    with mayfly.QueueManager("QM1", tmp_path) as qm:
        done(qm, "DELETE CHANNEL(SYSTEM.DEF.SVRCONN)", "ALTER QMGR CONNAUTH('')")
        done(qm, "DELETE AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS)")
    with mayfly.QueueManager("QM1", tmp_path) as qm:
        assert [r["CHANNEL"] for r in done(qm, "DIS CHANNEL(*)")] == ["SYSTEM.DEF.CLNTCONN"]
        assert qm.mqsc("DISPLAY AUTHINFO(*)").codes == ["AMQ8147E"]
        assert done(qm, "DISPLAY QMGR CONNAUTH") == [{"QMNAME": "QM1", "CONNAUTH": ""}]


def test_CLNTCONN_channels_are_in_a_table_that_clients_read(tmp_path: Path) -> None:
    file = tmp_path / "ccdt.json"
    with mayfly.QueueManager("QM1", tmp_path) as qm:
        assert not file.exists()
        done(
            qm,
            "DEFINE CHANNEL(APP) CHLTYPE(CLNTCONN) QMNAME(QM1) CLNTWGHT(7) AFFINITY(NONE) +",
            "  CONNAME('mq1.example(1415), [2001:db8::1], mq2') HBINT(20) SHARECNV(3) +",
            "  SSLCIPH(ANY_TLS13) SSLPEER('CN=qm1,O=Example') DEFRECON(QMGR) MAXMSGL(1000)",
            "DEFINE CHANNEL(PLAIN) CHLTYPE(CLNTCONN) CONNAME(mq3)",
        )
        assert file.stat().st_mode & 0o777 == 0o600
        app, plain = read_table(file).channels
        assert app.endpoint.addresses == (
            Address("mq1.example", 1415),
            Address("2001:db8::1", 1414),
            Address("mq2", 1414),
        )
        assert app.endpoint.tls is not None
        assert (app.endpoint.tls.cipher, app.endpoint.tls.peer_name) == (
            "ANY_TLS13",
            "CN=qm1,O=Example",
        )
        assert (app.endpoint.heartbeat_s, app.endpoint.share_conversations) == (20, 3)
        assert app.endpoint.max_message_bytes == 1000
        assert (app.group, app.weight, app.is_preferred) == ("QM1", 7, False)
        assert app.reconnect is Reconnect.QUEUE_MANAGER
        assert (plain.endpoint.channel, plain.endpoint.tls, plain.weight) == ("PLAIN", None, 0)
        done(qm, "ALTER CHANNEL(PLAIN) CHLTYPE(CLNTCONN) CONNAME('mq4(1)')")
        assert read_table(file).channels[1].endpoint.addresses == (Address("mq4", 1),)
        done(qm, "DELETE CHANNEL(APP) CHLTABLE(CLNTTAB)")
        assert [row["name"] for row in json.loads(file.read_text())["channel"]] == ["PLAIN"]


def test_a_program_defines_channels_of_both_kinds_by_typed_values(qm: mayfly.QueueManager) -> None:
    admin.define(qm.engine, admin.CHANNEL, "APP", {"CHLTYPE": MQCHT_SVRCONN, "MAXINST": 1})
    admin.define(qm.engine, admin.CLNTCONN, "APP", {"CONNAME": "mq1"})
    kinds = (admin.CHANNEL, admin.CLNTCONN)
    server, client = admin.inquire(qm.engine, kinds, "APP")
    assert (server.kind, server.values["MAXINST"]) == (admin.CHANNEL, 1)
    assert (client.kind, client.values["CHLTYPE"]) == (admin.CLNTCONN, MQCHT_CLNTCONN)
    for record in (server, client):
        for keyword in record.values:
            assert admin.object_type(record.kind).row(keyword) is not None, keyword
    with pytest.raises(admin.AdminError, match="CHLTYPE cannot be changed"):
        admin.define(qm.engine, admin.CHANNEL, "X", {"CHLTYPE": MQCHT_CLNTCONN, "CONNAME": "a"})
