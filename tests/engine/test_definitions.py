"""Attributes are typed fields of definitions, made from the rows of one table a kind of object."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

import mayfly
from mayfly.engine.api.administration import QALIAS, QLOCAL, QMGR, QUEUE_KINDS, attributes_of
from mayfly.engine.api.administration import alter_definition as alter
from mayfly.engine.attributes import ATTRIBUTES, TABLES, QueueDefinition
from mayfly.engine.objects.administration import save
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, StoreDamaged

PACKAGE = Path(mayfly.__file__).parent
#: A row that queues alone have; the new one is written before it.
_ANCHOR = "    targtype: int = attribute("
_ROW = """    # Mayfly's own, for this test.
    colour: int = attribute(7, low=7, high=9, words=(("RED", 7), ("BLUE", 8)), objects=_HOLDERS)
"""
_CHOICES = "it must be RED or BLUE or a number from 7 to 9"
_SCRIPT = """
import sys, mayfly
folder = sys.argv[1]
with mayfly.QueueManager("QM1", folder) as qm:
    def shown(command):
        result = qm.mqsc(command)
        return result.rows if result.ok else result.messages[0].body.splitlines()[-1]
    print(shown("DISPLAY QLOCAL(OLD) COLOUR"))
    print(shown("DEFINE QLOCAL(NEW) COLOUR(BLUE)"), shown("DISPLAY QLOCAL(NEW) COLOUR"))
    print(shown("ALTER QLOCAL(NEW) COLOUR(9)"), shown("DISPLAY QUEUE(*) WHERE(COLOUR GT 8)"))
    print(shown("ALTER QLOCAL(NEW) COLOUR(GREEN)"))
    print(shown("DEFINE QALIAS(A) TARGET(NEW) COLOUR(RED)"))
    print(shown("DEFINE QLOCAL(LIKE) LIKE(NEW)"), shown("DISPLAY QLOCAL(LIKE) COLOUR"))
with mayfly.QueueManager("QM1", folder) as qm:
    print(shown("DISPLAY QLOCAL(NEW) COLOUR"), qm.engine.registry.find("NEW").colour)
