"""The API of ibmmq: pymqi's under its name, with callbacks and what ibmmq has beside it."""

from __future__ import annotations

import queue
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mayfly import QueueManager, ibmmq, pymqi
from mayfly.ibmmq import CMQC, CMQSTRC
from tests.facts import PATIENCE_SECONDS
from tests.pymqi.conftest import Fails

GET = CMQC.MQOO_INPUT_SHARED | CMQC.MQOO_BROWSE | CMQC.MQOO_INQUIRE | CMQC.MQOO_SET


class Calls:
    """Calls of a callback, in their order."""

    def __init__(self) -> None:
        self._calls: queue.Queue[dict[str, Any]] = queue.Queue()

    def __call__(self, **call: Any) -> None:
        self._calls.put(call)

    def next(self) -> dict[str, Any]:
        """Return the next call; it comes."""
        return self._calls.get(timeout=PATIENCE_SECONDS)

    def count(self) -> int:
        """Return how many calls nobody has asked for yet."""
        return self._calls.qsize()


@pytest.fixture
def manager(queue_manager: QueueManager) -> Any:
    queue_manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(Q2)")
    manager = ibmmq.connect(queue_manager.name)
    yield manager
    if manager.is_connected:
        manager.disconnect()


def consumer(manager: Any, name: str, gmo: Any = None, **cbd: Any) -> tuple[Any, Calls]:
    """Return a queue with a callback, and its calls."""
    calls, found = Calls(), ibmmq.Queue(manager, name, GET)
    found.cb(cbd=ibmmq.CBD(CallbackFunction=calls, **cbd), gmo=gmo)
    return found, calls


def test_a_callback_gets_each_message_until_it_is_stopped(
    queue_manager: QueueManager, manager: Any
) -> None:
    source, calls = consumer(manager, "Q1", CallbackArea="mine")
    _, others = consumer(manager, "Q2")
    with queue_manager.session() as session:
        session.put("Q1", b"one")
        manager.ctl(CMQC.MQOP_START, ibmmq.CTLO(ConnectionArea="ours"))
        session.put("Q1", b"two")
        session.put("Q2", b"three")
        got = [calls.next(), calls.next()]
        assert [each["msg"] for each in got] == [b"one", b"two"]
        assert others.next()["msg"] == b"three"
        cbc = got[0]["cbc"]
        assert CMQSTRC.MQCBCT_DICT[cbc.CallType] == "MQCBCT_MSG_REMOVED"
        assert (cbc.CallbackArea, cbc.ConnectionArea, cbc.DataLength) == ("mine", "ours", 3)
        assert got[0]["queue"] is source
        assert got[0]["queue_manager"] is manager
        assert len(got[1]["md"].MsgId) == 24
        manager.ctl(CMQC.MQOP_STOP)
        session.put("Q1", b"four")
        assert queue_manager.curdepth("Q1") == 1
        manager.ctl(CMQC.MQOP_START)
        assert calls.next()["msg"] == b"four"
        source.cb(operation=CMQC.MQOP_DEREGISTER)
        session.put("Q1", b"five")
    assert source.get() == b"five"
    assert calls.count() == 0


def test_a_callback_that_browses_goes_on_from_message_to_message(
    queue_manager: QueueManager, manager: Any
) -> None:
    with queue_manager.session() as session:
        for body in (b"one", b"two"):
            session.put("Q1", body)
    _, calls = consumer(manager, "Q1", ibmmq.GMO(Options=CMQC.MQGMO_BROWSE_FIRST))
    manager.ctl(CMQC.MQOP_START)
    assert [calls.next()["msg"] for _ in range(2)] == [b"one", b"two"]
    manager.disconnect()
    assert queue_manager.curdepth("Q1") == 2


def test_a_callback_is_told_that_no_message_came(manager: Any) -> None:
    gmo = ibmmq.GMO(Options=CMQC.MQGMO_WAIT, WaitInterval=0)
    source, calls = consumer(manager, "Q1", gmo)
    manager.ctl(CMQC.MQOP_START)
    call = calls.next()
    assert (call["cbc"].CallType, call["cbc"].Reason) == (CMQC.MQCBCT_EVENT_CALL, 2033)
    assert call["msg"] is None
    source.cb(operation=CMQC.MQOP_SUSPEND)
    manager.ctl(CMQC.MQOP_STOP)


def test_register_start_stop_and_deregister_are_told_to_who_asks(manager: Any) -> None:
    options = (
        CMQC.MQCBDO_REGISTER_CALL
        | CMQC.MQCBDO_START_CALL
        | CMQC.MQCBDO_STOP_CALL
        | CMQC.MQCBDO_DEREGISTER_CALL
    )
    source, calls = consumer(manager, "Q1", Options=options)
    manager.ctl(CMQC.MQOP_START)
    manager.ctl(CMQC.MQOP_STOP)
    source.cb(operation=CMQC.MQOP_DEREGISTER)
    assert [calls.next()["cbc"].CallType for _ in range(4)] == [
        CMQC.MQCBCT_REGISTER_CALL,
        CMQC.MQCBCT_START_CALL,
        CMQC.MQCBCT_STOP_CALL,
        CMQC.MQCBCT_DEREGISTER_CALL,
    ]


def test_a_second_callback_of_a_queue_replaces_the_first(
    queue_manager: QueueManager, manager: Any
) -> None:
    source, first = consumer(manager, "Q1")
    manager.ctl(CMQC.MQOP_START)
    second = Calls()
    source.cb(cbd=ibmmq.CBD(CallbackFunction=second))
    with queue_manager.session() as session:
        session.put("Q1", b"one")
    assert second.next()["msg"] == b"one"
    manager.ctl(CMQC.MQOP_STOP)
    assert first.count() == 0


