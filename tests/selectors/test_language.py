"""Every construct of the selector language with the values it is true, false and unknown for.

After JMS 2.0, "Message Selector Syntax", and IBM MQ, "Message selector syntax".
"""

from __future__ import annotations

import pytest

from mayfly.mqi.properties import Value
from mayfly.verbs.properties.selectors.selector import compile_selector

T, F, U = True, False, None
MAX, MIN = 2**63 - 1, -(2**63)


def outcome(text: str, **values: Value) -> Value:
    return compile_selector(text).evaluate(values.get)


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("a = 'red'", "red", T),
        ("a = 'red'", "Red", F),
        ("a = 'red'", None, U),
        ("a <> 'red'", "blue", T),
        ("a <> 'red'", "red", F),
        ("a <> 'red'", None, U),
        ("'red' = a", "red", T),
        ("a = 'it''s'", "it's", T),
        ("a = ''''", "'", T),
        ("a = ''", "", T),
        ("a = ' x\ty\n'", " x\ty\n", T),
        ("a = 'größe € 😀'", "größe € 😀", T),
        ("a = 'AND'", "AND", T),
        ("a = TRUE", True, T),
        ("a = true", False, F),
        ("a <> False", True, T),
        ("a = TRUE", None, U),
        ('a = "0x0AFC23"', bytes.fromhex("0afc23"), T),
        ('a = "0X0afc23"', bytes.fromhex("0afc23"), T),
        ('a = "0x0AFC2300"', bytes.fromhex("0afc23"), F),
        ('a <> "0x000AFC23"', bytes.fromhex("0afc23"), T),
        ('a = "0x0A"', None, U),
    ],
)
def test_texts_booleans_and_byte_strings_are_equal_or_not(
    text: str, value: Value, expected: Value
) -> None:
    assert outcome(text, a=value) is expected


@pytest.mark.parametrize("symbol", ["=", "<>"])
@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("1", "1"),
        ("1", True),
        ("0", False),
        ("1.0", True),
        ("1", b"1"),
        ("'1'", 1),
        ("'a'", b"a"),
        ("'TRUE'", True),
        ("TRUE", 1),
        ("TRUE", 1.0),
        ("TRUE", "TRUE"),
        ('"0x61"', "a"),
        ("0x61", b"a"),
    ],
)
def test_values_of_unlike_types_compare_as_false_not_as_unknown(
    symbol: str, literal: str, value: Value
) -> None:
    assert outcome(f"a {symbol} {literal}", a=value) is False
    assert outcome(f"{literal} {symbol} a", a=value) is False
    assert outcome(f"b {symbol} {literal} OR a {symbol} b", a=value, b=value) is (symbol == "=")
    assert outcome(f"NOT a {symbol} {literal}", a=value) is True


