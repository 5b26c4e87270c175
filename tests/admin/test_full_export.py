"""A full export of IBM MQ goes in with one note, and comes out as what makes the same again."""

from collections.abc import Callable
from pathlib import Path

import pytest

import mayfly
from mayfly import admin
from mayfly.admin import (
    AUTHINFO,
    CHANNEL,
    CLNTCONN,
    COMMINFO,
    DEFINABLE,
    QLOCAL,
    QMGR,
    SUB,
    TOPIC,
    Value,
)
from mayfly.admin.mqsc.export import exported
from mayfly.mqi import constants as c
from mayfly.mqi.command_constants import MQRCCF_PARM_CONFLICT
from mayfly.mqi.constants import MQOO_INPUT_SHARED
from mayfly.mqi.errors import MQError
from mayfly.pymqi import CMQXC
from mayfly.testing import VirtualClock

EXPORT = (Path(__file__).parent / "full_export.mqsc").read_text("utf-8")
Open = Callable[[str], mayfly.QueueManager]


@pytest.fixture
def opened(clock: VirtualClock, tmp_path: Path) -> Open:
    def open_one(folder: str) -> mayfly.QueueManager:
        return mayfly.QueueManager("GULL", tmp_path / folder, clock=clock)

    return open_one


def test_an_export_with_every_attribute_goes_in_with_one_note(opened: Open) -> None:
    with opened("first") as manager:
        result = manager.mqsc(EXPORT)
    assert [(each.command, each.messages) for each in result.commands if not each.ok] == []
    assert len(result.commands) == 46
    assert [code for code in result.codes if code.startswith("MFY1003")] == ["MFY1003I"]
    assert result.messages[-1].body.splitlines() == [
        "   AUTHINFO AUTHTYPE(IDPWLDAP): GULL.DIRECTORY",
        "   CHANNEL CHLTYPE(AMQP): GULL.AMQP",
        "   CHANNEL CHLTYPE(CLUSRCVR): NORTH.GULL",
        "   CHANNEL CHLTYPE(CLUSSDR): NORTH.TERN",
        "   CHANNEL CHLTYPE(RQSTR): GULL.ASKS",
        "   CHANNEL CHLTYPE(SVR): GULL.SERVES",
        "   CHANNEL COMPMSG(ZLIBFAST,RLE): GULL.TERN",
        "   CHANNEL DISCINT(1800): GULL.APP",
        "   CHANNEL SSLCIPH(TLS_AES_256_GCM_SHA384): TERN.GULL",
        "   LISTENER: GULL.LISTENER",
        "   NAMELIST: GULL.CLUSTERS",
        "   POLICY: GULL.ORDERS",
        "   QLOCAL CLWLPRTY(3): GULL.ORDERS",
        "   QLOCAL NPMCLASS(HIGH): GULL.ORDERS",
        "   QMGR CERTLABL(ibmwebspheremqgull): GULL",
        "   QMGR MONCHL(MEDIUM): GULL",
        "   QMGR SSLKEYR(/var/mqm/qmgrs/GULL/ssl/key): GULL",
        "   SERVICE: GULL.WATCH",
        "   STGCLASS: GULLS",
        "   SUB PSPROP(RFH2): gull news",
        "   TOPIC WILDCARD(BLOCK): GULL.NEWS",
    ]


def test_what_was_imported_is_exported_to_the_same_bytes_after_a_second_import(
    opened: Open,
) -> None:
    with opened("first") as manager:
        assert manager.mqsc(EXPORT).ok
        first = exported(manager.mqsc)
    with opened("second") as manager:
        again = manager.mqsc(first)
        assert [each.messages for each in again.commands if not each.ok] == []
        assert exported(manager.mqsc) == first
    # Also after a restart, and after it has run where all of it is there already.
    with opened("second") as manager:
        assert exported(manager.mqsc) == first
        again = manager.mqsc(first)
        assert [each.messages for each in again.commands if not each.ok] == []
        assert exported(manager.mqsc) == first