def test_callbacks_that_are_suspended_together_get_nothing_until_they_are_resumed(
    queue_manager: QueueManager, manager: Any
) -> None:
    _, calls = consumer(manager, "Q1")
    manager.ctl(CMQC.MQOP_START)
    manager.ctl(CMQC.MQOP_SUSPEND)
    with queue_manager.session() as session:
        session.put("Q1", b"one")
        assert queue_manager.curdepth("Q1") == 1
    manager.ctl(CMQC.MQOP_RESUME)
    assert calls.next()["msg"] == b"one"


def test_a_wrong_callback_says_so(manager: Any, fails: Fails) -> None:
    source, _ = consumer(manager, "Q1")
    assert fails(lambda: source.cb(operation=7)).reason == CMQC.MQRC_OPERATION_ERROR
    assert fails(lambda: manager.ctl(7)).reason == CMQC.MQRC_OPERATION_ERROR
    other = ibmmq.Queue(manager, "Q2", GET)
    assert fails(lambda: other.cb(cbd=ibmmq.CBD())).reason == CMQC.MQRC_CALLBACK_ROUTINE_ERROR
    operation = CMQC.MQOP_DEREGISTER
    error = fails(lambda: other.cb(operation=operation))
    assert error.reason == CMQC.MQRC_CALLBACK_NOT_REGISTERED


def test_attributes_are_asked_for_and_set_together(manager: Any) -> None:
    found = ibmmq.Queue(manager, "Q1", GET)
    found.set({CMQC.MQIA_INHIBIT_PUT: 1, CMQC.MQIA_INHIBIT_GET: 1})
    assert found.inq([CMQC.MQIA_INHIBIT_PUT, CMQC.MQIA_INHIBIT_GET, CMQC.MQCA_Q_NAME]) == {
        CMQC.MQIA_INHIBIT_PUT: 1,
        CMQC.MQIA_INHIBIT_GET: 1,
        CMQC.MQCA_Q_NAME: b"Q1".ljust(48),
    }
    assert manager.inquire([CMQC.MQIA_PLATFORM]) == {CMQC.MQIA_PLATFORM: CMQC.MQPL_UNIX}
    assert (found.get_name(), found.get_queue_manager()) == ("Q1", manager)


def test_texts_of_structures_become_str() -> None:
    md = ibmmq.MD(Format=b"MQSTR   ", MsgId=b"A" * 24).to_string()
    assert (md.Format, md.MsgId) == ("MQSTR", b"A" * 24)
    assert ibmmq.to_string(b"Q1  \0\0") == "Q1"
    assert ibmmq.to_string(b"\xff") == b"\xff"
    assert ibmmq.RFH2()["_StrucId"] == ibmmq.RFH2()._StrucId == b"RFH "


@pytest.mark.in_process
def test_texts_of_an_answer_have_no_nuls(manager: Any) -> None:
    pcf = ibmmq.PCFExecute(manager)
    answer = pcf.MQCMD_ESCAPE(
        {
            ibmmq.CMQCFC.MQIACF_ESCAPE_TYPE: ibmmq.CMQCFC.MQET_MQSC,
            ibmmq.CMQCFC.MQCACF_ESCAPE_TEXT: b"PING QMGR",
        }
    )
    text = answer[0][ibmmq.CMQCFC.MQCACF_ESCAPE_TEXT]
    assert text == b"AMQ8415I: Ping IBM MQ Queue Manager command complete."
    pcf.disconnect()


def test_every_name_of_ibmmq_is_there_but_those_of_C() -> None:
    assert set(pymqi.__all__) <= set(ibmmq.__all__)
    assert all(hasattr(ibmmq, name) for name in ibmmq.__all__)
    assert ibmmq.get_versions() == {"module": "2.1.2", "MQ": 940}
    assert CMQSTRC.MQRC_DICT[2033] == "MQRC_NO_MSG_AVAILABLE"
    with pytest.raises(AttributeError, match="CMQSTRC has no MQNEVER_DICT"):
        _ = CMQSTRC.MQNEVER_DICT


def test_an_unchanged_program_of_ibmmq_runs(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import ibmmq as mq\n"
        "from ibmmq import CMQC\n"
        "import ibmmq.CMQCFC\n"
        "print(mq.MQMIError(2, CMQC.MQRC_Q_FULL), ibmmq.CMQCFC.MQCMD_ESCAPE)\n",
        "utf-8",
    )
    command = [sys.executable, "-m", "mayfly.pymqi", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "MQI Error. Comp: 2, Reason 2053: FAILED: MQRC_Q_FULL 38\n"


def test_a_wrong_header_has_the_texts_of_ibmmq() -> None:
    header = ibmmq.RFH2()
    with pytest.raises(
        ibmmq.PYIFError, match=r"^PYIBMMQ Error: RFH2 - _StrucId not MQRFH_STRUC_ID"
    ):
        header.unpack(b"none".ljust(100))
    with pytest.raises(ibmmq.PYIFError, match=r"^PYIBMMQ Error: RFH2 - XML Folder not well formed"):
        header.add_folder(b"<a><b></a>")
    with pytest.raises(pymqi.PYIFError, match=r"^PYMQI Error: RFH2 - StrucId not"):
        pymqi.RFH2().unpack(b"none".ljust(100))
