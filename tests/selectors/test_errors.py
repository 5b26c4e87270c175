"""What a malformed selector is refused with: the reason, the position and what was expected."""

from __future__ import annotations

import pytest

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, OptionsError
from mayfly.mqi.properties import Value
from mayfly.verbs.properties.selectors.selector import compile_selector

VALUE, OPERATOR, NAME = "a value", "an operator", "the name of a property"
HEADERS = (
    "one of JMSCorrelationID, JMSDeliveryMode, JMSMessageID, JMSPriority, JMSTimestamp, JMSType"
)


@pytest.mark.parametrize(
    ("text", "position", "expected", "found"),
    [
        ("", 1, VALUE, "the end"),
        ("  ", 1, VALUE, "the end"),
        ("a = ", 4, VALUE, "the end"),
        ("a = 1 AND", 10, VALUE, "the end"),
        ("a =\n  AND b", 7, VALUE, "'AND'"),
        ("NOT", 4, VALUE, "the end"),
        ("a b", 3, f"{OPERATOR} or the end", "'b'"),
        ("a = 1 = 2", 7, "AND or OR or the end", "'='"),
        ("a IS NULL b", 11, "AND or OR or the end", "'b'"),
        ("(a = 1", 7, "')'", "the end"),
        ("a = 1)", 6, "the end", "')'"),
        ("a IS 1", 6, "NOT or NULL", "'1'"),
        ("a NOT 3", 7, "BETWEEN or IN or LIKE", "'3'"),
        ("a BETWEEN 1 OR 2", 13, "AND", "'OR'"),
        ("a IN 'x'", 6, "'('", "\"'x'\""),
        ("a IN ()", 7, "a text in quotes", "')'"),
        ("a IN (1)", 7, "a text in quotes", "'1'"),
        ("a IN ('x' 'y')", 11, "',' or ')'", "\"'y'\""),
        ("a LIKE b", 8, "a text in quotes", "'b'"),
        ("a LIKE 'x' ESCAPE 'yy'", 19, "one character in quotes", "'yy'"),
        ("a LIKE 'x' ESCAPE ''", 19, "one character in quotes", "''"),
        ("a LIKE 'x!' ESCAPE '!'", 8, "a character after the escape character", "the end"),
        ("a = 'x", 5, "a text that ends with a quote", "none"),
        ('a = "x"', 5, "a byte string", "something else"),
        ('a = "0xAFC"', 5, "a byte string", "something else"),
        ('a = "0x"', 5, "a byte string", "something else"),
        ("a != 1", 3, "a word, a number, a quote or an operator", "'!'"),
        ("a == 1", 4, VALUE, "'='"),
        ("a = #1", 5, "a word, a number, a quote or an operator", "'#'"),
        ("a = 09", 5, "a number", "'09'"),
        ("a = 1x", 5, "a number", "'1x'"),
        ("a = 0x", 5, "a number", "'0x'"),
        ("a = 1.5.5", 5, "a number", "'1.5.5'"),
        ("a = 1_000", 5, "a number", "'1_000'"),
        ("a = 9223372036854775808", 5, "a number of 64 bits", "'9223372036854775808'"),
        ("a = +9223372036854775808", 6, "a number of 64 bits", "9223372036854775808"),
        ("a = -9223372036854775809", 6, "a number of 64 bits", "9223372036854775809"),
        ("a = 0x10000000000000000", 5, "a number of 64 bits", "0x1"),
        ("a = 1e309", 5, "a number of 64 bits", "1e309"),
        ("a = 1e39f", 5, "a number of 64 bits", "1e39f"),
        ("a = 0x1p1024", 5, "a number of 64 bits", "0x1p1024"),
        ("5", 1, "a condition", "a number"),
        ("b AND a + 1", 7, "a condition", "a number"),
        ("NOT 'x'", 5, "a condition", "a text"),
        ('b OR "0x61"', 6, "a condition", "a byte string"),
        ("a > 'x'", 5, "a number", "a text"),
        ("TRUE < a", 1, "a number", "a condition"),
        ("a + (b = 1) > 2", 6, "a number", "a condition"),
        ("-'x' = a", 2, "a number", "a text"),
        ("a BETWEEN 'x' AND 'y'", 11, "a number", "a text"),
        ("1 IN ('x')", 1, NAME, "a number"),
        ("'x' LIKE 'x'", 1, NAME, "a text"),
        ("a + 1 IS NULL", 1, NAME, "a number"),
        ("NULL = a", 1, VALUE, "'NULL'"),
        ("a = null", 5, VALUE, "'null'"),
        ("Between = 1", 1, VALUE, "'Between'"),
        ("1 = 1 AND JMSDestination = 'x'", 11, HEADERS, "JMSDestination"),
        ("JMSReplyTo = 'x'", 1, HEADERS, "JMSReplyTo"),
        ("JMSExpiration > 0", 1, HEADERS, "JMSExpiration"),
        ("JMSRedelivered", 1, HEADERS, "JMSRedelivered"),
        ("JMSDeliveryTime > 0", 1, HEADERS, "JMSDeliveryTime"),
        ("JMSpriority > 0", 1, HEADERS, "JMSpriority"),
        ("JMS_IBM_Character_Set = 'x'", 1, "Root.MQMD.CodedCharSetId", "JMS_IBM_Character_Set"),
        ("a = 1 OR Root.MQMD.Version = 1", 10, "Root.MQMD. and a field of the MQMD", "Root.MQMD"),
        ("Root.MQMD.priority = 1", 1, "Root.MQMD. and a field of the MQMD", "Root.MQMD.p"),
        ("Root.X = 1", 1, "Root.MQMD. and a field of the MQMD", "Root.X"),
        ("a..b = 1", 3, "a name before and after each dot", "none"),
        ("a. = 1", 3, "a name before and after each dot", "none"),
        ("a.1b = 1", 3, "a name as in Java", "'1'"),
        ("a\u00a0= 1", 2, "a name as in Java", r"'\xa0'"),
        ("a²= 1", 2, "a name as in Java", "'²'"),
    ],
)
def test_a_malformed_selector_is_refused_where_it_is_wrong(
    text: str, position: int, expected: str, found: str
) -> None:
    with pytest.raises(OptionsError) as caught:
        compile_selector(text)
    assert caught.value.reason == rc.MQRC_SELECTOR_SYNTAX_ERROR
    where, _, rest = caught.value.detail.partition(": expected ")
    said, _, there = rest.rpartition(", found ")
    assert (where, there[: len(found)]) == (f"position {position}", found)
    assert said.startswith(expected)


