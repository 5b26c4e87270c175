"""docs/LISTENERS.md says what is so."""

from __future__ import annotations

import pytest

from mayfly import QueueManager, jms, listener
from mayfly.services.listener import ports, settings
from tests.pages import part

DOCS = part("LISTENERS.md", "Listener ports and transactions")


def test_the_programs_run(manager: QueueManager, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [rest.split("```")[0] for rest in DOCS.split("```python\n")[1:]]
    assert len(blocks) == 6
    with jms.ConnectionFactory(manager).create_context(jms.SESSION_TRANSACTED) as context:
        for block in blocks:
            exec(
                compile(block, "docs/LISTENERS.md", "exec"),
                {"manager": manager, "context": context},
            )
    said = [rest.split("```")[0] for rest in DOCS.split("```text\n")[1:]]
    assert capsys.readouterr().out == said[0] + "[]\n" + "".join(said[1:])


def test_every_property_is_listed() -> None:
    names = {
        *settings.PORT_PROPERTIES,
        *settings.UNUSED,
        *ports.NUMBERS,
        *ports.UNUSED,
    } - {"SERVER.SESSION.POOL.REAP"}
    assert not [name for name in sorted(names) if name not in DOCS]


def test_public_names_are_there_once() -> None:
    assert len(set(listener.__all__)) == len(listener.__all__)
    assert all(hasattr(listener, name) for name in listener.__all__)
