"""What a program reads from a script's result, and what a person does."""

import pytest

import mayfly
from mayfly.admin.mqsc.display import failure
from mayfly.admin.mqsc.grammar import parse, statements
from mayfly.mqi.errors import mq_error
from mayfly.mqi.reasons import MQRC_STORAGE_MEDIUM_FULL


def test_ok_is_false_when_any_command_fails_and_the_rest_still_run(
    qm: mayfly.QueueManager,
) -> None:
    result = qm.mqsc("DEF QL(Q1)\nNONSENSE\nDEF QL(Q1)\nDEF QL(Q2)")
    assert not result.ok
    assert result.codes == ["AMQ8006I", "AMQ8405E", "AMQ8150E", "AMQ8006I"]
    assert [(x.number, x.ok, x.is_valid) for x in result.commands] == [
        (1, True, True),
        (2, False, False),
        (3, False, True),
        (4, True, True),
    ]


def test_rows_hold_words_as_words_and_numbers_as_int(qm: mayfly.QueueManager) -> None:
    [row] = qm.mqsc("DEF QL(Q1) CAPEXPRY(600)\nDIS QL(Q1) CAPEXPRY PUT SHARE DESCR").rows
    assert row == {
        "QUEUE": "Q1",
        "TYPE": "QLOCAL",
        "DESCR": "",
        "PUT": "ENABLED",
        "SHARE": "SHARE",
        "CAPEXPRY": 600,
    }
    assert type(row["CAPEXPRY"]) is int


def test_an_empty_script_is_fine(qm: mayfly.QueueManager) -> None:
    result = qm.mqsc("")
    assert (result.ok, result.rows, result.commands) == (True, [], ())
    assert result.text == (
        "Starting MQSC for queue manager QM1.\n\n\n"
        "No MQSC commands read.\n"
        "No commands have a syntax error.\n"
        "All valid MQSC commands were processed.\n"
    )


@pytest.mark.parametrize("word", ["end", "EXIT", "quit"])
def test_end_ends_the_script_and_is_no_command(qm: mayfly.QueueManager, word: str) -> None:
    result = qm.mqsc(f"DEF QL(Q1)\n {word} ;\nDEF QL(Q2)")
    assert len(result.commands) == 1
    assert f"     2 :  {word} ;\n" in result.text
    assert not qm.mqsc("DIS QL(Q2)").ok


def test_a_value_too_wide_for_a_column_has_a_line_of_its_own(qm: mayfly.QueueManager) -> None:
    fits, wide = "d" * 32, "d" * 33  # DESCR(…) is 39 and 40 wide
    show = "DIS QL(Q) DESCR PUT GET"
    assert qm.mqsc(f"DEF QL(Q) DESCR({fits})\n{show}").messages[1].body.splitlines()[1:] == [
        f"   DESCR({fits.upper()}) PUT(ENABLED)",
        "   GET(ENABLED)",
    ]
    assert qm.mqsc(f"ALT QL(Q) DESCR({wide})\n{show}").messages[1].body.splitlines()[1:] == [
        f"   DESCR({wide.upper()})",
        "   PUT(ENABLED)                            GET(ENABLED)",
    ]


def test_an_unknown_error_of_the_engine_has_a_code_of_its_own(qm: mayfly.QueueManager) -> None:
    """AMQ8101S names the reason, so that nothing the engine says is lost."""
    [statement] = statements("DEF QL(Q1)")
    message = failure(mq_error(MQRC_STORAGE_MEDIUM_FULL, "no room"), parse(statement).object)
    assert str(message) == (
        "AMQ8101S: IBM MQ error has occurred: MQRC_STORAGE_MEDIUM_FULL (2192): no room"
    )
    assert message.reason == MQRC_STORAGE_MEDIUM_FULL
