"""Whatever stands on a transmission queue arrives, becomes a letter or ends; all else goes on.

A message that stopped its channel would stop it again after each START.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mayfly import QueueManager
from mayfly.engine import SettingValue
from mayfly.mqi import constants as c
from mayfly.mqi.structures import MDE
from mayfly.testing import VirtualClock
from tests.channel.scene import (
    CHANNEL,
    START_MS,
    XMITQ,
    bodies,
    by_hand,
    done,
    messages,
    put,
    receiving,
    standing,
)
from tests.channel.test_moving import TRANSIT, put_by_hand
from tests.examples import examples

UNCHECKED: dict[str, SettingValue] = {
    "xqh.enforce_format": False,
    "xqh.check_expiry": False,
    "xqh.expiry_conflict": "allow",
}
DEAD = "SYSTEM.DEAD.LETTER.QUEUE"
NAMES = st.sampled_from(["", "BACK", "QM1", "QM2", "QM9", "a@b", "@", "\xfc" * 24, "b" * 48])
ANY_INT = st.integers(-(2**31), 2**31 - 1)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "Report": st.sampled_from([0, c.MQRO_EXPIRATION, c.MQRO_EXCEPTION_WITH_FULL_DATA])
        | ANY_INT,
        "MsgType": st.sampled_from([c.MQMT_DATAGRAM, c.MQMT_REQUEST]) | ANY_INT,
        "Persistence": st.sampled_from([0, 1, 2, 3]),
        "Priority": st.integers(-2, 10) | ANY_INT,
        "Feedback": ANY_INT,
        "Encoding": st.sampled_from([546, 273]) | ANY_INT,
        "CodedCharSetId": ANY_INT,
        "Format": st.sampled_from(["MQSTR", "MQHMDE", "MQDEAD", "MQXMIT", "MQHRF2", "MQIMS"]),
        "ReplyToQ": NAMES,
        "ReplyToQMgr": NAMES,
        "PutDate": st.sampled_from(["20200101", "not one!"]),
    },
)
EXTENSIONS = st.builds(
    lambda **fields: MDE.pack({"GroupId": b"g" * 24, **fields}),
    MsgFlags=st.sampled_from([0, 8, 24, 2, 6]) | ANY_INT,
    MsgSeqNumber=st.sampled_from([1, 2]) | ANY_INT,
    Offset=st.sampled_from([0, 7]) | ANY_INT,
    OriginalLength=st.sampled_from([-1, 9]) | ANY_INT,
    Format=st.sampled_from(["", "MQSTR", "MQHMDE"]),
)
CHANGES = st.lists(st.tuples(st.integers(8, 500), st.integers(0, 255)), max_size=5)


def changed(data: bytes, changes: list[tuple[int, int]], cut: int) -> bytes:
    """Return data with other bytes in some places, and without the last ones."""
    found = bytearray(data)
    for at, value in changes:
        found[at % len(found)] = value
    return bytes(found[: len(found) - cut])


@pytest.mark.slow
@given(
    queue=st.sampled_from(["IN", "IN", "MISSING", "NEWS", "QM1", DEAD, "", "X@Y"]),
    expiry=st.sampled_from([-1, 0, 1, 100]) | ANY_INT,
    fields=FIELDS,
    body=st.just(b"data") | EXTENSIONS | st.binary(max_size=40),
    changes=CHANGES,
    cut=st.sampled_from([0, 0, 0, 1, 400]),
    persistence=st.sampled_from([0, 1]),
)
@settings(max_examples=examples(120))
def test_no_bytes_stop_a_channel_or_what_is_behind_them(
    queue: str,
    expiry: int,
    fields: dict[str, Any],
    body: bytes,
    changes: list[tuple[int, int]],
    cut: int,
    persistence: int,
) -> None:
    clock = VirtualClock(START_MS)
    with receiving(clock) as two, QueueManager("QM1", clock=clock, settings=UNCHECKED) as one:
        done(two, "DEFINE TOPIC(T) TOPICSTR(news)\nDEFINE QALIAS(NEWS) TARGET(T) TARGTYPE(TOPIC)")
        done(one, f"DEFINE QLOCAL({XMITQ}) USAGE(XMITQ)\nALTER QMGR DEADQ({DEAD})")
        done(one, f"DEFINE CHANNEL({CHANNEL}) CHLTYPE(SDR) CONNAME(QM2) XMITQ({XMITQ})")
        data = changed(by_hand(body, queue=queue, expiry=expiry, **fields), changes, cut)
        put_by_hand(one, data, descriptor=TRANSIT._replace(persistence=persistence))
        put(one, b"behind")
        one.channels.start(CHANNEL)
        assert (standing(one).status, standing(one).failure) == ("RUNNING", "")
        assert bodies(two)[-1:] == [b"behind"]
        assert (one.curdepth(XMITQ), one.counts(XMITQ).locked) == (0, 0)
        # What has arrived can be read, and ends when its life does.
        clock.advance(86_400_000)
        for manager, name in ((two, "IN"), (two, DEAD), (two, "QM1"), (one, DEAD)):
            messages(manager, name)
            assert not manager.is_stopped
        assert one.verify().ok
        assert two.verify().ok