@pytest.mark.parametrize("symbol", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("value", ["5", True, b"5"])
def test_only_numbers_have_an_order(symbol: str, value: Value) -> None:
    assert outcome(f"a {symbol} 4", a=value) is False
    assert outcome(f"4 {symbol} a", a=value) is False
    assert outcome(f"a {symbol} a", a=value) is False
    assert outcome(f"a {symbol} a", a=None) is None


@pytest.mark.parametrize(
    ("symbol", "below", "same", "above"),
    [
        ("=", F, T, F),
        ("<>", T, F, T),
        ("<", T, F, F),
        ("<=", T, T, F),
        (">", F, F, T),
        (">=", F, T, T),
    ],
)
def test_numbers_compare_at_and_beside_the_limit(
    symbol: str, below: bool, same: bool, above: bool
) -> None:
    for limit in ("10", "10.0"):
        selector = f"a {symbol} {limit}"
        assert [outcome(selector, a=value) for value in (9, 10, 11)] == [below, same, above]
        assert [outcome(selector, a=value) for value in (9.5, 10.0, 10.5)] == [below, same, above]
        assert [outcome(f"{limit} {symbol} a", a=value) for value in (11, 10, 9)] == [
            below,
            same,
            above,
        ]
        assert outcome(selector, a=None) is None
        assert outcome(f"a {symbol} b", a=9, b=10.0) is below
        assert outcome(f"a {symbol} b", a=None, b=10.0) is None


def test_an_integer_beside_a_float_becomes_a_float_as_in_java() -> None:
    assert outcome("a = 9007199254740992.0", a=2**53 + 1) is True
    assert outcome("a = 9007199254740993", a=2.0**53) is True
    assert outcome("a = b", a=2**53 + 1, b=2.0**53) is True
    assert outcome("a = 9007199254740992", a=2**53 + 1) is False


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("57", 57),
        ("-957", -957),
        ("+62", 62),
        ("0", 0),
        ("57L", 57),
        ("57l", 57),
        ("0x1F", 31),
        ("0XffL", 255),
        ("0xFFFFFFFF", 4294967295),
        ("0xFFFFFFFFFFFFFFFF", -1),
        ("0177", 127),
        ("00", 0),
        ("01777777777777777777777", -1),
        ("9223372036854775807", MAX),
        ("-9223372036854775808", MIN),
        ("- 9223372036854775808L", MIN),
        ("7.", 7.0),
        (".5", 0.5),
        ("-95.7", -95.7),
        ("+6.2", 6.2),
        ("7E3", 7000.0),
        ("-57.9E2", -5790.0),
        ("1e-3", 0.001),
        ("1.5e+3d", 1500.0),
        ("7d", 7.0),
        ("7F", 7.0),
        ("0.1f", 0.10000000149011612),
        ("0x1.8p1", 3.0),
        ("0xAp-1D", 5.0),
        ("0xfp0f", 15.0),
    ],
)
def test_number_literals_are_those_of_java(literal: str, value: float) -> None:
    assert outcome(f"a = {literal}", a=value) is True
    assert outcome(f"a = {literal}", a=value + 1 if abs(value) < 2**60 else 0) is False


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("100 / 10 / 5", 2),
        ("2 * 7 / 4", 3),
        ("-7 / 2", -3),
        ("7 / -2", -3),
        ("7 / 2.0", 3.5),
        ("1 + 2.5", 3.5),
        ("- -5", 5),
        ("-(2 + 3)", -5),
        ("3 - -4", 7),
        ("3--4", 7),
        ("9223372036854775807 + 1", MIN),
        ("-9223372036854775808 - 1", MAX),
        ("4611686018427387904 * 2", MIN),
        ("-9223372036854775808 / -1", MIN),
        ("- -9223372036854775808", MIN),
        ("1.0 / 0", float("inf")),
        ("-1 / 0.0", float("-inf")),
        ("1 / -0.0", float("-inf")),
    ],
)
def test_arithmetic_is_that_of_java(expression: str, value: float) -> None:
    assert outcome(f"a = {expression}", a=value) is True
    assert outcome(f"{expression} = a", a=value) is True


def test_the_same_arithmetic_with_names() -> None:
    assert outcome("a + b * c = 7", a=1, b=2, c=3) is True
    assert outcome("a / b = -3 AND a / c = -3.5", a=-7, b=2, c=2.0) is True
    assert outcome("-a = b AND +a = a", a=5, b=-5) is True
    assert outcome("a + 1 = b", a=MAX, b=MIN) is True
    assert outcome("a / b > 1", a=1.0, b=0) is True
    assert outcome("a / b = a / b", a=0.0, b=0) is False, "0.0 / 0 is not a number"


@pytest.mark.parametrize("text", ["a / 0 = 1", "NOT a / 0 = 1", "a / b = 1"])
def test_an_integer_divided_by_zero_selects_nothing(text: str) -> None:
    assert outcome(text, a=1, b=0) is None


@pytest.mark.parametrize("value", [None, "5", True, b"5"])
def test_arithmetic_with_what_is_no_number_is_unknown(value: Value) -> None:
    for text in (
        "a + 1 > 0",
        "1 - a > 0",
        "-a < 0",
        "+a > 0",
        "a * 1.5 > 0",
        "a / 2 BETWEEN 0 AND 9",
    ):
        assert outcome(text, a=value) is None
        assert outcome(f"NOT ({text})", a=value) is None


@pytest.mark.parametrize(
    ("left", "right", "both", "either"),
    [
        (T, T, T, T),
        (T, F, F, T),
        (T, U, U, T),
        (F, T, F, T),
        (F, F, F, F),
        (F, U, F, U),
        (U, T, U, T),
        (U, F, F, U),
        (U, U, U, U),
    ],
)
def test_the_truth_tables_of_sql(left: Value, right: Value, both: Value, either: Value) -> None:
    assert outcome("a AND b", a=left, b=right) is both
    assert outcome("a OR b", a=left, b=right) is either
    assert outcome("a AND b AND TRUE", a=left, b=right) is both
    assert outcome("a OR b OR FALSE", a=left, b=right) is either
    assert outcome("a = TRUE AND b = TRUE", a=left, b=right) is both


