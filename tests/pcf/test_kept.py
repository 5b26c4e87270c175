"""What is kept without effect has IBM's numbers in PCF too, and MQSC may come as a PCF command."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly import QueueManager, pymqi
from mayfly.admin import KEPT_KINDS, QMGR, STANDARD_OBJECTS, object_type
from mayfly.admin.mqsc.commands import ACTIONS, role_of
from mayfly.admin.mqsc.export import exported
from mayfly.admin.pcf.commands import COMMANDS, answer
from mayfly.admin.pcf.objects import NOUNS, SUBSCRIPTIONS, TOPICS, Noun
from mayfly.admin.security.applicant import Admitted
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi.errors import MQError
from mayfly.mqi.pcf import Header, Structure, integer, pack, string, unpack
from mayfly.pymqi import CMQC, CMQCFC
from mayfly.testing import VirtualClock
from tests.pcf.conftest import Fails, Run
from tests.pcf.names import SET_INSTEAD, WITHOUT_NUMBER, numbers_of

EXPORT = Path(__file__).parents[1] / "admin" / "full_export.mqsc"
OPERATOR = Admitted(user="", is_operator=True)
#: What an inquiry shows and no command sets.
SHOWN_ONLY = (
    c.MQIA_CURRENT_Q_DEPTH,
    c.MQIA_OPEN_INPUT_COUNT,
    c.MQIA_OPEN_OUTPUT_COUNT,
    c.MQIA_DEFINITION_TYPE,
    c.MQIA_NAME_COUNT,
    c.MQIA_COMMAND_LEVEL,
    c.MQIA_PLATFORM,
    c.MQIA_MAX_PRIORITY,
    c.MQIA_SYNCPOINT,
    c.MQIA_DIST_LISTS,
    c.MQIA_ADVANCED_CAPABILITY,
    c.MQIA_AMQP_CAPABILITY,
    c.MQIA_PROT_POLICY_CAPABILITY,
    c.MQIA_XR_CAPABILITY,
    c.MQCA_VERSION,
    c.MQCA_Q_MGR_NAME,
    c.MQCA_Q_MGR_IDENTIFIER,
    c.MQCA_COMMAND_INPUT_Q_NAME,
    k.MQIACF_SUB_TYPE,
    k.MQIACF_DURABLE_SUBSCRIPTION,
    k.MQBACF_SUB_ID,
)
#: What CHANGE_SUBSCRIPTION takes.
CHANGEABLE = (
    k.MQCACF_SUB_NAME,
    k.MQBACF_ACCOUNTING_TOKEN,
    k.MQCACF_APPL_IDENTITY_DATA,
    k.MQIACF_PUBSUB_PROPERTIES,
    k.MQCACF_SUB_USER_DATA,
)


def asked(manager: QueueManager, command: int, *structures: Structure) -> list[list[Structure]]:
    """Run a command that must succeed; return the structures of each message of its answer."""
    body = pack(Header(k.MQCFT_COMMAND, command), structures)
    replies = answer(manager.engine, body, big_endian=False, ccsid=1208, admitted=OPERATOR)
    found = [unpack(each) for each in replies]
    failed = [each for each in found if each.header.comp]
    assert not failed, failed
    return [list(each.structures) for each in found]


def test_each_attribute_has_a_number_but_those_of_Mayfly() -> None:
    own = {
        "AUTHCHK",
        "BODELAY",
        "BODELMAX",
        "DDELAY",
        "EXPQ",
        "TOKENFILE",
        "TTLFROM",
        # Their numbers are those of commands alone (objects.py).
        "DESTCORL",
        "QMNAME",
    }
    kinds = {kind for noun in NOUNS for kind in noun.kinds} | {QMGR}
    assert set(KEPT_KINDS) < kinds
    rows = [row for kind in kinds for row in object_type(kind).attributes.values()]
    assert {row.keyword for row in rows if row.selector is None} == own


def test_what_an_inquiry_shows_can_be_given_back_and_changes_nothing() -> None:
    """Of every object in an export of every attribute, with each value that is not its default."""
    with QueueManager("GULL") as manager:
        assert manager.mqsc(EXPORT.read_text("utf-8")).ok
        before = exported(manager.mqsc)
        for noun in NOUNS:
            for shown in asked(manager, noun.inquire, string(noun.name, "*")):
                given = [each for each in shown if each.parameter not in SHOWN_ONLY]
                if noun is SUBSCRIPTIONS:
                    # What it is about cannot be changed.
                    given = [each for each in given if each.parameter in CHANGEABLE]
                if noun is TOPICS:
                    given = [each for each in given if each.parameter != c.MQCA_TOPIC_STRING]
                asked(manager, noun.change, *given)
        (shown,) = asked(manager, k.MQCMD_INQUIRE_Q_MGR)
        given = [each for each in shown if each.parameter not in SHOWN_ONLY]
        asked(manager, k.MQCMD_CHANGE_Q_MGR, *given)
        assert exported(manager.mqsc) == before


def test_lists_of_words_are_numbers_and_an_unknown_one_is_refused(
    queue_manager: QueueManager, run: Run, fails: Fails
) -> None:
    name = {CMQCFC.MQCACH_CHANNEL_NAME: b"TO.QM2", CMQCFC.MQIACH_CHANNEL_TYPE: CMQC.MQCHT_SENDER}
    needed = {CMQCFC.MQCACH_XMIT_Q_NAME: b"TO.QM2", CMQCFC.MQCACH_CONNECTION_NAME: b"QM2"}
    run("CREATE_CHANNEL", {**name, **needed, CMQCFC.MQIACH_MSG_COMPRESSION: [2, 1]})
    (found,) = run("INQUIRE_CHANNEL", {CMQCFC.MQCACH_CHANNEL_NAME: b"TO.QM2"})
    assert found[CMQCFC.MQIACH_MSG_COMPRESSION] == [2, 1]
    (row,) = queue_manager.mqsc("DISPLAY CHANNEL(TO.QM2) COMPMSG").rows
    assert row["COMPMSG"] == "ZLIBFAST,RLE"
    reason, text = fails("CHANGE_CHANNEL", {**name, CMQCFC.MQIACH_MSG_COMPRESSION: [3]})
    assert reason == k.MQRCCF_PARM_VALUE_ERROR
    assert "MQIACH_MSG_COMPRESSION (1576) 3 is not one of" in text


def test_mqinq_shows_attributes_without_effect_too(queue_manager: QueueManager) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(A.1) NPMCLASS(HIGH) STREAMQ(B.1)\nALTER QMGR MAXCHL(7)")
    manager = pymqi.connect(queue_manager.name)
    queue = pymqi.Queue(manager, "A.1", CMQC.MQOO_INQUIRE)
    assert queue.inquire(CMQC.MQIA_NPM_CLASS) == 10
    assert queue.inquire(CMQC.MQCA_STREAM_QUEUE_NAME) == b"B.1".ljust(48)
    assert queue.inquire(CMQC.MQIA_MONITORING_Q) == -3
    assert manager.inquire(CMQC.MQIA_MAX_CHANNELS) == 7
    manager.disconnect()


@pytest.mark.parametrize("noun", [noun for noun in NOUNS if noun.kinds[0] in KEPT_KINDS], ids=str)
def test_a_kept_object_is_created_shown_and_deleted(
    queue_manager: QueueManager, noun: Noun
) -> None:
    name = string(noun.name, "A.1")
    asked(queue_manager, noun.create, name)
    (shown,) = asked(queue_manager, noun.inquire, name)
    assert len(shown) == 1 + len(object_type(noun.kinds[0]).attributes) + (
        len(object_type(noun.kinds[0]).shown)
    )
    assert queue_manager.mqsc(f"DISPLAY {noun.kinds[0]}(A.1)").ok
    asked(queue_manager, noun.delete, name)
    assert not queue_manager.mqsc(f"DISPLAY {noun.kinds[0]}(A.1)").ok


def test_a_listener_or_service_never_runs(run: Run, fails: Fails) -> None:
    name = {CMQCFC.MQCACH_LISTENER_NAME: b"A.1"}
    reason, _ = fails("START_CHANNEL_LISTENER", name)
    assert reason == CMQC.MQRC_UNKNOWN_OBJECT_NAME
    run("CREATE_LISTENER", {**name, CMQCFC.MQIACH_PORT: 1414})
    assert run("START_CHANNEL_LISTENER", name) == [{}]
    reason, _ = fails("INQUIRE_LISTENER_STATUS", name)
    assert reason == CMQCFC.MQRCCF_LSTR_STATUS_NOT_FOUND
    run("CREATE_SERVICE", {CMQC.MQCA_SERVICE_NAME: b"A.1"})
    assert run("STOP_SERVICE", {CMQC.MQCA_SERVICE_NAME: b"A.1"}) == [{}]
    reason, text = fails("START_SERVICE")
    assert (reason, "MQCA_SERVICE_NAME" in text) == (CMQCFC.MQRCCF_PARM_MISSING, True)


def test_a_policy_that_is_set_again_has_the_defaults_of_what_is_left_out(run: Run) -> None:
    name = {CMQC.MQCA_POLICY_NAME: b"A.1"}
    run("SET_PROT_POLICY", {**name, CMQC.MQIA_SIGNATURE_ALGORITHM: 4})
    run("SET_PROT_POLICY", {**name, CMQC.MQIA_ENCRYPTION_ALGORITHM: 5})
    (found,) = run("INQUIRE_PROT_POLICY", name)
    assert found[CMQC.MQIA_SIGNATURE_ALGORITHM] == 0
    assert found[CMQC.MQIA_ENCRYPTION_ALGORITHM] == 5


def test_the_status_of_publish_subscribe_is_shown(
    queue_manager: QueueManager, run: Run, fails: Fails
) -> None:
    queue_manager.mqsc(
        "DEFINE QLOCAL(A.1)\nDEFINE SUB(watch) TOPICSTR(gates) DEST(A.1)\nALTER QMGR PARENT(QM0)"
    )
    local, parent = run("INQUIRE_PUBSUB_STATUS")
    assert local[CMQCFC.MQIACF_PS_STATUS_TYPE] == CMQCFC.MQPSST_LOCAL
    assert local[CMQC.MQIA_SUB_COUNT] == 1
    assert parent[CMQC.MQCA_Q_MGR_NAME].rstrip() == b"QM0"
    reason, _ = fails("INQUIRE_PUBSUB_STATUS", {CMQCFC.MQIACF_PS_STATUS_TYPE: CMQCFC.MQPSST_CHILD})
    assert reason == CMQCFC.MQRCCF_NONE_FOUND


def test_statistics_are_shown_and_begin_anew(
    queue_manager: QueueManager, clock: VirtualClock, run: Run, fails: Fails
) -> None:
    queue_manager.mqsc("ALTER QMGR PERFMEV(ENABLED)\nDEFINE QLOCAL(A.1) QDPMAXEV(ENABLED)")
    run("RESET_Q_STATS", {CMQC.MQCA_Q_NAME: b"A.1"})
    with queue_manager.session() as session:
        session.put("A.1", b"one")
        session.put("A.1", b"two")
        session.get("A.1")
        clock.advance(7_000)
        (found,) = run("RESET_Q_STATS", {CMQC.MQCA_Q_NAME: b"A.*"})
        shown = [
            found[number]
            for number in (
                CMQC.MQIA_HIGH_Q_DEPTH,
                CMQC.MQIA_MSG_ENQ_COUNT,
                CMQC.MQIA_MSG_DEQ_COUNT,
                CMQC.MQIA_TIME_SINCE_RESET,
            )
        ]
        assert shown == [2, 2, 1, 7]
    (found,) = run("RESET_Q_STATS", {CMQC.MQCA_Q_NAME: b"A.1"})
    assert (found[CMQC.MQIA_HIGH_Q_DEPTH], found[CMQC.MQIA_MSG_ENQ_COUNT]) == (1, 0)
    reason, _ = fails("RESET_Q_STATS", {CMQC.MQCA_Q_NAME: b"B.1"})
    assert reason == CMQC.MQRC_UNKNOWN_OBJECT_NAME


def test_expired_messages_are_discarded_and_others_move_by_command(
    queue_manager: QueueManager, clock: VirtualClock, run: Run, fails: Fails
) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(A.1)\nDEFINE QLOCAL(A.2)")
    with queue_manager.session() as session:
        session.put("A.1", b"short", time_to_live_ms=1_000)
        session.put("A.1", b"long")
        clock.advance(2_000)
        run("REFRESH_Q_MGR", {CMQCFC.MQIACF_REFRESH_TYPE: CMQCFC.MQRT_EXPIRY})
        assert queue_manager.curdepth("A.1") == 1
        names = {CMQCFC.MQCACF_FROM_Q_NAME: b"A.1", CMQCFC.MQCACF_TO_Q_NAME: b"A.2"}
        run("MOVE_Q", names)
        moved = session.get("A.2")
        assert moved is not None
        assert moved.body == b"long"
    run("REFRESH_Q_MGR", {CMQCFC.MQIACF_REFRESH_TYPE: CMQCFC.MQRT_CONFIGURATION})
    run("REFRESH_Q_MGR", {CMQCFC.MQIACF_REFRESH_TYPE: CMQCFC.MQRT_PROXYSUB})
    reason, text = fails("REFRESH_Q_MGR")
    assert (reason, "MQIACF_REFRESH_TYPE" in text) == (CMQCFC.MQRCCF_PARM_MISSING, True)


def test_mqsc_comes_as_a_command_and_its_replies_as_texts(
    queue_manager: QueueManager, run: Run, fails: Fails
) -> None:
    def escape(text: bytes) -> dict[int, object]:
        return {CMQCFC.MQIACF_ESCAPE_TYPE: CMQCFC.MQET_MQSC, CMQCFC.MQCACF_ESCAPE_TEXT: text}

    found = run("ESCAPE", escape(b"DEFINE QLOCAL(A.1)\nDISPLAY QLOCAL(A.1) MAXDEPTH"))
    texts = [each[CMQCFC.MQCACF_ESCAPE_TEXT].decode().split(":")[0] for each in found]
    assert texts == ["AMQ8006I", "AMQ8409I"]
    reason, text = fails("ESCAPE", escape(b"DISPLAY QLOCAL(B.1)"))
    assert reason == CMQCFC.MQRCCF_COMMAND_FAILED
    assert "AMQ8147E" in text
    assert not queue_manager.mqsc("DISPLAY QLOCAL(B.1)").ok


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (b"DISPLAY QLOCAL(*)", 0),
        (b"START CHANNEL(NONE)", k.MQRCCF_COMMAND_FAILED),
        (b"DISPLAY QMGR\nDEFINE QLOCAL(A.1)", CMQC.MQRC_NOT_AUTHORIZED),
    ],
)
def test_mqsc_in_a_command_needs_the_role_of_its_highest_command(
    queue_manager: QueueManager, script: bytes, reason: int
) -> None:
    queue_manager.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('anna') AUTHADD(CONNECT,DSP,CHG)")
    body = pack(
        Header(k.MQCFT_COMMAND, k.MQCMD_ESCAPE),
        [integer(k.MQIACF_ESCAPE_TYPE, k.MQET_MQSC), string(k.MQCACF_ESCAPE_TEXT, script.decode())],
    )
    anna = Admitted(user="anna")
    reply = answer(queue_manager.engine, body, big_endian=False, ccsid=1208, admitted=anna)[0]
    assert unpack(reply).header.reason == reason
    assert not queue_manager.mqsc("DISPLAY QLOCAL(A.1)").ok


def test_each_command_of_mqsc_is_one_of_pcf_with_the_same_role() -> None:
    for verb, kinds in ACTIONS.items():
        for kind in kinds:
            numbers = numbers_of(verb, kind)
            roles = {COMMANDS[number].role for number in numbers}
            is_without = kind in WITHOUT_NUMBER or (verb, kind) in SET_INSTEAD
            assert roles == (set() if is_without else {role_of(verb, kind)}), (verb, kind)


@pytest.mark.parametrize(
    ("command", "parameters", "reason"),
    [
        ("DELETE_Q", {CMQC.MQCA_Q_NAME: b"NONE"}, CMQC.MQRC_UNKNOWN_OBJECT_NAME),
        (
            "DELETE_SUBSCRIPTION",
            {CMQCFC.MQCACF_SUB_NAME: b"none"},
            CMQC.MQRC_NO_SUBSCRIPTION,
        ),
        (
            "START_CHANNEL",
            {CMQCFC.MQCACH_CHANNEL_NAME: b"NONE"},
            CMQCFC.MQRCCF_CHANNEL_NOT_FOUND,
        ),
        ("STOP_SERVICE", {CMQC.MQCA_SERVICE_NAME: b"NONE"}, CMQC.MQRC_UNKNOWN_OBJECT_NAME),
    ],
)
def test_an_object_that_is_missing_may_be_no_failure(
    run: Run, fails: Fails, command: str, parameters: dict[int, object], reason: int
) -> None:
    assert fails(command, parameters)[0] == reason
    assert fails(command, {**parameters, CMQCFC.MQIACF_IGNORE_STATE: CMQCFC.MQIS_NO})[0] == reason
    run(command, {**parameters, CMQCFC.MQIACF_IGNORE_STATE: CMQCFC.MQIS_YES})


def test_the_handles_of_a_queue_name_program_and_options(
    queue_manager: QueueManager, run: Run, fails: Fails
) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(A.1)\nALTER QMGR MONQ(HIGH)")
    wanted = {CMQC.MQCA_Q_NAME: b"A*", CMQCFC.MQIACF_Q_STATUS_TYPE: CMQCFC.MQIACF_Q_HANDLE}
    assert fails("INQUIRE_Q_STATUS", wanted)[0] == CMQCFC.MQRCCF_Q_STATUS_NOT_FOUND
    with queue_manager.session("anna", program="billing") as session:
        session.open("A.1", c.MQOO_INPUT_EXCLUSIVE | c.MQOO_INQUIRE)
        (found,) = run("INQUIRE_Q_STATUS", wanted)
        (row,) = queue_manager.mqsc("DISPLAY QSTATUS(A*) TYPE(HANDLE) ALL").rows
        wanted[CMQCFC.MQIACF_Q_STATUS_ATTRS] = [CMQCFC.MQIACF_OPEN_OUTPUT]
        (chosen,) = run("INQUIRE_Q_STATUS", wanted)
    assert found[CMQC.MQCA_Q_NAME].rstrip() == b"A.1"
    assert found[CMQCFC.MQCACF_APPL_TAG].rstrip().decode() == row["APPLTAG"] == "billing"
    assert found[CMQCFC.MQCACF_USER_IDENTIFIER].rstrip() == b"anna"
    assert found[CMQCFC.MQIACF_OPEN_INPUT_TYPE] == CMQCFC.MQQSO_EXCLUSIVE
    assert found[CMQCFC.MQIACF_OPEN_INQUIRE] == CMQCFC.MQQSO_YES
    assert found[CMQCFC.MQIACF_OPEN_OUTPUT] == CMQCFC.MQQSO_NO
    assert found[CMQCFC.MQIACF_OPEN_OPTIONS] == c.MQOO_INPUT_EXCLUSIVE | c.MQOO_INQUIRE
    assert found[CMQCFC.MQBACF_CONNECTION_ID].hex().upper().endswith(row["CONN"])
    assert set(chosen) == {
        CMQC.MQCA_Q_NAME,
        CMQCFC.MQIACF_Q_STATUS_TYPE,
        CMQCFC.MQIACF_OPEN_OUTPUT,
    }


def test_the_time_on_a_queue_is_two_numbers(
    queue_manager: QueueManager, clock: VirtualClock, run: Run
) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(A.1)")
    wanted = {CMQC.MQCA_Q_NAME: b"A.1"}
    (found,) = run("INQUIRE_Q_STATUS", wanted)
    assert found[CMQCFC.MQIACF_Q_TIME_INDICATOR] == [-1, -1]
    queue_manager.mqsc("ALTER QLOCAL(A.1) MONQ(HIGH)")
    with queue_manager.session() as session:
        session.put("A.1", b"")
        clock.advance(3)
        session.get("A.1")
    (found,) = run("INQUIRE_Q_STATUS", wanted)
    assert found[CMQCFC.MQIACF_Q_TIME_INDICATOR] == [3_000, 3_000]


def test_topic_strings_are_found_by_wildcards_with_subscriptions_and_publishers(
    queue_manager: QueueManager, run: Run, fails: Fails
) -> None:
    queue_manager.mqsc(
        "DEFINE TOPIC(A) TOPICSTR('a')\nDEFINE TOPIC(B) TOPICSTR('a/b')\nDEFINE QLOCAL(Q1)\n"
        "DEFINE SUB('watch') TOPICSTR('a/b') DEST(Q1)"
    )

    def asked(kind: int) -> dict[int, object]:
        return {CMQC.MQCA_TOPIC_STRING: b"a/#", CMQCFC.MQIACF_TOPIC_STATUS_TYPE: kind}

    found = run("INQUIRE_TOPIC_STATUS", {CMQC.MQCA_TOPIC_STRING: b"a/#"})
    shown = [(each[CMQC.MQCA_TOPIC_STRING], each[CMQC.MQIA_SUB_COUNT]) for each in found]
    assert [(name.rstrip(b"\0"), count) for name, count in shown] == [(b"a", 0), (b"a/b", 1)]
    (subscriber,) = run("INQUIRE_TOPIC_STATUS", asked(CMQCFC.MQIACF_TOPIC_SUB))
    assert subscriber[CMQC.MQCA_TOPIC_STRING].rstrip(b"\0") == b"a/b"
    (row,) = queue_manager.mqsc("DISPLAY SUB('watch') SUBID").rows
    assert subscriber[CMQCFC.MQBACF_SUB_ID].hex().upper() == row["SUBID"]
    reason, text = fails("INQUIRE_TOPIC_STATUS", asked(CMQCFC.MQIACF_TOPIC_PUB))
    assert (reason, "'a/#'" in text) == (CMQCFC.MQRCCF_TOPIC_STRING_NOT_FOUND, True)
    with queue_manager.session("anna") as session:
        session.open_topic("a", c.MQOO_OUTPUT)
        (publisher,) = run("INQUIRE_TOPIC_STATUS", asked(CMQCFC.MQIACF_TOPIC_PUB))
    assert publisher[CMQCFC.MQCACF_USER_IDENTIFIER].rstrip() == b"anna"
    busy = pymqi.Filter(CMQC.MQIA_SUB_COUNT).greater(0)
    assert len(run("INQUIRE_TOPIC_STATUS", {CMQC.MQCA_TOPIC_STRING: b"#"}, [busy])) == 1


def test_programs_are_counted_by_name(queue_manager: QueueManager, run: Run, fails: Fails) -> None:
    with queue_manager.session(program="billing"), queue_manager.session(program="billing"):
        (found,) = run("INQUIRE_APPL_STATUS", {CMQCFC.MQCACF_APPL_NAME: b"bil*"})
        assert found[CMQCFC.MQCACF_APPL_NAME].rstrip(b"\0") == b"billing"
        assert found[CMQCFC.MQIACF_APPL_INFO_TYPE] == CMQCFC.MQIACF_APPL_INFO_APPL
        assert found[CMQCFC.MQIACF_APPL_COUNT] == 2
        busy = pymqi.Filter(CMQCFC.MQIACF_APPL_COUNT).greater(1)
        assert len(run("INQUIRE_APPL_STATUS", {}, [busy])) == 1

        def asked(kind: int) -> dict[int, object]:
            return {CMQCFC.MQCACF_APPL_NAME: b"bil*", CMQCFC.MQIACF_APPL_INFO_TYPE: kind}

        (here,) = run("INQUIRE_APPL_STATUS", asked(CMQCFC.MQIACF_APPL_INFO_QMGR))
        assert here[CMQC.MQCA_Q_MGR_NAME].rstrip() == queue_manager.name.encode()
        assert here[CMQCFC.MQIACF_REMOTE_QMGR_ACTIVE] == CMQCFC.MQACTIVE_YES
        each = run("INQUIRE_APPL_STATUS", asked(CMQCFC.MQIACF_APPL_INFO_LOCAL))
        assert [one[CMQCFC.MQIACF_APPL_IMMOVABLE_REASON] for one in each] == (
            [CMQCFC.MQIMMREASON_NOT_CLIENT] * 2
        )
        assert {one[CMQCFC.MQIACF_APPL_MOVABLE] for one in each} == {CMQCFC.MQACTIVE_NO}
        assert {len(one[CMQCFC.MQBACF_CONN_TAG]) for one in each} == {128}
    reason, text = fails("INQUIRE_APPL_STATUS", {CMQCFC.MQCACF_APPL_NAME: b"bil*"})
    assert reason == CMQCFC.MQRCCF_APPL_STATUS_NOT_FOUND
    assert "'bil*'" in text


def test_how_users_are_checked_is_shown(queue_manager: QueueManager, run: Run) -> None:
    queue_manager.mqsc("ALTER QMGR CHLAUTH(DISABLED)")
    (found,) = run("INQUIRE_SECURITY")
    assert found[CMQC.MQIA_CHLAUTH_RECORDS] == 0
    assert found[CMQC.MQCA_CONN_AUTH].rstrip() == b"SYSTEM.DEFAULT.AUTHINFO.IDPWOS"
    (found,) = run(
        "INQUIRE_SECURITY", {CMQCFC.MQIACF_SECURITY_ATTRS: [CMQC.MQIA_REVERSE_DNS_LOOKUP]}
    )
    assert set(found) == {CMQC.MQCA_Q_MGR_NAME, CMQC.MQIA_REVERSE_DNS_LOOKUP}
    everything = {CMQCFC.MQIACF_AUTH_SERVICE_ATTRS: [CMQCFC.MQIACF_ALL]}
    (found,) = run("INQUIRE_AUTH_SERVICE", everything)
    assert found[CMQCFC.MQIACF_USER_ID_SUPPORT] == CMQCFC.MQUIDSUPP_YES
    assert [each.strip() for each in found[CMQCFC.MQCACF_SERVICE_COMPONENT]] == [b"Mayfly"]
    (found,) = run("INQUIRE_AUTH_SERVICE", {CMQCFC.MQCACF_SERVICE_COMPONENT: b"other"})
    assert [each.strip() for each in found[CMQCFC.MQCACF_SERVICE_COMPONENT]] == [b""]


@pytest.mark.parametrize(
    ("command", "parameters", "reason"),
    [
        ("CLUSTER_Q_MGR", {CMQC.MQCA_CLUSTER_Q_MGR_NAME: b"*"}, CMQCFC.MQRCCF_NONE_FOUND),
        (
            "Q",
            {CMQC.MQCA_Q_NAME: b"*", CMQC.MQIA_Q_TYPE: CMQC.MQQT_CLUSTER},
            CMQC.MQRC_UNKNOWN_OBJECT_NAME,
        ),
        (
            "TOPIC",
            {CMQC.MQCA_TOPIC_NAME: b"*", CMQC.MQIA_TOPIC_TYPE: CMQC.MQTOPT_CLUSTER},
            CMQC.MQRC_UNKNOWN_OBJECT_NAME,
        ),
    ],
)
def test_nothing_is_in_a_cluster(
    fails: Fails, command: str, parameters: dict[int, object], reason: int
) -> None:
    assert fails(f"INQUIRE_{command}", parameters)[0] == reason


def test_the_status_of_a_subscription_counts_what_it_got(
    queue_manager: QueueManager, clock: VirtualClock, run: Run
) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(A.1)\nDEFINE SUB('watch') TOPICSTR('gates') DEST(A.1)")
    wanted = {CMQCFC.MQCACF_SUB_NAME: b"watch"}
    assert run("INQUIRE_SUB_STATUS", wanted)[0][CMQCFC.MQIACF_MESSAGE_COUNT] == 0
    with queue_manager.session(transacted=True) as session:
        session.publish("gates", b"one")
        session.publish("others", b"two")
        session.publish("gates", b"three", delay_ms=1_000)
    (found,) = run("INQUIRE_SUB_STATUS", wanted)
    (row,) = queue_manager.mqsc("DISPLAY SBSTATUS('watch') ALL").rows
    assert found[CMQCFC.MQIACF_MESSAGE_COUNT] == row["NUMMSGS"] == 2
    assert found[CMQCFC.MQCACF_LAST_MSG_DATE].decode().rstrip() == row["LMSGDATE"] != ""
    assert found[CMQCFC.MQCACF_LAST_MSG_TIME].decode() == row["LMSGTIME"] != ""
    assert row["RESMDATE"] == row["RESMTIME"] == ""
    assert found[CMQCFC.MQBACF_CONNECTION_ID] == bytes(24)
    with queue_manager.session() as session:
        session.publish("gates/1", b"kept", retain=True)
        session.subscribe("gates/#", name="late", durable=True).close()
    (row,) = queue_manager.mqsc("DISPLAY SBSTATUS('late') ALL").rows
    assert (row["NUMMSGS"], row["RESMTIME"]) == (1, row["LMSGTIME"])


def test_a_publication_that_fails_is_not_counted(queue_manager: QueueManager) -> None:
    queue_manager.mqsc(
        "DEFINE QLOCAL(A.1)\nDEFINE QLOCAL(A.2) MAXDEPTH(0)\n"
        "DEFINE TOPIC(GATES) TOPICSTR('gates') NPMSGDLV(ALL) USEDLQ(NO)\n"
        "DEFINE SUB(FIRST) TOPICSTR('gates') DEST(A.1)\n"
        "DEFINE SUB(FULL) TOPICSTR('gates') DEST(A.2)"
    )
    with queue_manager.session() as session, pytest.raises(MQError, match="PUBLICATION_FAILURE"):
        session.publish("gates", b"one")
    rows = queue_manager.mqsc("DISPLAY SBSTATUS(*) NUMMSGS").rows
    assert [row["NUMMSGS"] for row in rows] == [0, 0]


def test_standard_objects_are_what_ibm_mq_makes(queue_manager: QueueManager) -> None:
    (kind, name), *_ = (each for each in STANDARD_OBJECTS if each[0] == "LISTENER")
    assert kind == "LISTENER"
    asked(
        queue_manager,
        k.MQCMD_CHANGE_LISTENER,
        string(k.MQCACH_LISTENER_NAME, name),
        integer(k.MQIACH_BACKLOG, 7),
    )
    (row,) = queue_manager.mqsc(f"DISPLAY LISTENER({name}) BACKLOG").rows
    assert row["BACKLOG"] == 7
