"""Each way a command can be wrong: the message names keyword and value, and nothing is done."""

import pytest

import mayfly

LONG = "X" * 49


@pytest.mark.parametrize(
    ("script", "column", "problem"),
    [
        ("FETCH QL(Q1)", 1, "FETCH is not a command here"),
        ("DELET QL(Q1)", 1, "DELET is not a command here; did you mean DELETE?"),
        ("CLEAR QALIAS(Q1)", 7, "CLEAR knows QLOCAL, TOPICSTR, not QALIAS"),
        ("PING QMGR(QM1)", 6, "QMGR takes no value"),
        ("PING QMGR ALL", 11, "ALL is not a keyword of PING QMGR"),
        ("DEF QL", 5, "QL needs a value in parentheses"),
        ("DEF QL()", 5, "QL needs a value in parentheses"),
        ("DEF QL(A*)", 5, "QL: 'A*' is not 1 to 48 characters of A-Z a-z 0-9 . / _ %"),
        (f"DEF QL({LONG})", 5, f"QL: '{LONG}' is not 1 to 48 characters of A-Z a-z 0-9 . / _ %"),
        ("DEF QL(N) MAXDEPT(5)", 11, "MAXDEPT is not a keyword of QLOCAL; did you mean MAXDEPTH?"),
        ("DEF QL(N) ZZ(5)", 11, "ZZ is not a keyword of QLOCAL"),
        ("DEF QL(N) TARGET(Q1)", 11, "TARGET is not a keyword of QLOCAL, but of QALIAS"),
        ("DEF QL(N) DEFTYPE(PERMDYN)", 11, "DEFTYPE can be displayed, not set"),
        ("DEF QL(N) CURDEPTH(5)", 11, "CURDEPTH can be displayed, not set"),
        ("ALT QMGR CMDLEVEL(5)", 10, "CMDLEVEL can be displayed, not set"),
        ("DEF QA(N) MAXDEPTH(5)", 11, "MAXDEPTH is not a keyword of QALIAS, but of QLOCAL, QMODEL"),
        ("DEF QA(N) NOSHARE", 11, "SHARE is not a keyword of QALIAS, but of QLOCAL, QMODEL"),
        ("ALT QL(Q1) REPLACE", 12, "REPLACE is not a keyword of QLOCAL"),
        ("ALT QL(Q1) MAXDEPTH(1) MAXDEPTH(2)", 24, "MAXDEPTH is given twice"),
        ("ALT QL(Q1) SHARE NOSHARE", 18, "NOSHARE contradicts SHARE"),
        ("ALT QL(Q1) SHARE(YES)", 12, "SHARE takes no value"),
        ("DEF QL(N) REPLACE(YES)", 11, "REPLACE takes no value"),
        ("ALT QL(Q1) MAXDEPTH", 12, "MAXDEPTH needs a value in parentheses"),
        (
            "ALT QL(Q1) DESCR(a b)",
            12,
            "DESCR takes one value; quote it if blanks or commas belong to it",
        ),
        (
            "ALT QL(Q1) MAXDEPTH(-1)",
            12,
            "MAXDEPTH(-1) is not right: it must be a number from 0 to 999999999",
        ),
        (
            "ALT QL(Q1) MAXDEPTH(1000000000)",
            12,
            "MAXDEPTH(1000000000) is not right: it must be a number from 0 to 999999999",
        ),
        ("ALT QL(Q1) DEFPRTY(10)", 12, "DEFPRTY(10) is not right: it must be a number from 0 to 9"),
        ("ALT QL(Q1) PUT(MAYBE)", 12, "PUT(MAYBE) is not right: it must be ENABLED or DISABLED"),
        (
            "ALT QL(Q1) CAPEXPRY(0)",
            12,
            "CAPEXPRY(0) is not right: it must be NOLIMIT or a number from 1 to 999999999",
        ),
        (
            "ALT QMGR EXPRYINT(100000000)",
            10,
            "EXPRYINT(100000000) is not right: it must be OFF or a number from 1 to 99999999",
        ),
        (f"ALT QL(Q1) DESCR('{'é' * 33}')", 12, "DESCR is 66 bytes long; it may have 64"),
        ("ALT QL(Q1) DESCR('a\tb')", 12, "DESCR holds a character that cannot be printed"),
        (
            "ALT QL(Q1) BOQNAME('a b')",
            12,
            "BOQNAME: 'a b' is not 1 to 48 characters of A-Z a-z 0-9 . / _ %",
        ),
        ("DIS QL(Q1) MAXDEPTH(5)", 12, "MAXDEPTH takes no value"),
        ("DIS QL(Q1) NOSHARE", 12, "DISPLAY takes SHARE, not NOSHARE"),
        ("DIS QL(Q1) TARGET", 12, "TARGET is not a keyword of QLOCAL, but of QALIAS"),
        ("DIS QL(*1)", 5, "QL: '*1' is not 1 to 48 characters of A-Z a-z 0-9 . / _ %"),
        ("DIS QL(Q1) TYPE(QALIAS)", 12, "TYPE takes no value"),
        (
            "DIS Q(*) TYPE(QMGR)",
            10,
            "TYPE(QMGR) is not right: it must be QLOCAL or QALIAS or QREMOTE or QMODEL or ALL",
        ),
        ("DIS QS(Q1) TYPE(ALL)", 12, "TYPE(ALL) is not right: it must be QUEUE or HANDLE"),
        ("DIS QS(Q1) MAXDEPTH", 12, "MAXDEPTH is not a keyword of QSTATUS, but of QLOCAL, QMODEL"),
        (
            "DIS QL(*) WHERE(MAXDEPTH)",
            11,
            "WHERE needs (keyword operator value), as in WHERE(CURDEPTH GT 0)",
        ),
        (
            "DIS QL(*) WHERE(MAXDEP GT 1)",
            17,
            "WHERE: MAXDEP is not displayed here; did you mean MAXDEPTH?",
        ),
        (
            "DIS QL(*) WHERE(MAXDEPTH LK 1)",
            26,
            "WHERE: MAXDEPTH is compared by LT, LE, EQ, NE, GE, GT, not LK",
        ),
        ("DIS QL(*) WHERE(PUT LT ENABLED)", 21, "WHERE: PUT is compared by EQ, NE, not LT"),
        ("DIS QL(*) WHERE(MAXDEPTH GT MANY)", 29, "WHERE: MANY is no value of MAXDEPTH"),
        ("DIS QL(*) WHERE(PUT EQ MAYBE)", 24, "WHERE: MAYBE is no value of PUT"),
        ("DIS QMGR WHERE(EXPRYINT EQ OFF)", 10, "WHERE is not a keyword of DISPLAY QMGR"),
        ("DELETE QA(Q1) PURGE", 15, "PURGE is not a keyword of DELETE QALIAS"),
        ("CLEAR QL(Q1) PURGE", 14, "PURGE is not a keyword of CLEAR QLOCAL"),
    ],
)
def test_a_wrong_command_says_what_and_where_and_does_nothing(
    qm: mayfly.QueueManager, script: str, column: int, problem: str
) -> None:
    assert qm.mqsc("DEF QL(Q1)").ok
    before = qm.mqsc("DIS Q(*) ALL\nDIS QMGR").rows
    result = qm.mqsc(f"* first line\n{script}")
    assert not result.ok
    [message] = result.messages
    assert (message.code, message.line, message.column) == ("AMQ8405E", 2, column)
    assert message.body.splitlines()[-1] == f"line 2, column {column}: {problem}"
    assert qm.mqsc("DIS Q(*) ALL\nDIS QMGR").rows == before