"""


@pytest.mark.interpreted
@pytest.mark.slow
def test_a_row_is_all_that_a_new_attribute_of_queues_needs(tmp_path: Path) -> None:
    """A copy of the source with one row more defines, alters, filters, stores and shows it.

    Afterwards today's source opens the folder, shows nothing of it, and keeps its value.
    """
    folder, copy = tmp_path / "qm", tmp_path / "source"
    with mayfly.QueueManager("QM1", folder) as qm:
        assert qm.mqsc("DEFINE QLOCAL(OLD)").ok
    shutil.copytree(PACKAGE, copy / "mayfly", ignore=shutil.ignore_patterns("__pycache__"))
    table = copy / "mayfly/engine/attributes.py"
    text = table.read_text("utf-8")
    assert text.count(_ANCHOR) == 1
    table.write_text(text.replace(_ANCHOR, _ROW + _ANCHOR), "utf-8")
    answer = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(folder)],
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines() == [
        "[{'QUEUE': 'OLD', 'TYPE': 'QLOCAL', 'COLOUR': 'RED'}]",
        "[] [{'QUEUE': 'NEW', 'TYPE': 'QLOCAL', 'COLOUR': 'BLUE'}]",
        "[] [{'QUEUE': 'NEW', 'TYPE': 'QLOCAL', 'COLOUR': 9}]",
        f"line 1, column 19: COLOUR(GREEN) is not right: {_CHOICES}",
        "line 1, column 30: COLOUR is not a keyword of QALIAS, but of QLOCAL, QMODEL",
        "[] [{'QUEUE': 'LIKE', 'TYPE': 'QLOCAL', 'COLOUR': 9}]",
        "[{'QUEUE': 'NEW', 'TYPE': 'QLOCAL', 'COLOUR': 9}] 9",
    ]
    with mayfly.QueueManager("QM1", folder) as qm:
        assert "COLOUR" not in qm.mqsc("DISPLAY QLOCAL(NEW)").rows[0]
        assert qm.mqsc("ALTER QLOCAL(NEW) DESCR('changed')").ok
    assert stored(folder, "NEW")["COLOUR"] == 9


def stored(folder: Path, name: str) -> dict[str, object]:
    connection = apsw.Connection(str(folder / "mayfly.db"))
    sql = "SELECT attributes FROM object WHERE name = ?"
    ((text,),) = connection.execute(sql, (name,)).fetchall()
    connection.close()
    found: dict[str, object] = json.loads(str(text))
    return found


def test_each_field_of_a_definition_has_its_keyword_and_a_value_of_its_type() -> None:
    for kind, table in TABLES.items():
        definition = table(kind, "X")
        for keyword, row in attributes_of(kind).items():
            assert keyword == row.keyword
            assert definition.attributes[keyword] == row.default == getattr(definition, row.field)
            assert isinstance(row.default, str) == row.is_text
    for attribute in ATTRIBUTES:
        assert attribute.field in (attribute.keyword.lower(), "expiry_tenths")


@pytest.mark.parametrize("kind", QUEUE_KINDS)
def test_a_definition_is_stored_by_keyword_and_read_back_the_same(kind: str) -> None:
    rows = attributes_of(kind)
    changes = {k: row.default * 2 if row.is_text else 3 for k, row in rows.items()}
    definition = QueueDefinition(kind, "Q", 2, ("anna",)).altered(changes)
    text = definition.to_json()
    assert json.loads(text) == {"definition_type": 2, "owners": ["anna"], **changes}
    again = QueueDefinition.from_json(kind, "Q", text)
    assert (again.to_json(), again.owners) == (text, ("anna",))


def test_what_a_newer_mayfly_has_stored_outlives_an_alteration() -> None:
    newer = json.dumps({"definition_type": 1, "MAXDEPTH": 7, "HUE": [1], "NEWER": "x"})
    definition = QueueDefinition.from_json(QLOCAL, "Q", newer).altered({"MAXDEPTH": 8})
    kept = json.loads(definition.to_json())
    assert (kept["MAXDEPTH"], kept["HUE"], kept["NEWER"]) == (8, [1], "x")
    assert "NEWER" not in definition.attributes


def test_attributes_are_a_snapshot_that_cannot_be_written_to() -> None:
    definition = QueueDefinition(QLOCAL, "Q", maxdepth=5)
    before = definition.attributes
    definition.maxdepth = 6
    assert (before["MAXDEPTH"], definition.attributes["MAXDEPTH"]) == (5, 6)
    with pytest.raises(TypeError):
        before["MAXDEPTH"] = 7  # type: ignore[index]  # that is what must not work


def test_an_attribute_that_the_kind_does_not_have_is_refused_and_reads_as_its_default() -> None:
    alias = QueueDefinition(QALIAS, "A")
    assert alias.maxdepth == 5_000
    assert "MAXDEPTH" not in alias.attributes
    with pytest.raises(MQError) as caught:
        alias.altered({"MAXDEPTH": 7})
    assert caught.value.reason == rc.MQRC_SELECTOR_ERROR
    assert "QALIAS A has no attribute MAXDEPTH (7)" in str(caught.value)


def test_a_misspelt_attribute_changes_nothing() -> None:
    with mayfly.QueueManager("QM1") as qm:
        with pytest.raises(MQError) as caught:
            alter(qm.engine, QMGR, "QM1", {"MAXMSGL": 40_000, "MAXUMSG": 5})
        assert caught.value.reason == rc.MQRC_SELECTOR_ERROR
        assert qm.engine.registry.queue_manager.maxmsgl == 4_194_304


@pytest.mark.parametrize("value", ["seven", True, None, 7.5])
def test_a_stored_value_of_another_type_is_damage_that_names_it(
    tmp_path: Path, value: object
) -> None:
    with mayfly.QueueManager("QM1", tmp_path) as qm:
        qm.mqsc("DEFINE QLOCAL(Q1)")
        queue = qm.engine.registry.queue("Q1")
        queue.definition.maxdepth = value  # type: ignore[assignment]  # what damage may leave
        save(qm.engine, queue.definition, queue.number)
    with pytest.raises(StoreDamaged, match=r"QLOCAL Q1 .*MAXDEPTH takes a number, not"):
        mayfly.QueueManager("QM1", tmp_path)