def test_not_turns_true_and_false_and_leaves_unknown() -> None:
    assert [outcome("NOT a", a=value) for value in (T, F, U)] == [F, T, U]
    assert [outcome("not NOT a", a=value) for value in (T, F, U)] == [T, F, U]


def test_a_name_alone_is_true_only_for_the_boolean_true() -> None:
    values: list[Value] = [True, False, None, 1, 1.0, "TRUE", b"\1"]
    assert [outcome("a", a=value) for value in values] == [T, F, U, F, F, F, F]
    assert [outcome("a = TRUE", a=value) for value in values] == [T, F, U, F, F, F, F]


def test_a_condition_may_be_compared_with_a_boolean() -> None:
    assert outcome("(a > 1) = TRUE", a=2) is True
    assert outcome("(a > 1) = b", a=2, b=False) is False
    assert outcome("(a > 1) = FALSE", a=None) is None


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a OR b AND c", "a OR (b AND c)"),
        ("a AND b OR c", "(a AND b) OR c"),
        ("NOT a AND b", "(NOT a) AND b"),
        ("NOT a OR b", "(NOT a) OR b"),
        ("NOT x = 1 AND b", "(NOT (x = 1)) AND b"),
        ("x + 1 * 2 = 3 AND b", "((x + (1 * 2)) = 3) AND b"),
        ("x BETWEEN 0 AND 1 AND b", "(x BETWEEN 0 AND 1) AND b"),
        ("a AND x BETWEEN 0 AND 1 OR b", "(a AND (x BETWEEN 0 AND 1)) OR b"),
        ("NOT x BETWEEN 0 AND 1 OR b", "(NOT (x BETWEEN 0 AND 1)) OR b"),
        ("NOT a = b", "NOT (a = b)"),
    ],
)
def test_precedence(text: str, same: str) -> None:
    for bits in range(16):
        a, b, c = (bool(bits & bit) for bit in (1, 2, 4))
        values: dict[str, Value] = {"a": a, "b": b, "c": c, "x": 1 if bits & 8 else 5}
        assert outcome(text, **values) is outcome(same, **values)


@pytest.mark.parametrize(
    ("value", "inside", "outside"),
    [(14, F, T), (15, T, F), (19, T, F), (20, F, T), (15.0, T, F), (19.5, F, T), (None, U, U)],
)
def test_between_has_both_its_ends(value: Value, inside: Value, outside: Value) -> None:
    assert outcome("age BETWEEN 15 AND 19", age=value) is inside
    assert outcome("age >= 15 AND age <= 19", age=value) is inside
    assert outcome("age NOT BETWEEN 15 AND 19", age=value) is outside
    assert outcome("age < 15 OR age > 19", age=value) is outside


def test_between_is_two_comparisons_for_null_and_unlike_types_too() -> None:
    assert outcome("a BETWEEN b AND 3", a=4, b=None) is False
    assert outcome("a BETWEEN b AND 3", a=2, b=None) is None
    assert outcome("a NOT BETWEEN b AND 3", a=4, b=None) is True
    assert outcome("a NOT BETWEEN b AND 3", a=2, b=None) is None
    assert outcome("a BETWEEN 1 AND 3", a="2") is False
    assert outcome("a NOT BETWEEN 1 AND 3", a="2") is False
    assert outcome("a + 1 BETWEEN b - 1 AND b * 2", a=4, b=3) is True


@pytest.mark.parametrize(
    ("value", "inside", "outside"),
    [("UK", T, F), ("France", T, F), ("uk", F, T), ("Peru", F, T), (None, U, U), (5, F, T)],
)
def test_in_is_equality_with_one_of_the_texts(value: Value, inside: Value, outside: Value) -> None:
    assert outcome("Country IN (' UK', 'UK', 'US','France')", Country=value) is inside
    assert outcome("Country NOT IN ('UK', 'US', 'France')", Country=value) is outside
    assert outcome("NOT (Country = 'UK' OR Country = 'France')", Country=value) is outside


