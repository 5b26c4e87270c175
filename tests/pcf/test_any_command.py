"""Any command with any parameters has an answer, and no message stops the command server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mayfly import QueueManager
from mayfly.admin.pcf.commands import COMMANDS, answer
from mayfly.admin.pcf.objects import keywords_of
from mayfly.admin.security.applicant import Admitted
from mayfly.engine import PutRequest
from mayfly.mqi import command_constants as k
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.pcf import Header, Structure, integer, pack, string, unpack
from mayfly.pymqi import CMQC, CMQCFC
from mayfly.services.command_server import COMMAND_QUEUE, start_command_server
from tests.examples import examples

OPERATOR = Admitted(user="", is_operator=True)
#: Parameters of all commands, and two of none.
PARAMETERS = st.sampled_from(
    [
        *(
            value
            for module in (CMQC, CMQCFC)
            for name, value in vars(module).items()
            if name.startswith(("MQCA_", "MQIA_", "MQIACF_", "MQCACF_", "MQIACH_", "MQCACH_"))
        ),
        CMQCFC.MQBACF_CONNECTION_ID,
        CMQCFC.MQBACF_GENERIC_CONNECTION_ID,
        CMQCFC.MQBACF_SUB_ID,
        0,
        -1,
    ]
)
#: What names the objects of the queue manager below, and texts that name none.
TEXTS = st.one_of(
    st.sampled_from(
        [b"", b"*", b"#", b"gates/+", b"A*", b"A.1", b"TO.QM2", b"GATES", b"watch", b"JOB", b"a b"]
    ),
    st.binary(max_size=6),
)
NUMBERS = st.one_of(st.integers(-2, 12), st.integers(-(2**31), 2**31 - 1))
STRUCTURES = st.one_of(
    st.builds(Structure, st.just(k.MQCFT_INTEGER), PARAMETERS, NUMBERS, st.just(0), st.just(0)),
    st.builds(
        Structure,
        st.just(k.MQCFT_STRING),
        PARAMETERS,
        TEXTS,
        st.just(0),
        st.sampled_from([0, 819, 1208, 1200, 99_999]),
    ),
    st.builds(
        Structure,
        st.just(k.MQCFT_INTEGER_LIST),
        PARAMETERS,
        st.lists(NUMBERS, max_size=3).map(tuple),
        st.just(0),
        st.just(0),
    ),
    st.builds(
        Structure,
        st.just(k.MQCFT_STRING_LIST),
        PARAMETERS,
        st.lists(TEXTS, max_size=3).map(tuple),
        st.just(0),
        st.just(0),
    ),
    st.builds(Structure, st.just(k.MQCFT_BYTE_STRING), PARAMETERS, TEXTS, st.just(0), st.just(0)),
    st.builds(Structure, st.just(k.MQCFT_INTEGER_FILTER), PARAMETERS, NUMBERS, NUMBERS, st.just(0)),
    st.builds(Structure, st.just(k.MQCFT_STRING_FILTER), PARAMETERS, TEXTS, NUMBERS, st.just(0)),
)
#: The parameters that name objects of commands without a type of object.
NAMES = (
    CMQC.MQCA_TOPIC_STRING,
    CMQCFC.MQCACF_AUTH_PROFILE_NAME,
    CMQCFC.MQCACH_CHANNEL_NAME,
)


@st.composite
def commands(draw: st.DrawFn) -> bytes:
    """Return a command: mostly a right one but for some of its parameters."""
    number = draw(st.sampled_from(sorted(COMMANDS)))
    noun = COMMANDS[number].noun
    structures = draw(st.one_of(st.just([]), st.lists(STRUCTURES, max_size=2)))
    texts = st.sampled_from(["*", "#", "A.1", "TO.QM2", "GATES", "watch", "JOB", "NEW"])
    names = NAMES if noun is None else (noun.name, noun.copy_from, noun.copy_to)
    numbers = names if number in (noun.copy if noun else 0, 0) else names[:1]
    structures += [string(each, draw(texts)) for each in numbers]
    if noun is not None:
        kind = draw(st.sampled_from(noun.kinds))
        if noun.type:
            structures.append(integer(noun.type, draw(st.integers(0, 8))))
        for each in draw(st.lists(st.sampled_from(sorted(keywords_of(kind))), max_size=2)):
            value = draw(st.one_of(NUMBERS, texts))
            made = string(each, value) if isinstance(value, str) else integer(each, value)
            structures.append(made)
    if draw(st.integers(0, 9)):
        structures = list({each.parameter: each for each in structures}.values())
    return pack(Header(k.MQCFT_COMMAND, number), draw(st.permutations(structures)))


@settings(max_examples=examples(300))
@given(commands())
def test_each_command_answers_whatever_it_is_given(body: bytes) -> None:
    with QueueManager("QM1") as manager:
        manager.mqsc(
            "DEFINE QLOCAL(A.1)\nDEFINE QLOCAL(TO.QM2) USAGE(XMITQ)\nDEFINE PROCESS(JOB)\n"
            "DEFINE CHANNEL(TO.QM2) CHLTYPE(SDR) XMITQ(TO.QM2) CONNAME(QM2)\n"
            "DEFINE TOPIC(GATES) TOPICSTR('gates')\n"
            "DEFINE SUB('watch') TOPICSTR('gates') DEST(A.1)"
        )
        replies = answer(manager.engine, body, big_endian=False, ccsid=1208, admitted=OPERATOR)
    headers = [unpack(each).header for each in replies]
    assert headers[-1].control == k.MQCFC_LAST
    assert [each.sequence_number for each in headers] == list(range(1, len(headers) + 1))
    if headers[0].comp:
        assert len(headers) == 1
        assert headers[0].reason >= 2000


@st.composite
def messages(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    """Return the data of a message, a command that is damaged or any bytes, and its descriptor."""
    body = bytearray(draw(st.one_of(commands(), st.binary(max_size=200))))
    for _ in range(draw(st.integers(0, 3)) if body else 0):
        body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
    end = draw(st.one_of(st.just(len(body)), st.integers(0, len(body))))
    descriptor = {
        "coded_char_set_id": draw(st.sampled_from([819, 1208, 1200, 500, 1, 99_999])),
        "encoding": draw(st.sampled_from([CMQC.MQENC_NATIVE, 273, 0, 785])),
        "msg_type": draw(st.sampled_from([CMQC.MQMT_REQUEST, CMQC.MQMT_DATAGRAM, 8, 65_536])),
        "report": draw(st.sampled_from([0, CMQC.MQRO_PASS_MSG_ID, CMQC.MQRO_DISCARD_MSG])),
    }
    return bytes(body[:end]), descriptor


@pytest.fixture(scope="module")
def served() -> Iterator[QueueManager]:
    """A queue manager with its command server."""
    with QueueManager("QM1") as manager:
        manager.mqsc("DEFINE QLOCAL(REPLIES) MAXDEPTH(1000)\nDEFINE QLOCAL(A.1)")
        start_command_server(manager)
        yield manager


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(messages(), max_size=5))
def test_no_message_stops_the_command_server(
    served: QueueManager, given_messages: list[tuple[bytes, dict[str, Any]]]
) -> None:
    with served.session() as session:
        handle = session.open(COMMAND_QUEUE, CMQC.MQOO_OUTPUT)
        for body, fields in given_messages:
            descriptor = Descriptor(format="MQADMIN", reply_to_q="REPLIES", **fields)
            handle.put(body, PutRequest(descriptor))
        ping = pack(Header(k.MQCFT_COMMAND, k.MQCMD_PING_Q_MGR), [])
        descriptor = Descriptor(format="MQADMIN", reply_to_q="REPLIES", msg_type=CMQC.MQMT_REQUEST)
        msg_id = handle.put(ping, PutRequest(descriptor)).msg_id
        while True:
            reply = session.get("REPLIES", wait_ms=60_000)
            assert reply is not None
            if reply.correl_id == msg_id:
                break
        assert unpack(reply.body).header.reason == 0
