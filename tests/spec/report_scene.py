"""Helpers of the tests of reports: an original with every field set, and each cause at work."""

import pytest

from mayfly import QueueManager
from mayfly.lifetime.reports import Cause
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import Message
from tests.spec.scene import (
    REPLIES,
    V2,
    alter,
    put_md,
)

#: When each report of these tests is made, after the put at START_MS.
MADE_MS = {Cause.EXPIRATION: 2_000, Cause.EXCEPTION: 1_000, Cause.COA: 0, Cause.COD: 500}
FEEDBACK = {
    Cause.EXPIRATION: c.MQFB_EXPIRATION,
    Cause.EXCEPTION: rc.MQRC_PUT_INHIBITED,
    Cause.COA: c.MQFB_COA,
    Cause.COD: c.MQFB_COD,
}
CAUSES = pytest.mark.parametrize("cause", list(Cause), ids=lambda cause: cause.name)
DATA, FULL = 2, 4
ORIGINAL = V2._replace(
    reply_to_q=REPLIES,
    format="MQSTR",
    encoding=273,
    coded_char_set_id=1208,
    priority=7,
    persistence=c.MQPER_PERSISTENT,
    user_identifier="carl",
    accounting_token=b"token",
    appl_identity_data="identity",
    appl_origin_data="orig",
    put_appl_name="program",
    put_appl_type=c.MQAT_JAVA,
    group_id=b"G" * 24,
    msg_seq_number=3,
    offset=5,
    msg_flags=c.MQMF_MSG_IN_GROUP,
)
BODY = bytes(range(250))
MSG_ID, CORREL_ID = b"M".ljust(24, b"m"), b"C".ljust(24, b"c")


def cause_report(
    qm: QueueManager, cause: Cause, original: Descriptor, data: bytes = BODY, life_ms: int = 2_000
) -> None:
    """Put an original and let happen to it what owes the report."""
    clock = qm.clock
    assert isinstance(clock, VirtualClock)
    is_delayed = cause is Cause.EXCEPTION
    if is_delayed:
        # D9: no message of a group is delayed.
        original = original._replace(msg_flags=c.MQMF_NONE)
    with qm.session("bert") as session:
        put_md(
            session,
            "Q1",
            data,
            original,
            msg_id=MSG_ID,
            correl_id=CORREL_ID,
            life_ms=life_ms,
            delay_ms=1_000 if is_delayed else 0,
            options=c.MQPMO_SET_ALL_CONTEXT,
        )
        if is_delayed:
            alter(qm, "Q1", PUT=c.MQQA_PUT_INHIBITED)
        clock.advance(MADE_MS[cause])
        if cause is not Cause.COA:
            session.get("Q1")


def report_of(
    qm: QueueManager, cause: Cause, original: Descriptor, data: bytes = BODY, life_ms: int = 2_000
) -> Message:
    """Return the report about an original."""
    cause_report(qm, cause, original, data, life_ms)
    with qm.session() as session:
        report = session.get(REPLIES)
        assert session.get(REPLIES) is None
    assert report is not None
    return report


def asking(cause: Cause, more: int = 0) -> Descriptor:
    """Return the original that asks for a report."""
    return ORIGINAL._replace(report=cause.value | more)
