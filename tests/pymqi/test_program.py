"""A program written for pymqi is run as it is: ``python -m mayfly.pymqi program.py``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mayfly.pymqi.__main__ import main

SUBSCRIBER = """
import sys
import pymqi
import topics
from pymqi import CMQC

qmgr = pymqi.connect("QM1")
sd = pymqi.SD()
sd["Options"] = (
    CMQC.MQSO_CREATE + CMQC.MQSO_RESUME + CMQC.MQSO_DURABLE + CMQC.MQSO_MANAGED
)
sd.set_vs("SubName", "gate watcher")
sd.set_vs("ObjectString", topics.GATES)
sub = pymqi.Subscription(qmgr)
sub.sub(sub_desc=sd)
options = pymqi.GMO(Options=CMQC.MQGMO_NO_SYNCPOINT + CMQC.MQGMO_FAIL_IF_QUIESCING)
try:
    while True:
        md = pymqi.MD()
        message = sub.get(None, md, options)
        print(message.decode(), md.Expiry > 0, __name__, *sys.argv[1:])
except pymqi.MQMIError as error:
    if error.reason != CMQC.MQRC_NO_MSG_AVAILABLE:
        raise
    print("no more")
sub.close(sub_close_options=CMQC.MQCO_KEEP_SUB, close_sub_queue=True)
qmgr.disconnect()
"""
PUBLISHER = """
import pymqi

qmgr = pymqi.connect("QM1")
topic = pymqi.Topic(qmgr, topic_string="gates/A1")
topic.open(open_opts=pymqi.CMQC.MQOO_OUTPUT)
topic.pub(b"LH400", pymqi.md(Expiry=36000, Persistence=pymqi.CMQC.MQPER_PERSISTENT))
topic.pub("LH401")
topic.close()
qmgr.disconnect()
"""


@contextmanager
def serving(folder: Path) -> Iterator[None]:
    """Serve ``QM1`` to programs of this machine in a process, and kill that in the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mayfly", "serve", "QM1", "--mq", "127.0.0.1:0", "--json"],
        env={**os.environ, "MAYFLY_HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline(), process.communicate()[1]
        yield
    finally:
        process.kill()
        process.communicate()


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the module with these arguments, on queue managers in a folder."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "mayfly.pymqi", *arguments],
        env={**os.environ, "MAYFLY_HOME": str(folder)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_durable_publish_subscribe_from_process_to_process(tmp_path: Path) -> None:
    for name, text in {"sub": SUBSCRIBER, "pub": PUBLISHER, "topics": "GATES = 'gates/#'"}.items():
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
    said = []
    for servings in (["sub.py", "pub.py"], ["sub.py once more", "sub.py"]):
        with serving(tmp_path):
            for line in servings:
                name, *rest = line.split()
                done = run(tmp_path, str(tmp_path / name), *rest)
                assert (done.returncode, done.stderr) == (0, "")
                said.append(done.stdout.splitlines())
    # Only the persistent one outlives the server, which is killed.
    assert said == [["no more"], [], ["LH400 True __main__ once more", "no more"], ["no more"]]


USAGE = "usage: python -m mayfly.pymqi program.py [argument ...]\n"


@pytest.mark.slow
def test_without_a_file_it_says_how_it_is_called(tmp_path: Path) -> None:
    done = run(tmp_path, "none.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"none.py is not a file\n{USAGE}"


def test_without_an_argument_it_says_how_it_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr() == ("", USAGE)
