"""docs/CHANNELS.md says what is so."""

from __future__ import annotations

import pytest

from mayfly import channel
from mayfly.admin import CHSTATUS, displayed
from mayfly.channel import ChannelState
from mayfly.engine.api.administration import CHANNEL, CLNTCONN, attributes_of
from tests.pages import part

DOCS = part("CHANNELS.md", "Channels")


def test_the_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    [block] = [rest.split("```")[0] for rest in DOCS.split("```python\n")[1:]]
    names: dict[str, object] = {}
    exec(compile(block, "docs/CHANNELS.md", "exec"), names)
    assert capsys.readouterr().out == "b'two coffees' 200\nRUNNING 1 1 False\n"


def test_every_attribute_and_its_default_is_listed() -> None:
    rows = {**attributes_of(CLNTCONN), **attributes_of(CHANNEL)}
    for keyword, attribute in rows.items():
        assert f"`{keyword}" in DOCS or keyword in ("CHLTYPE", "DESCR"), keyword
        if type(attribute.default) is int and not attribute.words:
            assert str(attribute.default) in DOCS, keyword


def test_every_status_is_listed() -> None:
    shown_in_definitions = {"CHLTYPE", "CONNAME", "RQMNAME", "XMITQ"}
    assert not [word for word in ChannelState if str(word) not in DOCS]
    assert not [
        word
        for word in displayed((CHSTATUS,))
        if word not in shown_in_definitions and f"`{word}`" not in DOCS
    ]


def test_public_names_are_there_once() -> None:
    assert len(set(channel.__all__)) == len(channel.__all__)
    assert all(hasattr(channel, name) for name in channel.__all__)
