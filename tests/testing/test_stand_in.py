"""``mayfly_as``: pytest runs unchanged modules that import pymqi, without another queue manager."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: A program and its tests, which know nothing of Mayfly.
PROGRAM = """
import pymqi
from pymqi import CMQC


class Desk:
    def __init__(self):
        self.qmgr = pymqi.connect("PROD1", "APP.SVRCONN", "mq.example.com(1414)", "app", "secret")
        options = CMQC.MQOO_INPUT_SHARED | CMQC.MQOO_OUTPUT
        self.orders = pymqi.Queue(self.qmgr, "ORDERS", options)

    def order(self, text, seconds):
        self.orders.put(text, pymqi.MD(Expiry=10 * seconds))

    def next(self, wait_ms=0):
        gmo = pymqi.GMO(Options=CMQC.MQGMO_WAIT, WaitInterval=wait_ms)
        try:
            return self.orders.get(None, pymqi.MD(), gmo)
        except pymqi.MQMIError as error:
            assert error.reason == CMQC.MQRC_NO_MSG_AVAILABLE
"""
CONFTEST = """
import pymqi
import pytest
from desk import Desk
from pymqi import CMQC


@pytest.fixture(scope="session")
def log():
    qmgr = pymqi.QueueManager("LOG")
    yield pymqi.Queue(qmgr, "DEV.QUEUE.1", CMQC.MQOO_INPUT_SHARED | CMQC.MQOO_OUTPUT)
    qmgr.disconnect()


@pytest.fixture
def desk():
    return Desk()
"""
TESTS = """
def test_an_order_is_left_behind(desk, log):
    desk.order("tea", 60)
    log.put(b"ordered")


def test_an_hour_of_waiting_takes_no_time(desk, log):
    assert desk.next(3_600_000) is None
    assert log.get() == b"ordered"


def test_an_order_is_gone_after_a_minute(desk, clock):
    desk.order("tea", 60)
    clock.advance(59_999)
    desk.order("cake", 60)
    clock.advance(1)
    assert desk.next() == b"cake"


def test_the_queue_manager_of_the_fixture_is_found(queue_manager):
    import CMQC
    import pymqi
    from pymqi import CMQCFC

    queue_manager.mqsc("DEFINE QLOCAL(Q1)")
    qmgr = pymqi.connect("QM1", "APP.SVRCONN", "mq.example.com(1414)")
    depth = {CMQC.MQCA_Q_NAME: b"Q1", CMQCFC.MQIACF_Q_ATTRS: CMQC.MQIA_CURRENT_Q_DEPTH}
    qmgr.put1("Q1", b"one")
    [answer] = pymqi.PCFExecute(qmgr).MQCMD_INQUIRE_Q(depth)
    assert answer[CMQC.MQIA_CURRENT_Q_DEPTH] == queue_manager.curdepth("Q1") == 1
"""


#: Only this plugin. Otherwise pytest finds it by its entry point, with all others of this machine.
ALONE = ("--disable-plugin-autoload", "-p", "mayfly.testing.plugin")


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Return a folder with the program, its tests and a script of MQSC."""
    for name, text in {
        "desk.py": PROGRAM,
        "conftest.py": CONFTEST,
        "test_desk.py": TESTS,
        "orders.mqsc": "DEFINE QLOCAL(ORDERS)\n",
        "pytest.ini": "[pytest]\npythonpath = .\nmayfly_mqsc = orders.mqsc\n",
    }.items():
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def run(suite: Path, *words: str) -> tuple[int, str]:
    """Run pytest in a folder; return how it ended and what it has said."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", *words],
        cwd=suite,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("package", [pytest.param("pymqi", marks=pytest.mark.long), "ibmmq"])
def test_unchanged_tests_run_on_queue_managers_made_when_they_are_named(
    suite: Path, package: str
) -> None:
    for program in suite.glob("*.py"):
        program.write_text(program.read_text("utf-8").replace("pymqi", package), "utf-8")
    found = () if package == "pymqi" else ALONE
    code, said = run(suite, *found, "--mayfly-as", package)
    assert (code, said.splitlines()[-1].split(" in ")[0]) == (0, "4 passed"), said


@pytest.mark.slow
def test_what_cannot_be_put_in_place_ends_the_run_with_the_reason(suite: Path) -> None:
    code, said = run(suite, *ALONE, "-o", "mayfly_as=pika")
    assert (code, said.strip()) == (4, "ERROR: mayfly_as pika: it is one of pymqi, ibmmq")
    (suite / "orders.mqsc").write_text("DEFINE QLOCAL(ORDERS) CAPEXPRY(no)\n", "utf-8")
    code, said = run(suite, *ALONE, "-o", "mayfly_as=pymqi", "-k", "minute")
    assert code == 1
    assert "orders.mqsc: " in said
    assert "CAPEXPRY" in said
