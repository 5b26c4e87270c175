"""MQGET: matching, waiting, buffers, conversion, units of work; what is written back."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from mayfly import QueueManager, pymqi
from mayfly.pymqi import CMQC
from mayfly.testing import VirtualClock
from tests.spec.scene import JOIN_SECONDS

Fails = Callable[..., pymqi.MQMIError]

WRONG_GMO = [
    ({"StrucId": b"PMO "}, CMQC.MQRC_GMO_ERROR),
    ({"Version": 0}, CMQC.MQRC_GMO_ERROR),
    ({"Version": 5}, CMQC.MQRC_GMO_ERROR),
    ({"Options": CMQC.MQGMO_WAIT, "WaitInterval": -2}, CMQC.MQRC_WAIT_INTERVAL_ERROR),
    (
        {"Options": CMQC.MQGMO_WAIT | CMQC.MQGMO_BROWSE_NEXT, "WaitInterval": -2},
        CMQC.MQRC_WAIT_INTERVAL_ERROR,
    ),
    ({"Version": 2, "MatchOptions": 0x40}, CMQC.MQRC_MATCH_OPTIONS_ERROR),
    ({"Version": 1, "MatchOptions": CMQC.MQMO_MATCH_GROUP_ID}, CMQC.MQRC_WRONG_GMO_VERSION),
    ({"Version": 1, "MatchOptions": CMQC.MQMO_MATCH_OFFSET}, CMQC.MQRC_WRONG_GMO_VERSION),
    ({"Version": 2, "MatchOptions": CMQC.MQMO_MATCH_GROUP_ID}, CMQC.MQRC_WRONG_MD_VERSION),
    (
        {"Version": 2, "MatchOptions": CMQC.MQMO_MATCH_MSG_SEQ_NUMBER},
        CMQC.MQRC_WRONG_MD_VERSION,
    ),
    (
        {"Options": CMQC.MQGMO_SYNCPOINT | CMQC.MQGMO_NO_SYNCPOINT},
        CMQC.MQRC_OPTIONS_ERROR,
    ),
    (
        {"Options": CMQC.MQGMO_SYNCPOINT | CMQC.MQGMO_SYNCPOINT_IF_PERSISTENT},
        CMQC.MQRC_OPTIONS_ERROR,
    ),
    ({"Options": -(2**31)}, CMQC.MQRC_OPTIONS_ERROR),
]


def case(value: object) -> str:
    return " ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else str(value)


@pytest.mark.parametrize(("fields", "reason"), WRONG_GMO, ids=case)
def test_G03_wrong_get_options_fail_the_get_and_change_nothing(
    queue_manager: QueueManager,
    queue: pymqi.Queue,
    fails: Fails,
    fields: dict[str, int],
    reason: int,
) -> None:
    queue.put(b"x")
    md, gmo = pymqi.MD(), pymqi.GMO(**fields)
    before = md.get(), gmo.get()
    error = fails(queue.get, None, md, gmo)
    assert (error.comp, error.reason) == (CMQC.MQCC_FAILED, reason)
    assert (md.get(), gmo.get()) == before
    assert queue_manager.counts("Q1").live == 1


@pytest.mark.parametrize("fields", [{"StrucId": b"XX"}, {"Version": 0}, {"Version": 3}], ids=case)
def test_G03_wrong_descriptor_fails_the_get(
    queue_manager: QueueManager, queue: pymqi.Queue, fails: Fails, fields: dict[str, int]
) -> None:
    queue.put(b"x")
    assert fails(queue.get, None, pymqi.MD(**fields)).reason == CMQC.MQRC_MD_ERROR
    assert queue_manager.curdepth("Q1") == 1


def test_G01_priority_first_then_arrival(queue: pymqi.Queue) -> None:
    for body, priority in ((b"a", 1), (b"b", 5), (b"c", 5), (b"d", 9)):
        queue.put(body, pymqi.MD(Priority=priority))
    assert [queue.get() for _ in range(4)] == [b"d", b"b", b"c", b"a"]


def test_G02_version_1_always_matches_both_ids(queue: pymqi.Queue, fails: Fails) -> None:
    for body, msg_id, correl_id in ((b"1", b"A", b"X"), (b"2", b"B", b"Y"), (b"3", b"A", b"Y")):
        queue.put(body, pymqi.MD(MsgId=msg_id, CorrelId=correl_id))
    gmo = pymqi.GMO(MatchOptions=CMQC.MQMO_NONE)
    assert queue.get(None, pymqi.MD(MsgId=b"A", CorrelId=b"Y"), gmo) == b"3"
    assert queue.get(None, pymqi.MD(CorrelId=b"Y"), gmo) == b"2"
    error = fails(queue.get, None, pymqi.MD(MsgId=b"B"), gmo)
    assert error.reason == CMQC.MQRC_NO_MSG_AVAILABLE
    assert queue.get(None, pymqi.MD(), gmo) == b"1"


def test_G02_descriptor_used_again_filters_the_next_get(queue: pymqi.Queue, fails: Fails) -> None:
    queue.put(b"1")
    queue.put(b"2")
    md = pymqi.MD()
    assert queue.get(None, md) == b"1"
    assert fails(queue.get, None, md).reason == CMQC.MQRC_NO_MSG_AVAILABLE
    md.MsgId = CMQC.MQMI_NONE
    assert queue.get(None, md) == b"2"


def test_G02_version_2_matches_what_it_is_told(queue: pymqi.Queue, fails: Fails) -> None:
    for body, msg_id, correl_id in ((b"1", b"A", b"X"), (b"2", b"B", b"Y")):
        queue.put(body, pymqi.MD(MsgId=msg_id, CorrelId=correl_id))
    wanted = {"MsgId": b"A", "CorrelId": b"Y"}
    both = pymqi.GMO(Version=2)
    assert fails(queue.get, None, pymqi.MD(**wanted), both).reason == CMQC.MQRC_NO_MSG_AVAILABLE
    by_correl_id = pymqi.GMO(Version=2, MatchOptions=CMQC.MQMO_MATCH_CORREL_ID)
    assert queue.get(None, pymqi.MD(**wanted), by_correl_id) == b"2"
    anything = pymqi.GMO(Version=2, MatchOptions=CMQC.MQMO_NONE)
    assert queue.get(None, pymqi.MD(MsgId=b"Z"), anything) == b"1"


def test_G03_version_2_matches_group_sequence_and_offset(queue: pymqi.Queue, fails: Fails) -> None:
    for body, group, number, offset in (
        (b"a1", b"A", 1, 0),
        (b"a2", b"A", 2, 7),
        (b"b1", b"B", 1, 0),
    ):
        md = pymqi.MD(Version=2, GroupId=group, MsgSeqNumber=number, Offset=offset)
        md.MsgFlags = CMQC.MQMF_MSG_IN_GROUP | CMQC.MQMF_SEGMENT
        queue.put(body, md)

    def get(options: int, group: bytes = b"", number: int = 1, offset: int = 0) -> bytes:
        md = pymqi.MD(Version=2, GroupId=group, MsgSeqNumber=number, Offset=offset)
        return queue.get(None, md, pymqi.GMO(Version=2, MatchOptions=options))

    assert get(CMQC.MQMO_MATCH_GROUP_ID, b"B") == b"b1"
    sequence = CMQC.MQMO_MATCH_MSG_SEQ_NUMBER
    assert get(sequence | CMQC.MQMO_MATCH_OFFSET, b"", 2, 7) == b"a2"
    padded = b"A".ljust(24, b"\0")
    error = fails(get, CMQC.MQMO_MATCH_GROUP_ID, padded.replace(b"A", b"C"))
    assert error.reason == CMQC.MQRC_NO_MSG_AVAILABLE
    assert get(CMQC.MQMO_MATCH_GROUP_ID, padded) == b"a1"


def test_G03_group_status_is_told_from_version_2_on(queue: pymqi.Queue) -> None:
    flags = CMQC.MQMF_LAST_MSG_IN_GROUP | CMQC.MQMF_SEGMENT | CMQC.MQMF_SEGMENTATION_ALLOWED
    for _ in range(2):
        queue.put(b"x", pymqi.MD(Version=2, GroupId=b"G", MsgFlags=flags))
    gmo = pymqi.GMO(Version=3)
    queue.get(None, pymqi.MD(Version=2), gmo)
    assert gmo.GroupStatus == CMQC.MQGS_LAST_MSG_IN_GROUP
    assert gmo.SegmentStatus == CMQC.MQSS_SEGMENT
    assert gmo.Segmentation == CMQC.MQSEG_ALLOWED
    assert gmo.ReturnedLength == 1
    old = pymqi.GMO()
    queue.get(None, pymqi.MD(), old)
    assert (old.GroupStatus, old.ReturnedLength) == (CMQC.MQGS_NOT_IN_GROUP, -1)


class Waiting:
    """A get on a thread of its own, begun before this returns."""

    def __init__(self, manager: QueueManager, wait_ms: int, name: str = "Q1") -> None:
        self.outcome: object = None
        self._queue = pymqi.Queue(pymqi.connect(manager.name), name)
        self._gmo = pymqi.GMO(Options=CMQC.MQGMO_WAIT, WaitInterval=wait_ms)
        self._thread = threading.Thread(target=self._get)
        self._thread.start()
        number = manager.engine.registry.queue(name).number
        while not manager.engine.waits.is_waited_on(number) and self._thread.is_alive():
            self._thread.join(0.001)

    def _get(self) -> None:
        try:
            self.outcome = self._queue.get(None, pymqi.MD(), self._gmo)
        except pymqi.MQMIError as error:
            self.outcome = error.reason

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def end(self) -> object:
        self._thread.join(JOIN_SECONDS)
        assert self.is_over
        return self.outcome


def test_G04_get_without_wait_does_not_wait(queue: pymqi.Queue, fails: Fails) -> None:
    md = pymqi.MD()
    error = fails(queue.get, None, md, pymqi.GMO(WaitInterval=5_000))
    assert (error.comp, error.reason) == (CMQC.MQCC_FAILED, CMQC.MQRC_NO_MSG_AVAILABLE)
    assert md.get() == pymqi.MD().get()


def test_G04_wait_ends_at_its_interval(
    clock: VirtualClock, queue_manager: QueueManager, queue: pymqi.Queue
) -> None:
    waiting = Waiting(queue_manager, 1_000)
    clock.advance(999)
    assert not waiting.is_over
    clock.advance(1)
    assert waiting.end() == CMQC.MQRC_NO_MSG_AVAILABLE


def test_G04_wait_ends_with_a_message(
    clock: VirtualClock, queue_manager: QueueManager, queue: pymqi.Queue
) -> None:
    waiting = Waiting(queue_manager, CMQC.MQWI_UNLIMITED)
    clock.advance(1_000_000)
    queue.put(b"x")
    assert waiting.end() == b"x"
    assert queue_manager.curdepth("Q1") == 0


def test_G04_inhibiting_gets_wakes_the_waiter(
    queue_manager: QueueManager, queue: pymqi.Queue
) -> None:
    waiting = Waiting(queue_manager, CMQC.MQWI_UNLIMITED)
    queue_manager.mqsc("ALTER QLOCAL(Q1) GET(DISABLED)")
    assert waiting.end() == CMQC.MQRC_GET_INHIBITED


def test_G04_an_expired_message_does_not_end_a_wait(
    clock: VirtualClock, queue_manager: QueueManager, queue: pymqi.Queue
) -> None:
    queue.put(b"old", pymqi.MD(Expiry=1))
    clock.advance(100)
    waiting = Waiting(queue_manager, 500)
    clock.advance(500)
    assert waiting.end() == CMQC.MQRC_NO_MSG_AVAILABLE
    assert queue_manager.curdepth("Q1") == 0


def test_G05_short_buffer_accepted_takes_the_message_and_warns(
    queue_manager: QueueManager, queue: pymqi.Queue, fails: Fails
) -> None:
    put = pymqi.MD(CorrelId=b"C")
    queue.put(b"0123456789", put)
    md, gmo = pymqi.MD(), pymqi.GMO(Version=3, Options=CMQC.MQGMO_ACCEPT_TRUNCATED_MSG)
    error = fails(queue.get, 4, md, gmo)
    assert (error.comp, error.reason) == (CMQC.MQCC_WARNING, CMQC.MQRC_TRUNCATED_MSG_ACCEPTED)
    assert (error.message, error.original_length) == (b"0123", 10)
    assert (md.MsgId, md.CorrelId) == (put.MsgId, put.CorrelId)
    assert (gmo.ReturnedLength, gmo.ResolvedQName) == (4, b"Q1".ljust(48))
    assert queue_manager.curdepth("Q1") == 0


def test_G05_short_buffer_not_accepted_leaves_the_message_and_warns(
    queue_manager: QueueManager, queue: pymqi.Queue, fails: Fails
) -> None:
    put = pymqi.MD()
    queue.put(b"0123456789", put)
    md = pymqi.MD()
    options = pymqi.GMO(Options=CMQC.MQGMO_SYNCPOINT)
    error = fails(queue.get, 9, md, options)
    assert (error.comp, error.reason) == (CMQC.MQCC_WARNING, CMQC.MQRC_TRUNCATED_MSG_FAILED)
    assert (error.message, error.original_length) == (b"012345678", 10)
    assert md.MsgId == put.MsgId
    assert queue_manager.counts("Q1").live == 1
    again = pymqi.MD()
    assert queue.get(10, again) == b"0123456789"
    assert again.BackoutCount == 0


def test_G06_get_without_a_length_reads_the_whole_message(queue: pymqi.Queue) -> None:
    queue.put(bytes(100_000))
    assert queue.get() == bytes(100_000)


def test_G06_get_without_a_length_accepting_truncation_is_cut_to_nothing(
    queue_manager: QueueManager, queue: pymqi.Queue, fails: Fails
) -> None:
    queue.put(b"0123")
    gmo = pymqi.GMO(Options=CMQC.MQGMO_ACCEPT_TRUNCATED_MSG)
    error = fails(queue.get, None, pymqi.MD(), gmo)
    assert error.reason == CMQC.MQRC_TRUNCATED_MSG_ACCEPTED
    assert (error.message, error.original_length) == (b"", 4)
    assert queue_manager.curdepth("Q1") == 0


def test_G05_wrong_lengths(queue_manager: QueueManager, queue: pymqi.Queue, fails: Fails) -> None:
    queue.put(b"x")
    assert fails(queue.get, -1).reason == CMQC.MQRC_BUFFER_LENGTH_ERROR
    with pytest.raises(TypeError, match="length is an integer"):
        queue.get("4")  # type: ignore[arg-type]  # the wrong type is the point
    assert fails(queue.get, 0).reason == CMQC.MQRC_TRUNCATED_MSG_FAILED
    assert queue_manager.curdepth("Q1") == 1


SAME = [
    ({"Format": b"MQSTR", "CodedCharSetId": 1208}, {"CodedCharSetId": 1208}),
    ({"Format": b"MQSTR", "CodedCharSetId": 0}, {"CodedCharSetId": 1208}),
    ({"Format": b"MQSTR", "CodedCharSetId": 1208}, {"CodedCharSetId": 0}),
    ({"Format": b"MQSTR", "CodedCharSetId": 819, "Encoding": 273}, {"CodedCharSetId": 819}),
    ({"Format": b"MQHRF2", "CodedCharSetId": 819}, {"CodedCharSetId": 819}),
    ({"CodedCharSetId": 37, "Encoding": 785}, {"CodedCharSetId": 1208}),
]


@pytest.mark.parametrize(("put", "wanted"), SAME, ids=case)
def test_G07_data_that_need_no_conversion_are_returned(
    queue: pymqi.Queue, put: dict[str, int], wanted: dict[str, int]
) -> None:
    queue.put(b"x", pymqi.MD(**put))
    gmo = pymqi.GMO(Options=CMQC.MQGMO_CONVERT)
    assert queue.get(None, pymqi.MD(**wanted), gmo) == b"x"


def test_G08_backed_out_get_comes_back_in_its_place_with_its_count(
    queue_manager: QueueManager, connection: pymqi.QueueManager, queue: pymqi.Queue
) -> None:
    queue.put(b"1")
    queue.put(b"2")
    syncpoint = pymqi.GMO(Options=CMQC.MQGMO_SYNCPOINT)
    counts = []
    for _ in range(2):
        md = pymqi.MD()
        assert queue.get(None, md, syncpoint) == b"1"
        assert queue_manager.curdepth("Q1") == 1
        counts.append(md.BackoutCount)
        connection.backout()
    assert counts == [0, 1]
    md = pymqi.MD()
    assert queue.get(None, md, syncpoint) == b"1"
    connection.commit()
    assert md.BackoutCount == 2
    assert queue_manager.curdepth("Q1") == 1


def test_G08_syncpoint_if_persistent_decides_by_message(
    queue_manager: QueueManager, connection: pymqi.QueueManager, queue: pymqi.Queue
) -> None:
    queue.put(b"p", pymqi.MD(Persistence=1))
    queue.put(b"n", pymqi.MD(Persistence=0))
    gmo = pymqi.GMO(Options=CMQC.MQGMO_SYNCPOINT_IF_PERSISTENT)
    assert [queue.get(None, pymqi.MD(), gmo) for _ in range(2)] == [b"p", b"n"]
    connection.backout()
    assert queue.get() == b"p"
    assert queue_manager.curdepth("Q1") == 0


def test_G09_disconnecting_commits(queue_manager: QueueManager, queue: pymqi.Queue) -> None:
    other = pymqi.connect("QM1")
    pymqi.Queue(other, "Q1").put(b"x", pymqi.MD(), pymqi.PMO(Options=CMQC.MQPMO_SYNCPOINT))
    other.disconnect()
    assert queue.get() == b"x"


def test_get_no_jms_takes_the_body_alone(queue: pymqi.Queue) -> None:
    queue.put(b"x")
    gmo = pymqi.GMO()
    assert queue.get_no_jms(None, pymqi.MD(), gmo) == b"x"
    assert gmo.Options & CMQC.MQGMO_NO_PROPERTIES


def test_C05_get_inhibited(queue_manager: QueueManager, queue: pymqi.Queue, fails: Fails) -> None:
    queue.put(b"x")
    queue_manager.mqsc("ALTER QLOCAL(Q1) GET(DISABLED)")
    assert fails(queue.get).reason == CMQC.MQRC_GET_INHIBITED
    assert queue_manager.curdepth("Q1") == 1