@pytest.mark.parametrize(
    ("condition", "matching", "other"),
    [
        ("LIKE '12%3'", ["123", "12993", "12%3", "12\n3"], ["1234", "0123", "12"]),
        ("LIKE 'l_se'", ["lose", "l_se", "l😀se"], ["loose", "lse", "Lose"]),
        ("LIKE '\\_%' ESCAPE '\\'", ["_foo", "_"], ["bar", "\\_foo", ""]),
        ("LIKE '100!%' ESCAPE '!'", ["100%"], ["1000", "100!%"]),
        ("LIKE 'a!!b' ESCAPE '!'", ["a!b"], ["a!!b"]),
        ("LIKE 'it''s%'", ["it's", "it's so"], ["its"]),
        ("LIKE 'a.c*'", ["a.c*"], ["abc", "abcc"]),
        ("LIKE ''", [""], [" "]),
        ("LIKE '%'", ["", "x"], []),
        ("LIKE '%b%b%'", ["bb", "abcabc"], ["b", "abc"]),
        ("LIKE '%ab'", ["ab", "aab", "abab"], ["aba"]),
        ("LIKE '_%_'", ["ab", "abc"], ["a", ""]),
        ("LIKE '%_b%c'", ["abc", "bbxc"], ["bc", "abcx"]),
    ],
)
def test_like(condition: str, matching: list[str], other: list[str]) -> None:
    opposite = condition.replace("LIKE", "not like", 1)
    assert [outcome(f"a {condition}", a=text) for text in matching] == [T] * len(matching)
    assert [outcome(f"a {condition}", a=text) for text in other] == [F] * len(other)
    assert [outcome(f"a {opposite}", a=text) for text in matching] == [F] * len(matching)
    assert [outcome(f"a {opposite}", a=text) for text in other] == [T] * len(other)
    assert outcome(f"a {condition}", a=None) is None
    assert outcome(f"a {opposite}", a=None) is None
    assert outcome(f"a {condition}", a=12) is False
    assert outcome(f"a {opposite}", a=12) is True


def test_a_pattern_with_many_percent_signs_does_not_take_long() -> None:
    assert outcome(f"a LIKE '{'%a' * 200}b'", a="a" * 5_000) is False


def test_null_is_asked_for_and_never_unknown() -> None:
    values: list[Value] = [None, "", 0, False, "x"]
    assert [outcome("a IS NULL", a=value) for value in values] == [T, F, F, F, F]
    assert [outcome("a is not null", a=value) for value in values] == [F, T, T, T, T]
    assert outcome("NOT a IS NULL", a=None) is False


def test_words_may_be_in_any_case_and_names_may_not() -> None:
    text = "a Is noT nUll aNd A beTween 1 anD 2 oR b lIke 'x' escApe '!' or b In ('y') or fAlse"
    assert outcome(text, a=1, A=1) is True
    assert outcome(text, a=1, A=3, b="y") is True
    assert outcome("colour = 'x'", Colour="x") is None


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "_",
        "$",
        "a1",
        "A_b$9",
        "größe",
        "名前",
        "€uro",
        "nullable",
        "ANDROID",
        "In_",
        "a‿b",
        "isx",
    ],
)
def test_names_are_those_of_java(name: str) -> None:
    assert outcome(f"{name} = 1", **{name: 1}) is True


@pytest.mark.parametrize(
    "name",
    [
        *"JMSDeliveryMode JMSPriority JMSMessageID JMSTimestamp JMSCorrelationID JMSType".split(),
        *"JMSXGroupID JMSXOther JMS_IBM_MsgType JMS_other jmsx".split(),
        *"Root.MQMD.Priority Root.MQMD.MsgId usr.colour mine.group.colour jms.Dst".split(),
    ],
)
def test_names_of_headers_fields_and_folders(name: str) -> None:
    selector = compile_selector(f"{name} IS NOT NULL")
    assert selector.needs == {name}
    assert selector.matches({name: "x"}.get) is True


def test_white_space_is_that_of_java_and_needed_only_between_words() -> None:
    assert outcome(" \t\r\n\fa=1\nAND\tb='x'OR(c)\r\n", a=1, b="x") is True


def test_matches_tells_true_from_false_and_unknown() -> None:
    selector = compile_selector("a = 1")
    assert [selector.matches({"a": value}.get) for value in (1, 2, None)] == [T, F, F]
