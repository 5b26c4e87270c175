"""Any command of MQSC has a reply, whatever its words are, and one that fails does nothing."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mayfly import QueueManager
from mayfly.admin import QUEUE_KINDS, displayed
from mayfly.admin.mqsc.commands import OBJECTS_OF_VERBS
from mayfly.admin.mqsc.export import exported

SCENE = (
    "DEFINE QLOCAL(A.1)\nDEFINE QLOCAL(TO.QM2) USAGE(XMITQ)\nDEFINE PROCESS(JOB)\n"
    "DEFINE CHANNEL(TO.QM2) CHLTYPE(SDR) XMITQ(TO.QM2) CONNAME(QM2)\n"
    "DEFINE TOPIC(GATES) TOPICSTR('gates')\nDEFINE SUB('watch') TOPICSTR('gates') DEST(A.1)"
)
#: Keywords that are no attributes of an object.
BESIDE = (
    "ALL WHERE TYPE LIKE REPLACE NOREPLACE FORCE PURGE IGNSTATE ACTION MODE STATUS SEQNUM OBJECT"
    " INCLINT NAME PROFILE OBJTYPE PRINCIPAL GROUP AUTHADD AUTHRMV SERVCOMP MATCH USERSRC MCAUSER"
    " ADDRESS USERLIST CLNTUSER QMNAME CLRTYPE TOQLOCAL VALUE CHLTABLE TOLERATE SIGNER RECIP PORT"
).split()
VALUES = st.one_of(
    st.sampled_from(
        (
            "A.1 A* * TO.QM2 GATES 'watch' JOB '' YES NO ENABLED QLOCAL SVRCONN SDR CONFIGEV EXPIRY"
            " ADD REMOVE 'gates/#' '*.*' 10.0.0.1 CURDEPTH,GT,0 'CAPEXPRY(5)' 'a''b' ZLIBFAST,NONE"
        ).split()
    ),
    st.integers(-2, 12).map(str),
    st.integers(-(10**19), 10**19).map(str),
    st.text(st.sampled_from("A1.*/#%_-'é\0\U0001f600 \t(),"), max_size=8),
)


@st.composite
def commands(draw: st.DrawFn) -> str:
    """Return a command whose words are mostly right, and whose values are any."""
    verb = draw(st.sampled_from(sorted(OBJECTS_OF_VERBS)))
    kind = draw(st.sampled_from(sorted(OBJECTS_OF_VERBS[verb])))
    known = sorted(displayed(QUEUE_KINDS if kind == "QUEUE" else (kind,))) or BESIDE
    parts = [verb, kind if draw(st.integers(0, 5)) == 0 else f"{kind}({draw(VALUES)})"]
    if kind == "CHANNEL":
        parts.append(draw(st.sampled_from(["", "CHLTYPE(SDR)", "CHLTYPE(SVRCONN)"])))
    keywords = st.one_of(st.sampled_from(known), st.sampled_from(BESIDE))
    parts += [
        keyword if draw(st.booleans()) else f"{keyword}({draw(VALUES)})"
        for keyword in draw(st.lists(keywords, max_size=3))
    ]
    return " ".join(parts)


@settings(max_examples=40)
@given(commands())
def test_each_command_has_a_reply_whatever_it_is_given(command: str) -> None:
    with QueueManager("QM1") as manager:
        assert manager.mqsc(SCENE).ok
        before = exported(manager.mqsc)
        result = manager.mqsc(command)
        assert all(each.messages for each in result.commands), command
        failed = [each for each in result.messages if not each.is_information]
        assert all(each.line for each in failed), command
        if failed and len(result.commands) == 1:
            assert exported(manager.mqsc) == before, command
