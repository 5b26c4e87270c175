"""Rules for channels: SET and DISPLAY CHLAUTH, which of several counts, MATCH(RUNCHECK)."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path

import pytest

import mayfly
from mayfly import admin
from mayfly.admin.security.rules import check_address_pattern, is_address_matched
from mayfly.mqi import command_constants as k
from mayfly.mqi.errors import MQError


@pytest.fixture
def qm() -> Iterator[mayfly.QueueManager]:
    with mayfly.QueueManager("QM1") as manager:
        yield manager


@pytest.fixture
def bare(qm: mayfly.QueueManager) -> mayfly.QueueManager:
    """Return a queue manager without any rule."""
    done(
        qm,
        "SET CHLAUTH('*') TYPE(BLOCKUSER) ACTION(REMOVEALL)",
        "SET CHLAUTH('SYSTEM.*') TYPE(ADDRESSMAP) ACTION(REMOVEALL)",
        "SET CHLAUTH('SYSTEM.ADMIN.SVRCONN') TYPE(ADDRESSMAP) ACTION(REMOVEALL)",
    )
    assert qm.mqsc("DISPLAY CHLAUTH(*)").codes == ["AMQ8884E"]
    return qm


def done(qm: mayfly.QueueManager, *commands: str) -> list[dict[str, int | str]]:
    result = qm.mqsc("\n".join(commands))
    assert result.ok, result.text
    return result.rows


def run_check(qm: mayfly.QueueManager, channel: str, partner: str) -> str:
    """Return what RUNCHECK says: the description of the rule, or the user after MCAUSER=."""
    result = qm.mqsc(f"DISPLAY CHLAUTH({channel}) MATCH(RUNCHECK) {partner}")
    if result.rows:
        return str(result.rows[0]["DESCR"])
    [message] = result.messages
    assert message.code == "AMQ9783I", result.text
    return message.text.removeprefix("Channel will run using MCAUSER('").removesuffix("').")


def test_a_new_queue_manager_has_IBMs_three_rules(qm: mayfly.QueueManager) -> None:
    rows = done(qm, "DISPLAY CHLAUTH(*)")
    assert rows == [
        {"CHLAUTH": "*", "TYPE": "BLOCKUSER", "USERLIST": "*MQADMIN"},
        {
            "CHLAUTH": "SYSTEM.*",
            "TYPE": "ADDRESSMAP",
            "ADDRESS": "*",
            "USERSRC": "NOACCESS",
        },
        {
            "CHLAUTH": "SYSTEM.ADMIN.SVRCONN",
            "TYPE": "ADDRESSMAP",
            "ADDRESS": "*",
            "USERSRC": "CHANNEL",
        },
    ]
    here = "ADDRESS('192.0.2.1') CLNTUSER('anna')"
    assert run_check(qm, "APP", here) == "anna"
    assert run_check(qm, "APP", "ADDRESS('192.0.2.1') CLNTUSER('mqm')") == (
        "Administrators are kept out"
    )
    assert run_check(qm, "SYSTEM.DEF.SVRCONN", here) == "Channels of the system are closed"
    # The map lets her in, and RUNCHECK shows the map.
    assert run_check(qm, "SYSTEM.ADMIN.SVRCONN", here) == "The channel for administration is open"


def test_the_name_of_a_channel_decides_before_the_type_of_a_map(bare: mayfly.QueueManager) -> None:
    for profile in ("*", "DEV.*", "DEV.APP.*", "DEV.APP.SVRCONN"):
        done(
            bare,
            f"SET CHLAUTH({profile}) TYPE(ADDRESSMAP) ADDRESS(*) USERSRC(NOACCESS) +",
            f" DESCR('{profile} by address') ACTION(REPLACE)",
        )
    done(bare, "SET CHLAUTH(*) TYPE(USERMAP) CLNTUSER('anna') USERSRC(CHANNEL) DESCR('* by user')")
    here = "ADDRESS('192.0.2.1') CLNTUSER('anna')"
    assert run_check(bare, "DEV.APP.SVRCONN", here) == "DEV.APP.SVRCONN by address"
    assert run_check(bare, "DEV.APP.OTHER", here) == "DEV.APP.* by address"
    assert run_check(bare, "DEV.ONE", here) == "DEV.* by address"
    assert run_check(bare, "OTHER", here) == "* by user"
    assert run_check(bare, "OTHER", "ADDRESS('192.0.2.1') CLNTUSER('bob')") == "* by address"


def test_for_one_channel_subject_goes_before_issuer_user_and_address(
    bare: mayfly.QueueManager,
) -> None:
    done(
        bare,
        "SET CHLAUTH(C) TYPE(ADDRESSMAP) ADDRESS(*) MCAUSER('any') DESCR('any')",
        "SET CHLAUTH(C) TYPE(ADDRESSMAP) ADDRESS('10.1.*') MCAUSER('net') DESCR('net')",
        "SET CHLAUTH(C) TYPE(ADDRESSMAP) ADDRESS('10.1.2-9.*') MCAUSER('some') DESCR('some')",
        "SET CHLAUTH(C) TYPE(ADDRESSMAP) ADDRESS('10.1.2.3') MCAUSER('one') DESCR('one')",
        "SET CHLAUTH(C) TYPE(USERMAP) CLNTUSER('anna') MCAUSER('user') DESCR('user')",
        "SET CHLAUTH(C) TYPE(USERMAP) CLNTUSER('anna') ADDRESS('10.9.*') MCAUSER('far') +",
        "  DESCR('user from afar')",
        "SET CHLAUTH(C) TYPE(QMGRMAP) QMNAME('QM*') MCAUSER('qm') DESCR('manager')",
        "SET CHLAUTH(C) TYPE(SSLPEERMAP) SSLPEER('O=Example') MCAUSER('o') DESCR('of Example')",
        "SET CHLAUTH(C) TYPE(SSLPEERMAP) SSLPEER('CN=app,O=Example') MCAUSER('cn') DESCR('app')",
        "SET CHLAUTH(C) TYPE(SSLPEERMAP) SSLPEER('CN=app,O=Example') SSLCERTI('CN=ca') +",
        "  MCAUSER('ca') DESCR('app by ca')",
    )
    for partner, expected in (
        ("ADDRESS('192.0.2.1') CLNTUSER('bob')", "any"),
        ("ADDRESS('10.1.200.1') CLNTUSER('bob')", "net"),
        ("ADDRESS('10.1.9.1') CLNTUSER('bob')", "some"),
        ("ADDRESS('10.1.2.3') CLNTUSER('bob')", "one"),
        ("ADDRESS('10.1.2.3') CLNTUSER('anna')", "user"),
        ("ADDRESS('10.9.2.3') CLNTUSER('anna')", "user from afar"),
        ("ADDRESS('10.1.2.3') QMNAME('QM7')", "manager"),
        ("ADDRESS('10.1.2.3') QMNAME('OTHER')", "one"),
        ("ADDRESS('10.1.2.3') CLNTUSER('anna') SSLPEER('CN=x,O=Example')", "of Example"),
        ("ADDRESS('10.1.2.3') CLNTUSER('anna') SSLPEER('CN=app,O=Example')", "app"),
        (
            "ADDRESS('10.1.2.3') CLNTUSER('anna') SSLPEER('CN=app,O=Example') SSLCERTI('CN=ca')",
            "app by ca",
        ),
        ("ADDRESS('10.1.2.3') CLNTUSER('anna') SSLPEER('CN=app,O=Other')", "user"),
        ("ADDRESS('10.1.2.3') CLNTUSER('anna') SSLPEER('CN=APP,O=example')", "app"),
        # A certificate with two of them is nobody's.
        ("ADDRESS('10.1.2.3') CLNTUSER('anna') SSLPEER('O=Evil,O=Example,CN=x,CN=app')", "user"),
    ):
        assert run_check(bare, "C", partner) == expected, partner


def test_a_pattern_with_an_attribute_twice_is_refused_but_for_OU_and_DC(
    bare: mayfly.QueueManager,
) -> None:
    rule = "SET CHLAUTH(C) TYPE(SSLPEERMAP) {} MCAUSER('app')"
    for names in ("SSLPEER('CN=a,CN=b')", "SSLPEER('CN=a') SSLCERTI('O=a,CN=ca,O=b')"):
        outcome = bare.mqsc(rule.format(names))
        assert not outcome.ok
        assert "stands there twice" in str(outcome)
    assert not bare.mqsc("DEFINE CHANNEL(S) CHLTYPE(SVRCONN) SSLPEER('CN=a,CN=b')").ok
    done(bare, rule.format("SSLPEER('CN=a,OU=Software,OU=MQ,DC=org,DC=example')"))


def test_only_the_list_of_the_most_special_name_keeps_users_out(qm: mayfly.QueueManager) -> None:
    done(qm, "SET CHLAUTH(ADMIN.*) TYPE(BLOCKUSER) USERLIST(nobody, 'bob') DESCR('lists')")
    partner = "ADDRESS('192.0.2.1') CLNTUSER('{}')"
    assert run_check(qm, "ADMIN.A", partner.format("mqm")) == "mqm"
    assert run_check(qm, "ADMIN.A", partner.format("bob")) == "lists"
    assert run_check(qm, "OTHER", partner.format("bob")) == "bob"
    # A user that a map gives is looked at as well.
    done(qm, "SET CHLAUTH(OTHER) TYPE(USERMAP) CLNTUSER('bob') MCAUSER('mqm')")
    assert run_check(qm, "OTHER", partner.format("bob")) == "Administrators are kept out"


def test_BLOCKADDR_is_for_all_channels_and_CHLAUTH_DISABLED_for_none(
    qm: mayfly.QueueManager,
) -> None:
    done(qm, "SET CHLAUTH(*) TYPE(BLOCKADDR) ADDRLIST('192.0.2.*', '2001:db8:*') DESCR('spam')")
    done(qm, "DEFINE CHANNEL(APP) CHLTYPE(SVRCONN) MCAUSER('app')")
    for address, expected in (
        ("192.0.2.7", "spam"),
        ("2001:db8::9", "spam"),
        ("192.0.3.7", "app"),
        ("2001:db9::9", "app"),
    ):
        partner = f"ADDRESS('{address}') CLNTUSER('anna')"
        assert run_check(qm, "APP", partner) == expected
    done(qm, "ALTER QMGR CHLAUTH(DISABLED)")
    assert run_check(qm, "APP", "ADDRESS('192.0.2.7') CLNTUSER('anna')") == "app"


def test_ACTION_adds_to_lists_and_adds_replaces_and_removes_maps(bare: mayfly.QueueManager) -> None:
    rule = "SET CHLAUTH(C) TYPE(BLOCKUSER)"
    done(bare, f"{rule} USERLIST(a, b)", f"{rule} USERLIST(b, c)")
    assert [r["USERLIST"] for r in done(bare, "DISPLAY CHLAUTH(C)")] == ["a,b,c"]
    done(bare, f"{rule} USERLIST(a) ACTION(REMOVE)")
    assert [r["USERLIST"] for r in done(bare, "DISPLAY CHLAUTH(C)")] == ["b,c"]
    assert bare.mqsc(f"{rule} USERLIST(x) ACTION(REMOVE)").codes == ["AMQ8884E"]
    done(bare, f"{rule} USERLIST(z) ACTION(REPLACE)")
    assert [r["USERLIST"] for r in done(bare, "DISPLAY CHLAUTH(C)")] == ["z"]
    done(bare, f"{rule} USERLIST(z) ACTION(REMOVE)")
    assert bare.mqsc("DISPLAY CHLAUTH(C)").codes == ["AMQ8884E"]

    anna = "SET CHLAUTH(C) TYPE(USERMAP) CLNTUSER('anna')"
    done(bare, f"{anna} MCAUSER('a1')")
    twice = bare.mqsc(f"{anna} MCAUSER('a2')")
    assert twice.codes == ["AMQ8883E"]
    assert twice.messages[0].reason == k.MQRCCF_CHLAUTH_ALREADY_EXISTS
    done(bare, f"{anna} MCAUSER('a2') ACTION(REPLACE)", f"{anna} ADDRESS('10.*') MCAUSER('a3')")
    rows = done(bare, "DISPLAY CHLAUTH(C) CHCKCLNT")
    assert [(r["ADDRESS"], r["MCAUSER"], r["CHCKCLNT"]) for r in rows] == [
        ("", "a2", "ASQMGR"),
        ("10.*", "a3", "ASQMGR"),
    ]
    done(bare, f"{anna} ACTION(REMOVE)")
    assert [r["MCAUSER"] for r in done(bare, "DISPLAY CHLAUTH(C)")] == ["a3"]
    assert bare.mqsc(f"{anna} ACTION(REMOVE)").codes == ["AMQ8884E"]
    done(bare, "SET CHLAUTH(C) TYPE(USERMAP) ACTION(REMOVEALL)")
    done(bare, "SET CHLAUTH(C) TYPE(USERMAP) ACTION(REMOVEALL)")
    assert bare.mqsc("DISPLAY CHLAUTH(C)").codes == ["AMQ8884E"]


def test_DISPLAY_compares_names_exactly_as_a_pattern_or_by_what_they_share(
    bare: mayfly.QueueManager,
) -> None:
    for profile in ("*", "AB*", "ABC", "ABC*", "X"):
        done(bare, f"SET CHLAUTH({profile}) TYPE(BLOCKUSER) USERLIST(x)")

    def names(asked: str) -> list[object]:
        return [row["CHLAUTH"] for row in done(bare, f"DISPLAY CHLAUTH{asked}")]

    assert names("(AB*)") == ["AB*", "ABC", "ABC*"]
    assert names("(AB*) MATCH(EXACT)") == ["AB*"]
    assert names("(ABC)") == ["ABC"]
    assert names("(ABC) MATCH(ALL)") == ["*", "AB*", "ABC", "ABC*"]
    assert names("(*C) MATCH(ALL)") == ["*", "AB*", "ABC", "ABC*"]
    assert names("(*) TYPE(ALL)") == ["*", "AB*", "ABC", "ABC*", "X"]
    assert bare.mqsc("DISPLAY CHLAUTH(*) TYPE(USERMAP)").codes == ["AMQ8884E"]


def test_DISPLAY_finds_the_profiles_that_a_search_through_all_names_finds(
    bare: mayfly.QueueManager,
) -> None:
    """Two patterns of at most three characters share a name of at most four, or none."""
    patterns = ["".join(each) for length in (1, 2, 3) for each in product("AB*", repeat=length)]
    names = ["".join(each) for length in range(5) for each in product("AB", repeat=length)]
    matched = {each: {name for name in names if fnmatchcase(name, each)} for each in patterns}
    for profile in patterns:
        rule: dict[str, admin.Value] = {"TYPE": k.MQCAUT_BLOCKUSER, "USERLIST": "x"}
        admin.set_channel_rule(bare.engine, profile, rule)
    for pattern in patterns:
        for match, expected in (
            ("ALL", {each for each in patterns if matched[each] & matched[pattern]}),
            ("GENERIC", {each for each in patterns if fnmatchcase(each, pattern)}),
        ):
            found = admin.inquire_channel_rules(bare.engine, pattern, match=match)
            assert {record.name for record in found} == expected, (pattern, match)


def test_DISPLAY_answers_at_once_however_many_stars_are_in_profile_and_pattern(
    bare: mayfly.QueueManager,
) -> None:
    """An answer by trial of all ways takes years for each of these."""
    stars, letters = "*" * 20, "A" * 20
    for profile in (stars, letters, "*A" * 10):
        done(bare, f"SET CHLAUTH({profile}) TYPE(BLOCKUSER) USERLIST(x)")

    def names(asked: str) -> list[object]:
        return [row["CHLAUTH"] for row in done(bare, f"DISPLAY CHLAUTH{asked}")]

    assert names(f"({'*B' * 20}) MATCH(ALL)") == [stars]
    assert names(f"({'*A' * 20}) MATCH(ALL)") == [stars, "*A" * 10, letters]
    assert names(f"({stars}A)") == ["*A" * 10, letters]
    assert bare.mqsc(f"DISPLAY CHLAUTH({stars}B)").codes == ["AMQ8884E"]


def test_rules_survive_a_restart_as_they_are(tmp_path: Path) -> None:
    with mayfly.QueueManager("QM1", tmp_path) as qm:
        done(
            qm,
            "SET CHLAUTH('*') TYPE(BLOCKUSER) USERLIST('*MQADMIN') ACTION(REMOVE)",
            "SET CHLAUTH(APP) TYPE(SSLPEERMAP) SSLPEER('CN=a b,O=\"x, y\"') MCAUSER('app') +",
            "  CHCKCLNT(REQDADM) DESCR('x') CUSTOM('') WARN(NO)",
        )
        before = done(qm, "DISPLAY CHLAUTH(*) ALL")
    with mayfly.QueueManager("QM1", tmp_path) as qm:
        assert done(qm, "DISPLAY CHLAUTH(*) ALL") == before
        assert [row["CHLAUTH"] for row in before] == ["APP", "SYSTEM.*", "SYSTEM.ADMIN.SVRCONN"]
        assert before[0] == {
            "CHLAUTH": "APP",
            "TYPE": "SSLPEERMAP",
            "DESCR": "x",
            "CUSTOM": "",
            "SSLPEER": 'CN=a b,O="x, y"',
            "SSLCERTI": "",
            "ADDRESS": "",
            "USERSRC": "MAP",
            "MCAUSER": "app",
            "CHCKCLNT": "REQDADM",
            "WARN": "NO",
        }


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("SET CHLAUTH(C) USERLIST(a)", "TYPE is missing: BLOCKUSER or BLOCKADDR"),
        ("SET CHLAUTH(C) TYPE(BLOCKUSER)", "USERLIST is missing: TYPE(BLOCKUSER) needs it"),
        ("SET CHLAUTH(C) TYPE(BLOCKADDR) ADDRLIST('1.*')", "the profile is *"),
        ("SET CHLAUTH(*) TYPE(BLOCKADDR) ADDRLIST('1.2.3')", "it has 3 parts"),
        ("SET CHLAUTH(C) TYPE(ADDRESSMAP) ADDRESS('ho_st') MCAUSER(a)", "'ho_st' is no host name"),
        ("SET CHLAUTH(C) TYPE(ADDRESSMAP) ADDRESS('1.2.3.256') MCAUSER(a)", "'256' is no part"),
        ("SET CHLAUTH(C) TYPE(ADDRESSMAP) ADDRESS('1.2.3.9-1') MCAUSER(a)", "'9-1' is no part"),
        ("SET CHLAUTH(C) TYPE(ADDRESSMAP) ADDRESS(*)", "MCAUSER is missing: USERSRC(MAP) needs"),
        ("SET CHLAUTH(C) TYPE(ADDRESSMAP) MCAUSER(a)", "ADDRESS is missing"),
        (
            "SET CHLAUTH(C) TYPE(ADDRESSMAP) ADDRESS(*) USERSRC(NOACCESS) MCAUSER(a)",
            "MCAUSER contradicts USERSRC(NOACCESS)",
        ),
        (
            "SET CHLAUTH(C) TYPE(ADDRESSMAP) ADDRESS(*) USERSRC(NOACCESS) CHCKCLNT(REQUIRED)",
            "CHCKCLNT contradicts USERSRC(NOACCESS)",
        ),
        (
            "SET CHLAUTH(C) TYPE(ADDRESSMAP) ADDRESS(*) CLNTUSER(a) MCAUSER(b)",
            "CLNTUSER is not for TYPE(ADDRESSMAP)",
        ),
        ("SET CHLAUTH(C) TYPE(SSLPEERMAP) SSLPEER(app) MCAUSER(a)", "no attribute of a dist"),
        ("SET CHLAUTH(C) TYPE(USERMAP) CLNTUSER(a) MCAUSER('1234567890123')", "it may have 12"),
        ("SET CHLAUTH(C) TYPE(USERMAP) ACTION(REMOVEALL) CLNTUSER(a)", "ACTION(REMOVEALL)"),
        ("SET CHLAUTH(C) TYPE(USERMAP) CLNTUSER(a) MCAUSER(b) ACTION(DROP)", "ADD or REPLACE"),
        ("SET CHLAUTH(C) TYPE(NOMAP)", "it must be BLOCKUSER or BLOCKADDR"),
        ("SET CHLAUTH('A B') TYPE(BLOCKUSER) USERLIST(a)", "'A B' is not 1 to 20 characters"),
        ("SET CHLAUTH(C) TYPE(BLOCKUSER) USERLSIT(a)", "did you mean USERLIST?"),
        ("DISPLAY CHLAUTH(C*) MATCH(RUNCHECK) ADDRESS('1.2.3.4') CLNTUSER(a)", "one channel"),
        ("DISPLAY CHLAUTH(C) MATCH(RUNCHECK) ADDRESS('1.2.3.4')", "CLNTUSER or QMNAME"),
        ("REFRESH SECURITY TYPE(CLASSES)", "it must be CONNAUTH or AUTHSERV or SSL"),
        ("REFRESH QUEUE", "REFRESH knows SECURITY, QMGR, not QUEUE"),
    ],
)
def test_wrong_commands_name_what_is_wrong(
    bare: mayfly.QueueManager, command: str, said: str
) -> None:
    result = bare.mqsc(command)
    assert result.codes == ["AMQ8405E"]
    assert said in result.text
    assert bare.mqsc("DISPLAY CHLAUTH(*)").codes == ["AMQ8884E"]


def test_a_program_sets_rules_by_typed_values(bare: mayfly.QueueManager) -> None:
    given: dict[str, admin.Value] = {
        "TYPE": k.MQCAUT_USERMAP,
        "CLNTUSER": "anna",
        "MCAUSER": "app",
    }
    admin.set_channel_rule(bare.engine, "C", given)
    with pytest.raises(MQError) as refused:
        admin.set_channel_rule(bare.engine, "C", given)
    assert refused.value.reason == k.MQRCCF_CHLAUTH_ALREADY_EXISTS
    [record] = admin.inquire_channel_rules(bare.engine, "C")
    assert (record.kind, record.name, record.values["MCAUSER"]) == (admin.CHLAUTH, "C", "app")
    assert admin.channel_rule_for(bare.engine, admin.Partner("C", "10.0.0.1", "bob")) == "bob"


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("192.0.2.1", ["192.0.2.1", "::ffff:192.0.2.1"], ["192.0.2.2", "", "::1"]),
        ("192.0.2.*", ["192.0.2.0", "192.0.2.255"], ["192.0.3.1"]),
        ("192.*", ["192.0.2.1"], ["193.0.2.1", "192::1"]),
        ("192.*.2", ["192.1.1.2", "192.2.2.2"], ["192.1.1.3"]),
        ("192.0.*.2", ["192.0.7.2"], ["192.0.7.3"]),
        ("192.0.2.1-8", ["192.0.2.1", "192.0.2.8"], ["192.0.2.0", "192.0.2.9"]),
        ("192.0.*.1-8", ["192.0.99.8"], ["192.0.99.9"]),
        ("2001:DB8:0:0:0:0:0:0", ["2001:db8::"], ["2001:db8::1"]),
        ("2001:db8::1", ["2001:db8::1", "2001:db8::1%eth0"], ["2001:db8::2"]),
        ("2001:DB8:0:0:*", ["2001:db8::5:6:7:8"], ["2001:db8:0:1::8"]),
        ("2001:DB8:*:1", ["2001:db8::1"], ["2001:db8::2"]),
        ("2001:DB8:0:0:0:0:0:0-8", ["2001:db8::8"], ["2001:db8::9"]),
        ("*", ["10.0.0.1", "::1", ""], []),
    ],
)
def test_patterns_of_addresses(pattern: str, inside: list[str], outside: list[str]) -> None:
    check_address_pattern(pattern)
    assert [a for a in inside if not is_address_matched(a, pattern)] == []
    assert [a for a in outside if is_address_matched(a, pattern)] == []


@pytest.mark.parametrize(
    "pattern",
    ["1.2.3", "1.2.3.4.5", "1.2.3.-4", "1.2.3.4-", "1.2.3.1-2-3", "1::*::2", "a.b.c.d"],
)
def test_what_is_no_pattern_of_addresses_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="is no pattern of addresses"):
        check_address_pattern(pattern)