def test_values_of_the_export_are_obeyed_or_kept(opened: Open) -> None:
    with opened("first") as manager:
        manager.mqsc(EXPORT)
    with opened("first") as manager:
        shown = manager.mqsc(
            "DISPLAY QLOCAL(GULL.ORDERS) CUSTOM NPMCLASS DISTL MAXDEPTH DESCR\n"
            "DISPLAY TPSTATUS('harbour/news') CAPEXPRY\n"
            "DISPLAY CHANNEL(NORTH.GULL) CLUSTER NETPRTY\n"
            "DISPLAY POLICY(GULL.ORDERS) RECIP ENCALG\n"
            "DISPLAY AUTHREC PROFILE('@class') OBJTYPE(QUEUE) MATCH(EXACT)\n"
            "DISPLAY PROCESS(SYSTEM.DEFAULT.PROCESS) APPLTYPE\n"
        ).rows
        assert shown == [
            {
                "QUEUE": "GULL.ORDERS",
                "TYPE": "QLOCAL",
                "DESCR": "Orders, it's all fish",
                "MAXDEPTH": 5_000,
                "CUSTOM": "CAPEXPRY(600)",
                "DISTL": "NO",
                "NPMCLASS": "HIGH",
            },
            {"TPSTATUS": "harbour/news", "CAPEXPRY": 36_000},
            {"CHANNEL": "NORTH.GULL", "CHLTYPE": "CLUSRCVR", "CLUSTER": "NORTH", "NETPRTY": 0},
            {
                "POLICY": "GULL.ORDERS",
                "ENCALG": "AES256",
                "RECIP": "'CN=tern,O=harbour','CN=skua,O=harbour'",
            },
            {
                "PROFILE": "@class",
                "ENTITY": "gulls",
                "ENTTYPE": "GROUP",
                "OBJTYPE": "QUEUE",
                "AUTHLIST": "CRT",
            },
            {"PROCESS": "SYSTEM.DEFAULT.PROCESS", "APPLTYPE": "UNIX"},
        ]
        started = manager.mqsc("START CHANNEL(NORTH.GULL)\nSTART LISTENER(GULL.LISTENER)")
        assert started.codes == ["AMQ8101S", "MFY1015I"]
        assert "channel NORTH.GULL is kept only" in started.messages[0].text


def test_an_export_leaves_out_secrets_and_dynamic_queues(opened: Open) -> None:
    with opened("first") as manager:
        manager.mqsc(
            "DEFINE CHANNEL(C) CHLTYPE(CLNTCONN) CONNAME(h) USERID('gull') PASSWORD('secret')\n"
            "DEFINE AUTHINFO(A) AUTHTYPE(CRLLDAP) LDAPPWD('secret')\n"
            "ALTER QMGR INITKEY('secret')\n"
            "DEFINE QMODEL(MODEL) DEFTYPE(PERMDYN) NPMCLASS(HIGH)\n"
        )
        with manager.session() as session:
            session.open("MODEL", MQOO_INPUT_SHARED, dynamic_name="TEMP.*")
        [dynamic] = manager.mqsc("DISPLAY QLOCAL(TEMP.*) NPMCLASS").rows
        text = exported(manager.mqsc)
    assert dynamic["NPMCLASS"] == "HIGH"
    assert "secret" not in text
    assert "TEMP." not in text
    assert "USERID('gull')" in text
    assert b"secret" not in (Path(str(manager.engine.store.folder)) / "mayfly.db").read_bytes()


