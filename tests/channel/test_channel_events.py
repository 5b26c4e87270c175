"""Events of channels and of partners that are refused (V13)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

import mayfly
from mayfly.admin.security.admission import Admission, Applicant
from mayfly.admin.security.users import users_of
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi import event_constants as e
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.servers.clients import ChannelClient, ChannelInstances
from mayfly.testing import VirtualClock
from tests.channel.scene import CHANNEL, XMITQ, bodies, done, put, receiving, sending
from tests.facts import wait_until
from tests.spec.event_scene import CHANNELS, MANAGER, SeenEvent, reasons, seen

STARTED, STOPPED = e.MQRC_CHANNEL_STARTED, e.MQRC_CHANNEL_STOPPED
BY_USER = e.MQRC_CHANNEL_STOPPED_BY_USER


def qualifiers(events: list[SeenEvent]) -> list[tuple[int, object]]:
    return [(event.reason, event.value(e.MQIACF_REASON_QUALIFIER)) for event in events]


def test_V13_start_retry_and_stop_of_both_ends_are_events(clock: VirtualClock) -> None:
    with sending(clock, DISCINT=0) as first, receiving(clock) as second:
        for manager in (first, second):
            done(manager, "ALTER QMGR CHLEV(ENABLED)")
        done(first, f"START CHANNEL({CHANNEL})")
        put(first, b"x")
        assert bodies(second) == [b"x"]
        with first.session() as here, second.session() as there:
            [started] = seen(here, CHANNELS)
            assert started.parameters == [
                c.MQCA_Q_MGR_NAME,
                k.MQCACH_CHANNEL_NAME,
                k.MQCACH_XMIT_Q_NAME,
                k.MQCACH_CONNECTION_NAME,
            ]
            assert started.value(k.MQCACH_XMIT_Q_NAME) == XMITQ
            [accepted] = seen(there, CHANNELS)
            assert (accepted.reason, accepted.value(k.MQCACH_CHANNEL_NAME)) == (STARTED, CHANNEL)
            assert accepted.value(k.MQCACH_XMIT_Q_NAME) is None
            done(second, f"STOP CHANNEL({CHANNEL})")
            assert sorted(qualifiers(seen(there, CHANNELS))) == [
                (BY_USER, e.MQRQ_CHANNEL_STOPPED_DISABLED),
                (STOPPED, e.MQRQ_CHANNEL_STOPPED_OK),
            ]
            put(first, b"y")
            [retrying] = seen(here, CHANNELS)
            assert qualifiers([retrying]) == [(STOPPED, e.MQRQ_CHANNEL_STOPPED_RETRY)]
            assert "ended" in str(retrying.value(k.MQCACF_AUX_ERROR_DATA_STR_1))
            # It was not connected: a second Channel Stopped would have no start.
            done(first, f"STOP CHANNEL({CHANNEL})")
            assert qualifiers(seen(here, CHANNELS)) == [(BY_USER, e.MQRQ_CHANNEL_STOPPED_DISABLED)]


def test_V13_exception_leaves_out_what_goes_well(clock: VirtualClock) -> None:
    with sending(clock, DISCINT=10) as first, receiving(clock):
        done(first, "ALTER QMGR CHLEV(EXCEPTION)")
        done(first, f"START CHANNEL({CHANNEL})")
        clock.advance(11_000)
        with first.session() as session:
            assert reasons(session, CHANNELS) == []
            done(first, f"STOP CHANNEL({CHANNEL})")
            assert reasons(session, CHANNELS) == [BY_USER]


def refused(admission: Admission, applicant: Applicant) -> int:
    try:
        admission.admit(applicant)
    except MQError as error:
        return error.reason
    return rc.MQRC_NONE


def test_V13_a_partner_that_a_rule_tls_or_a_password_keeps_out_is_an_event(
    clock: VirtualClock,
) -> None:
    with mayfly.QueueManager("QM1", user="root") as qm:
        done(
            qm,
            "DEFINE CHANNEL(APP) CHLTYPE(SVRCONN)\n"
            "DEFINE CHANNEL(TLS) CHLTYPE(SVRCONN) SSLCIPH(ANY_TLS12_OR_HIGHER)\n"
            "SET CHLAUTH(APP) TYPE(ADDRESSMAP) ADDRESS('192.0.2.7') USERSRC(NOACCESS)\n"
            "SET CHLAUTH(APP) TYPE(ADDRESSMAP) ADDRESS('192.0.2.8') USERSRC(NOACCESS) WARN(YES)\n"
            "SET CHLAUTH(APP) TYPE(BLOCKUSER) USERLIST('anna')\n"
            "ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) FAILDLAY(0)\n"
            "ALTER QMGR CHLEV(EXCEPTION) SSLEV(ENABLED) AUTHOREV(ENABLED)",
        )
        users_of(qm.engine).add("anna", "secret", [])
        admission = Admission([qm.engine], clock=clock)
        anna = Applicant(
            user="anna",
            password="secret",
            queue_manager="QM1",
            address="127.0.0.1",
            channel="APP",
        )
        for applicant in (
            Applicant(queue_manager="QM1", address="192.0.2.7", channel="APP"),
            Applicant(queue_manager="QM1", address="192.0.2.8", channel="APP"),
            anna,
            replace(anna, channel="TLS"),
        ):
            assert refused(admission, applicant)
        wrong = Applicant(
            queue_manager="QM1",
            address="127.0.0.1",
            channel="APP",
            user="eve",
            password="guessed",
            application="probe",
        )
        assert refused(admission, wrong) == rc.MQRC_NOT_AUTHORIZED
        admission.close()
        with qm.session() as session:
            blocked, warned, of_user, tls = seen(session, CHANNELS)
            [unproved, guessed] = seen(session, MANAGER)
    assert qualifiers([blocked, warned, of_user, tls]) == [
        (e.MQRC_CHANNEL_BLOCKED, e.MQRQ_CHANNEL_BLOCKED_NOACCESS),
        (e.MQRC_CHANNEL_BLOCKED_WARNING, e.MQRQ_CHANNEL_BLOCKED_NOACCESS),
        (e.MQRC_CHANNEL_BLOCKED, e.MQRQ_CHANNEL_BLOCKED_USERID),
        (e.MQRC_CHANNEL_SSL_ERROR, e.MQRQ_SSL_CIPHER_SPEC_ERROR),
    ]
    assert blocked.value(k.MQCACH_CONNECTION_NAME) == "192.0.2.7"
    assert of_user.value(k.MQCACF_USER_IDENTIFIER) == "anna"
    assert guessed.value(e.MQIACF_REASON_QUALIFIER) == e.MQRQ_CSP_NOT_AUTHORIZED
    assert guessed.value(k.MQCACF_USER_IDENTIFIER) == "eve"
    assert guessed.value(e.MQCACF_APPL_NAME) == "probe"
    assert guessed.value(k.MQCACH_CONNECTION_NAME) == "127.0.0.1"
    assert guessed.value(k.MQCACH_CHANNEL_NAME) == "APP"
    assert unproved.reason == rc.MQRC_NOT_AUTHORIZED


def has_messages(qm: mayfly.QueueManager, queue: str, count: int) -> bool:
    return qm.curdepth(queue) == count


def test_V13_a_client_above_the_instances_of_its_channel_is_an_event(clock: VirtualClock) -> None:
    with mayfly.QueueManager("QM1") as qm:
        done(
            qm,
            "DEFINE CHANNEL(APP) CHLTYPE(SVRCONN) MAXINST(2) MAXINSTC(1)\n"
            "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('anna') AUTHADD(CONNECT)\n"
            "ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) CHCKCLNT(NONE)\n"
            "ALTER QMGR CHLEV(EXCEPTION) CHLAUTH(DISABLED)",
        )
        admission, instances = Admission([qm.engine], clock=clock), ChannelInstances()

        def enter(address: str) -> None:
            """Let a client in, and count it."""
            applicant = Applicant(queue_manager="QM1", address=address, channel="APP", user="anna")
            instances.enter(ChannelClient("QM1", "APP", address), admission.admit(applicant))

        enter("192.0.2.7")
        for count, (address, *others) in enumerate((("192.0.2.7",), ("192.0.2.9", "192.0.2.8")), 1):
            for other in others:
                enter(other)
            with pytest.raises(MQError) as raised:
                enter(address)
            assert raised.value.reason == rc.MQRC_CHANNEL_NOT_AVAILABLE
            # A thread of admission makes the event.
            wait_until(partial(has_messages, qm, CHANNELS, count))
        admission.close()
        with qm.session() as session:
            of_client, of_channel = seen(session, CHANNELS)
    assert qualifiers([of_client, of_channel]) == [
        (rc.MQRC_CHANNEL_NOT_AVAILABLE, e.MQRQ_CLIENT_INST_LIMIT),
        (rc.MQRC_CHANNEL_NOT_AVAILABLE, e.MQRQ_SVRCONN_INST_LIMIT),
    ]
    places = [event.value(k.MQCACH_CONNECTION_NAME) for event in (of_client, of_channel)]
    assert places == ["192.0.2.7", "192.0.2.9"]
    assert of_client.value(k.MQIACH_MAX_INSTS_PER_CLIENT) == 1
    assert of_channel.value(k.MQIACH_MAX_INSTANCES) == 2
