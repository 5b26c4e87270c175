"""mayfly mqsc on a terminal: commands one by one, history, completion and help."""

from __future__ import annotations

import contextlib
import os
import pty
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import mayfly
from mayfly.admin.mqsc.completion import candidates, completion, has_secret, help_about, next_words
from mayfly.cli.mqsc import HISTORY_NAME, converse
from tests.cli.conftest import COMMAND, environment


@pytest.fixture
def qm() -> Iterator[mayfly.QueueManager]:
    with mayfly.QueueManager("QM1") as queue_manager:
        yield queue_manager


def conversation(qm: mayfly.QueueManager, *lines: str | type[BaseException]) -> tuple[str, str]:
    """Return (what was shown, the first letters of all prompts)."""
    waiting: Iterator[str | type[BaseException]] = iter(lines)
    prompts: list[str] = []
    shown: list[str] = []

    def ask(prompt: str) -> str:
        prompts.append(prompt[0])
        line = next(waiting, EOFError)
        if isinstance(line, str):
            return line
        raise line

    converse(qm.mqsc, ask, shown.append, [])
    return "\n".join(shown), "".join(prompts)


def test_each_command_is_answered_until_end(qm: mayfly.QueueManager) -> None:
    shown, prompts = conversation(
        qm,
        "define ql(CONSOLE) +",
        "  descr('a;b')",
        "dis ql(CONSOLE) descr",
        "",
        "end",
        "ping qmgr",
    )
    assert shown.startswith("AMQ8006I: IBM MQ queue created.\nAMQ8409I: Display Queue details.")
    assert "DESCR(a;b)" in shown
    assert prompts == "M MMM"
    assert qm.curdepth("CONSOLE") == 0


@pytest.mark.parametrize("word", ["END", "quit", " exit ;"])
def test_words_that_end_it(qm: mayfly.QueueManager, word: str) -> None:
    assert conversation(qm, word, "PING QMGR") == ("", "M")


def test_a_failing_command_says_why_and_the_next_one_is_asked_for(qm: mayfly.QueueManager) -> None:
    shown, prompts = conversation(qm, "DELETE QLOCAL(NO.SUCH)", "DEFINE QLOCL(A)")
    assert "AMQ8147E: IBM MQ object NO.SUCH not found." in shown
    assert "AMQ8405E" in shown
    assert prompts == "MMM"


def test_an_interrupt_gives_up_the_command_that_is_typed(qm: mayfly.QueueManager) -> None:
    shown, prompts = conversation(qm, "DEFINE +", KeyboardInterrupt, "DIS QL(NO.SUCH)")
    assert "AMQ8147E" in shown
    assert prompts == "M MM"


def test_help_is_about_verbs_and_attributes_with_their_values(qm: mayfly.QueueManager) -> None:
    shown, _ = conversation(qm, "?", "help def ql", "HELP FOO")
    assert "REFRESH   SECURITY QMGR" in shown
    assert "  QSVCIEV(NONE | HIGH | OK)\n" in shown
    assert "  SHARE | NOSHARE\n" in shown
    assert "FOO is not a command here" in shown
    assert help_about("refresh queue") == "REFRESH knows SECURITY, QMGR, not QUEUE"


@pytest.mark.parametrize(
    ("typed", "some"),
    [
        ("", {"DEFINE", "MOVE", "HELP", "END"}),
        ("DEF", {"QLOCAL", "CHANNEL"}),
        ("HELP ", {"DEFINE"}),
        ("DEFINE QLOCAL(A) ", {"LIKE", "TRIGGER", "NOTRIGGER", "QDPHIEV"}),
        ("DIS QS(A) TYPE(QUEUE) ", {"WHERE", "LPUTTIME"}),
        ("ALT QMGR PERFMEV(", {"ENABLED", "DISABLED"}),
        ("DEFINE QL('(A') DESCR('b)') USAGE(", {"NORMAL", "XMITQ"}),
    ],
)
def test_what_may_be_typed_next(typed: str, some: set[str]) -> None:
    assert some <= set(next_words(typed))


@pytest.mark.parametrize(
    "typed", ["FOO ", "DEF QL(", "DEF QL(A) DESCR(", "DEF FOO(A) ", "HELP A B "]
)
def test_nothing_is_offered_where_any_text_or_none_may_follow(typed: str) -> None:
    offered = next_words(typed)
    assert set(offered) <= {"LIKE", "REPLACE", "NOREPLACE"}


def test_what_is_there_is_not_offered_again() -> None:
    assert "DESCR" not in next_words("DEFINE QLOCAL(A) DESCR(a) ")


def test_completion_knows_the_lines_before() -> None:
    lines = ["DEFINE QLOCAL(A) +"]
    assert candidates(lines, "  ", "qdph") == ["QDPHIEV"]
    assert candidates(lines, "  QDPHIEV(", "e") == ["ENABLED"]


def test_a_script_is_completed_at_its_last_word() -> None:
    script = "DIS QL(A)\nDEFINE QLOCAL(A) +\n  qdph"
    assert completion(script) == ("qdph", ["QDPHIEV"])
    assert completion("DEF QL(A) USAGE(") == ("", ["NORMAL", "XMITQ"])
    assert completion("DIS QL(A)\nref") == ("ref", ["REFRESH "])


def test_a_blank_is_behind_a_verb() -> None:
    assert candidates([], "", "def") == ["DEFINE "]


def test_lines_with_secrets_are_known() -> None:
    assert has_secret("alter authinfo(A) ldappwd(x)")
    assert not has_secret("ALTER QMGR DESCR(x)")


@pytest.mark.slow
def test_on_a_terminal_tab_completes_and_the_history_stays(home: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        os.write(ours, b"def\tql(TYPED) qdphi\t(en\t)\nalter qmgr keyrpwd(x)\nend\n")
        process = subprocess.run(
            [*COMMAND, "mqsc", "QM1"],
            env={**environment(home), "TERM": "dumb"},
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
        os.close(theirs)
        told = b""
        with contextlib.suppress(OSError):
            while part := os.read(ours, 1_000):
                told += part
    finally:
        os.close(ours)
    assert process.returncode == 0, process.stderr
    assert b"AMQ8006I: IBM MQ queue created." in told
    history = home / HISTORY_NAME
    assert "QDPHIEV(ENABLED" in history.read_text("utf-8")
    assert "keyrpwd" not in history.read_text("utf-8")
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