@pytest.mark.parametrize("text", ["FALSE", "1 = 2", "TRUE <> TRUE", "1 / 0 = 1", "NOT 'a' = 'a'"])
def test_what_can_never_be_true_is_refused(text: str) -> None:
    with pytest.raises(OptionsError) as caught:
        compile_selector(text)
    assert caught.value.reason == rc.MQRC_SELECTOR_ALWAYS_FALSE


@pytest.mark.parametrize(
    "number",
    [
        "9" * 9_000,
        "9" * 9_000 + "L",
        "-" + "9" * 9_000,
        "0" + "7" * 9_000,
        "0x" + "f" * 9_000,
        "9" * 9_000 + ".0",
        "1e" + "9" * 9_000,
        "0x1p" + "9" * 9_000,
    ],
)
def test_2459_a_number_of_thousands_of_digits_is_one_that_is_too_large(number: str) -> None:
    """Python itself converts no more than 4,300 decimal digits."""
    with pytest.raises(OptionsError) as caught:
        compile_selector(f"a = {number}")
    assert caught.value.reason == rc.MQRC_SELECTOR_SYNTAX_ERROR
    assert "expected a number of 64 bits" in caught.value.detail
    assert len(caught.value.detail) < 100


def test_what_is_always_true_selects_everything() -> None:
    selector = compile_selector("TRUE <> FALSE")
    assert selector.needs == frozenset()
    nothing: dict[str, Value] = {}
    assert selector.matches(nothing.get)


def test_the_longest_text_has_10240_characters() -> None:
    longest = f"a = '{'x' * 10_234}'"
    assert len(longest) == 10_240
    assert compile_selector(longest).matches({"a": "x" * 10_234}.get)
    with pytest.raises(MQError) as caught:
        compile_selector(longest + " ")
    assert caught.value.reason == 2519


@pytest.mark.parametrize(
    ("front", "back"),
    [("NOT ", ""), ("- ", " = 1"), ("1+(", ")" * 101 + " = 1"), ("b OR (c AND (", ")" * 202)],
)
def test_nesting_has_a_limit_and_no_text_overflows_the_stack(front: str, back: str) -> None:
    with pytest.raises(OptionsError) as caught:
        compile_selector(f"{front * 101}a{back}")
    assert caught.value.reason == rc.MQRC_SELECTOR_SYNTAX_ERROR
    assert "at most 100 levels of nesting" in caught.value.detail


def test_chains_and_parentheses_do_not_count_as_nesting() -> None:
    assert compile_selector(" AND ".join(["a"] * 1_000)).matches({"a": True}.get)
    assert compile_selector(" OR ".join(["b"] * 1_000) + " OR a").matches({"a": True}.get)
    assert compile_selector(f"{'1+' * 2_000}a = 2001").matches({"a": 1}.get)
    assert compile_selector(f"{'(' * 3_000}a{')' * 3_000}").matches({"a": True}.get)


def test_one_hundred_levels_are_allowed() -> None:
    assert compile_selector(f"{'NOT ' * 100}a").matches({"a": True}.get)
