"""Any command with any parameters has an answer, and never another error."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mayfly import QueueManager
from mayfly.admin.pcf import COMMANDS, answer
from mayfly.admin.pcf.objects import keywords_of
from mayfly.admin.security.applicant import Admitted
from mayfly.mqi import command_constants as k
from mayfly.mqi.pcf import Header, Structure, integer, pack, string, unpack
from mayfly.pymqi import CMQC, CMQCFC

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


@settings(max_examples=300)
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
