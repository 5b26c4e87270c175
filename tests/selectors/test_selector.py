"""What a compiled selector says of itself: the names it reads, the ids to look it up by."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from mayfly.verbs.properties.selectors import selector
from mayfly.verbs.properties.selectors.selector import compile_selector

ID = "414d5120514d312020202020202020200102030405060708"
ID_BYTES = bytes.fromhex(ID)
ORDER = b"order-7".ljust(24, b"\0")


def test_needs_are_the_names_that_are_read() -> None:
    text = "a = 1 AND (b.c LIKE 'x' OR NOT d + e > 2) AND f IS NULL AND g IN ('h') AND 'a' = 'a'"
    assert compile_selector(text).needs == {"a", "b.c", "d", "e", "f", "g"}


@pytest.mark.parametrize(
    ("text", "msg_id", "correl_id"),
    [
        (f"JMSMessageID = 'ID:{ID}'", ID_BYTES, None),
        (f"JMSMessageID = 'ID:{ID.upper()}'", ID_BYTES, None),
        (f"'ID:{ID}' = JMSMessageID AND a > 1", ID_BYTES, None),
        (f'Root.MQMD.MsgId = "0x{ID}"', ID_BYTES, None),
        (f"JMSCorrelationID = 'ID:{ID}'", None, ID_BYTES),
        ("JMSCorrelationID = 'order-7'", None, ORDER),
        ("JMSCorrelationID IN ('order-7')", None, ORDER),
        ("JMSCorrelationID = 'ID:01ff'", None, b"\x01\xff".ljust(24, b"\0")),
        (f"JMSCorrelationID = '{'€' * 9}'", None, ("€" * 8).encode()),
        (f'a = 1 AND (b = 2 AND Root.MQMD.CorrelId = "0x{ID}") AND c', None, ID_BYTES),
        (f"JMSMessageID = 'ID:{ID}' AND JMSCorrelationID = 'order-7'", ID_BYTES, ORDER),
    ],
)
def test_ids_that_every_selected_message_has(
    text: str, msg_id: bytes | None, correl_id: bytes | None
) -> None:
    selector = compile_selector(text)
    assert (selector.msg_id, selector.correl_id) == (msg_id, correl_id)


@pytest.mark.parametrize(
    "text",
    [
        f"JMSMessageID <> 'ID:{ID}'",
        f"JMSMessageID = 'ID:{ID}' OR a = 1",
        f"NOT JMSMessageID = 'ID:{ID}'",
        f"(JMSMessageID = 'ID:{ID}') = FALSE",
        f"JMSMessageID IN ('ID:{ID}', 'x')",
        f"JMSMessageID NOT IN ('ID:{ID}')",
        f"JMSMessageID LIKE 'ID:{ID}'",
        "JMSMessageID = 'no id'",
        "JMSMessageID = 'ID:'",
        "JMSMessageID = 'ID:00'",
        "JMSMessageID = a",
        "JMSMessageID = 1",
        'Root.MQMD.MsgId = "0x01"',
        f'Root.MQMD.MsgId = "0x{"00" * 24}"',
        f'Root.MQMD.CorrelId = "0x{"00" * 24}"',
        "JMSCorrelationID = ''",
        "Root.MQMD.CorrelId = 1",
    ],
)
def test_other_selectors_name_no_id(text: str) -> None:
    selector = compile_selector(text)
    assert (selector.msg_id, selector.correl_id) == (None, None)


def test_ids_are_equal_in_any_case_and_length() -> None:
    value = {"JMSMessageID": f"ID:{ID}", "JMSCorrelationID": "ID:01ff" + 44 * "0"}
    for text in (
        f"JMSMessageID = 'ID:{ID.upper()}'",
        f"JMSMessageID IN ('x', 'ID:{ID.upper()}')",
        "JMSCorrelationID = 'ID:01FF'",
        "NOT JMSCorrelationID <> 'ID:01FF00'",
    ):
        assert compile_selector(text).matches(value.get), text


def test_fields_of_the_mqmd_compare_without_their_padding() -> None:
    value = {"Root.MQMD.Format": "MQSTR", "colour": "red"}
    for text in ("Root.MQMD.Format = 'MQSTR   '", "Root.MQMD.Format IN ('MQSTR  ')"):
        assert compile_selector(text).matches(value.get), text
    assert not compile_selector("colour = 'red '").matches(value.get)


def test_the_same_text_is_compiled_once() -> None:
    assert compile_selector("a = 12345") is compile_selector("a = 12345")


def test_compiled_selectors_are_kept_as_far_as_their_bytes_have_room() -> None:
    """A thousand of the longest would take 2 GB; those compiled last are kept."""
    texts = [f"a LIKE '{number}{'%x' * 5_000}'" for number in range(12)]
    first = compile_selector(texts[0])
    kept = [compile_selector(text) for text in texts]
    assert kept[0] is first
    again = [compile_selector(text) for text in reversed(texts)]
    same_count = sum(one is other for one, other in zip(reversed(kept), again, strict=True))
    assert 4 <= same_count <= 8


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "+".join(["a"] * 1_000) + " = 1",
        "a LIKE '" + "".join(f"%{chr(n)}_" for n in range(256, 999)) + "'",
    ],
)
def test_a_compiled_selector_takes_no_more_bytes_than_are_counted(text: str) -> None:
    compile_selector("z = 1")
    gc.collect()
    tracemalloc.start()
    compiled = compile_selector(text)
    gc.collect()
    taken, _peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert compiled.text == text
    assert taken <= selector._bytes_of(text)