#: The attribute with the type of an object, where several types have one name.
TYPE_OF = {CHANNEL: "CHLTYPE", AUTHINFO: "AUTHTYPE"}
#: What an object of a kind has to have.
NEEDED: dict[str, dict[str, Value]] = {
    TOPIC: {"TOPICSTR": "gulls"},
    SUB: {"TOPICSTR": "terns", "DEST": "GULL.ORDERS"},
    CLNTCONN: {"CONNAME": "tern"},
}
PARTNER: dict[str, Value] = {"CONNAME": "tern"}
NEEDED_BY_CHANNELS: dict[Value, dict[str, Value]] = {
    CMQXC.MQCHT_SENDER: {**PARTNER, "XMITQ": "GULL.TWO"},
    CMQXC.MQCHT_SERVER: {"XMITQ": "GULL.TWO"},
    CMQXC.MQCHT_REQUESTER: PARTNER,
    CMQXC.MQCHT_CLUSSDR: PARTNER,
    CMQXC.MQCHT_CLUSRCVR: PARTNER,
}
#: Texts that are no names.
TEXTS: dict[str, Value] = {
    "CUSTOM": "CAPEXPRY(7)",
    "DESTCORL": "07" * 24,
    "PUBACCT": "07" * 32,
    "TARGET": "GULL.ORDERS",
    "DEST": "GULL.TWO",
    "MCAUSER": "gull",
    "CONNAME": "tern(1414)",
    "ADDRESS": "192.0.2.7",
    "LOCLADDR": "192.0.2.7",
    "SSLCIPH": "ANY_TLS12_OR_HIGHER",
    "SSLPEER": "CN=gull",
}
#: What is refused for another reason than that the type of object has no such attribute.
REFUSED = {
    # Without a queue-sharing group.
    (QLOCAL, "QSGDISP"),
    # There is one word.
    (TOPIC, "TYPE"),
    (COMMINFO, "TYPE"),
    (TOPIC, "TOPICSTR"),
    # ALTER SUB cannot change them.
    *((SUB, keyword) for keyword in ("TOPICSTR", "TOPICOBJ", "SELECTOR", "DESTCLAS")),
}


def another_value(row: admin.Attribute) -> Value:
    """Return a value of an attribute that is not its default."""
    if row.choices:
        return next(choice for choice in row.choices if choice != row.default)
    if row.is_text:
        return TEXTS.get(row.keyword, "GULL"[: row.length])
    numbers = (*(number for _word, number in row.words), row.low, row.low + 1)
    return next(number for number in numbers if number != row.default)


def made_of_every_attribute(manager: mayfly.QueueManager) -> set[tuple[str, str]]:
    """Define an object of each kind and type, and alter all its attributes; return the refused."""
    refused, engine = set(), manager.engine
    for kind in (*DEFINABLE, QMGR):
        rows = admin.object_type(kind).attributes
        typed = TYPE_OF.get(kind, "")
        types: list[dict[str, Value]] = [{}]
        if typed:
            numbers = (number for _word, number in rows[typed].words)
            types = [{typed: number} for number in numbers if number != c.MQCHT_CLNTCONN]
        for number, of_type in enumerate(types):
            name = manager.name if kind == QMGR else f"{kind}.{number}"
            if kind != QMGR:
                needed = {**NEEDED.get(kind, {}), **of_type}
                needed |= NEEDED_BY_CHANNELS.get(of_type.get("CHLTYPE", 0), {})
                admin.define(engine, kind, name, needed)
            for keyword, row in rows.items():
                if keyword in (*TYPE_OF.values(), *admin.SECRETS):
                    continue
                try:
                    admin.alter(engine, kind, name, {keyword: another_value(row)})
                except MQError as error:
                    if error.reason != MQRCCF_PARM_CONFLICT:
                        refused.add((kind, keyword))
    return refused


def test_every_attribute_of_every_kind_of_object_comes_out_as_it_was_set(opened: Open) -> None:
    with opened("first") as manager:
        manager.mqsc("DEFINE QLOCAL(GULL.ORDERS)\nDEFINE QLOCAL(GULL.TWO)")
        assert made_of_every_attribute(manager) ^ REFUSED == set()
        first, records = exported(manager.mqsc), values_of(manager)
    with opened("second") as manager:
        result = manager.mqsc(first)
        assert [(each.command, each.messages) for each in result.commands if not each.ok] == []
        assert [code for code in result.codes if code.startswith("MFY1003")] == ["MFY1003I"]
        assert values_of(manager) == records
        assert exported(manager.mqsc) == first


def values_of(manager: mayfly.QueueManager) -> dict[tuple[str, str], dict[str, Value]]:
    """Return what can be set of each object, by kind and name."""
    return {
        (record.kind, record.name): {
            keyword: value
            for keyword, value in record.values.items()
            if keyword in admin.object_type(record.kind).attributes
        }
        for kind in (*DEFINABLE, QMGR)
        for record in admin.inquire(manager.engine, (kind,), "*")
    }