def test_one_wrong_value_keeps_the_right_ones_of_the_command_from_being_set(
    qm: mayfly.QueueManager,
) -> None:
    assert qm.mqsc("DEF QL(Q1) MAXDEPTH(7)").ok
    assert not qm.mqsc("ALTER QL(Q1) MAXDEPTH(8) DEFPRTY(10)").ok
    assert qm.mqsc("DIS QL(Q1) MAXDEPTH").rows[0]["MAXDEPTH"] == 7


@pytest.mark.parametrize(
    ("low", "keyword", "high"),
    [(0, "MAXDEPTH", 999_999_999), (0, "DEFPRTY", 9), (1, "CAPEXPRY", 999_999_999)],
)
def test_both_ends_of_a_range_are_allowed(
    qm: mayfly.QueueManager, low: int, keyword: str, high: int
) -> None:
    result = qm.mqsc(
        f"DEF QL(Q1) {keyword}({low})\nDIS QL(Q1) {keyword}\n"
        f"ALT QL(Q1) {keyword}({high})\nDIS QL(Q1) {keyword}"
    )
    assert [row[keyword] for row in result.rows] == [low, high]
    assert qm.mqsc(f"ALT QL(Q1) {keyword}({low - 1})").codes == ["AMQ8405E"]
    assert qm.mqsc(f"ALT QL(Q1) {keyword}({high + 1})").codes == ["AMQ8405E"]


def test_a_number_of_a_thousand_digits_is_only_out_of_range(qm: mayfly.QueueManager) -> None:
    assert qm.mqsc(f"DEF QL(Q1) MAXDEPTH({'9' * 10_000})").codes == ["AMQ8405E"]
    assert qm.mqsc(f"DIS QL(*) WHERE(MAXDEPTH GT {'9' * 10_000})").codes == ["AMQ8405E"]
