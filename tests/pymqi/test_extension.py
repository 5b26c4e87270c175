"""An MQMD of version 1 and an MQMDE before the data say what one of version 2 says alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mayfly import QueueManager, pymqi
from mayfly.pymqi import CMQC

Fails = Callable[..., pymqi.MQMIError]

GROUP_ID = b"G".ljust(24, b"!")
LAST = CMQC.MQMF_LAST_MSG_IN_GROUP | CMQC.MQMF_MSG_IN_GROUP
FORMAT = CMQC.MQFMT_MD_EXTENSION
LENGTH = 72


def extension(**fields: object) -> pymqi.MDE:
    """An MQMDE for the third message, the last one, of a group; what follows it is text."""
    given = {"GroupId": GROUP_ID, "MsgSeqNumber": 3, "MsgFlags": LAST, **fields}
    return pymqi.MDE(Format=CMQC.MQFMT_STRING, CodedCharSetId=1208, **given)


def put_last_of_group(queue: pymqi.Queue) -> None:
    md = pymqi.MD(Version=2, Format=CMQC.MQFMT_STRING, CodedCharSetId=819)
    md.set(GroupId=GROUP_ID, MsgSeqNumber=3, MsgFlags=LAST, Expiry=600)
    queue.put(b"data", md)


def read(body: bytes) -> pymqi.MDE:
    found = pymqi.MDE()
    found.unpack(body[:LENGTH])
    return found


def test_a_get_with_version_1_has_an_MQMDE_before_the_data_of_a_member(queue: pymqi.Queue) -> None:
    put_last_of_group(queue)
    md = pymqi.MD()
    body = queue.get(None, md)
    assert (md.Version, md.Format, md.Expiry) == (1, FORMAT, 600)
    assert (md.Encoding, md.CodedCharSetId) == (CMQC.MQENC_NATIVE, 1208)
    found = read(body)
    assert (found.GroupId, found.MsgSeqNumber, found.MsgFlags) == (GROUP_ID, 3, LAST)
    assert (found.Format, found.CodedCharSetId) == (CMQC.MQFMT_STRING, 819)
    assert body[LENGTH:] == b"data"


def test_no_MQMDE_where_it_would_say_nothing(queue: pymqi.Queue) -> None:
    queue.put(b"data", pymqi.MD(Version=2, GroupId=GROUP_ID, Format=CMQC.MQFMT_STRING))
    md = pymqi.MD()
    assert queue.get(None, md) == b"data"
    assert md.Format == CMQC.MQFMT_STRING


def test_G05_the_MQMDE_counts_for_the_buffer(queue: pymqi.Queue, fails: Fails) -> None:
    put_last_of_group(queue)
    error = fails(queue.get, LENGTH + 3, pymqi.MD(), pymqi.GMO())
    assert error.reason == CMQC.MQRC_TRUNCATED_MSG_FAILED
    assert (error.original_length, len(error.message)) == (LENGTH + 4, LENGTH + 3)
    browse = pymqi.GMO(Options=CMQC.MQGMO_BROWSE_FIRST)
    assert len(queue.get(LENGTH + 4, pymqi.MD(), browse)) == LENGTH + 4
    assert queue.get(4, pymqi.MD(Version=2)) == b"data"


def test_G07_the_MQMDE_is_converted_with_the_data(queue: pymqi.Queue) -> None:
    put_last_of_group(queue)
    md = pymqi.MD(Encoding=CMQC.MQENC_NORMAL, CodedCharSetId=500)
    body = queue.get(None, md, pymqi.GMO(Options=CMQC.MQGMO_CONVERT))
    assert body[:4] == "MDE ".encode("cp500")
    assert int.from_bytes(body[56:60], "big") == 3
    assert body[LENGTH:] == "data".encode("cp500")


@pytest.mark.parametrize("version", [1, 2])
def test_a_put_takes_the_fields_of_an_MQMDE_for_its_own(queue: pymqi.Queue, version: int) -> None:
    sent = pymqi.MD(Version=version, Format=FORMAT)
    queue.put(extension().pack() + b"data", sent)
    assert sent.Format == FORMAT
    md = pymqi.MD(Version=2)
    assert queue.get(None, md) == b"data"
    assert (md.GroupId, md.MsgSeqNumber, md.MsgFlags) == (GROUP_ID, 3, LAST)
    assert (md.Format, md.CodedCharSetId) == (CMQC.MQFMT_STRING, 1208)


def test_what_was_got_with_version_1_is_a_member_again_when_it_is_put(queue: pymqi.Queue) -> None:
    put_last_of_group(queue)
    md = pymqi.MD()
    queue.put(queue.get(None, md), md)
    again = pymqi.MD(Version=2)
    assert queue.get(None, again) == b"data"
    assert (again.GroupId, again.MsgSeqNumber, again.Expiry) == (GROUP_ID, 3, 600)


def test_an_MQMDE_behind_fields_of_version_2_is_data(queue: pymqi.Queue) -> None:
    body = extension().pack() + b"data"
    queue.put(body, pymqi.MD(Version=2, Format=FORMAT, MsgFlags=LAST, GroupId=b"H"))
    md = pymqi.MD(Version=2)
    assert queue.get(None, md) == body
    assert (md.Format, md.GroupId[:1]) == (FORMAT, b"H")


def test_an_MQMDE_in_another_encoding_is_data(queue: pymqi.Queue) -> None:
    body = extension().pack() + b"data"
    queue.put(body, pymqi.MD(Format=FORMAT, Encoding=CMQC.MQENC_NORMAL))
    assert queue.get(None, pymqi.MD(Version=2)) == body


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", CMQC.MQRC_MDE_ERROR),
        (extension().pack()[:-1], CMQC.MQRC_MDE_ERROR),
        (b"MDX" + extension().pack()[3:], CMQC.MQRC_MDE_ERROR),
        (extension(MsgSeqNumber=0).pack(), CMQC.MQRC_MSG_SEQ_NUMBER_ERROR),
        (extension(MsgFlags=0x400).pack(), CMQC.MQRC_MSG_FLAGS_ERROR),
    ],
)
def test_2248_and_its_like_for_a_wrong_MQMDE(
    queue_manager: QueueManager, queue: pymqi.Queue, fails: Fails, body: bytes, reason: int
) -> None:
    assert fails(queue.put, body, pymqi.MD(Format=FORMAT)).reason == reason
    assert queue_manager.curdepth("Q1") == 0
