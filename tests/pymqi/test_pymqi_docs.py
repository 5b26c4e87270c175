"""docs/PYMQI.md says what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mayfly import pymqi
from mayfly.pymqi import CMQC

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs/PYMQI.md").read_text("utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```\n```text\n(.*?)^```", DOCS, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("place", range(4))
def test_the_programs_print_what_stands_behind_them(
    place: int, capsys: pytest.CaptureFixture[str]
) -> None:
    program, printed = PROGRAMS[place]
    exec(compile(program, "docs/PYMQI.md", "exec"), {})
    assert capsys.readouterr().out == printed
    assert len(PROGRAMS) == 4


def test_the_tests_it_names_are_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", DOCS)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_constants_it_names_are_there() -> None:
    named = re.findall(r"`((?:MQ[A-Z]+_)\w+)`", DOCS)
    assert len(named) > 20
    assert [name for name in named if not hasattr(CMQC, name)] == []


@pytest.mark.parametrize(
    ("object_type", "reason"),
    [(CMQC.MQOT_NAMELIST, CMQC.MQRC_OBJECT_TYPE_ERROR), (99, CMQC.MQRC_OBJECT_TYPE_ERROR)],
)
def test_what_it_calls_refused_is(
    connection: pymqi.QueueManager, queue: pymqi.Queue, object_type: int, reason: int
) -> None:
    od = pymqi.OD(ObjectType=object_type, ObjectName=b"Q1")
    with pytest.raises(pymqi.MQMIError) as caught:
        pymqi.Queue(connection, od, CMQC.MQOO_INQUIRE)
    assert caught.value.reason == reason
    with pytest.raises(pymqi.MQMIError) as caught:
        queue.get(None, pymqi.MD(), pymqi.GMO(Options=CMQC.MQGMO_SET_SIGNAL))
    assert caught.value.reason == CMQC.MQRC_OPTIONS_ERROR


def test_names_of_the_IBM_i_edition_are_mapped_to_constants_that_are_there() -> None:
    """Seed 001 says them; whoever comes from there finds ours."""
    glossary = (ROOT / "docs/GLOSSARY.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `([A-Z]+[0-9n]*)` \| (`[^|]+) \|", glossary, re.MULTILINE))
    said = "MDEXP EIULIM ROEXP GMMO MONONE GMLK GMMUC MDFMT FMXQH RC2013 RC2034".split()
    assert set(said) <= rows.keys()
    for name, ours in rows.items():
        for constant in re.findall(r"`(MQ\w+_\w+)`", ours):
            assert hasattr(CMQC, constant), (name, constant)
        if name[2:].isdecimal():
            constants = re.findall(r"`(MQRC_\w+)`", ours)
            assert [getattr(CMQC, constant) for constant in constants] == [int(name[2:])]
    assert [n for n in rows if n.startswith("RO")] == ["ROEXP", "ROEXPD", "ROEXPF"]
