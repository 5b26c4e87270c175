"""Ids of tasks as MsgIds, and names of queues of frameworks as names of MQ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.integrations.queues import mq_name_of, msg_id_of, name_of


def test_the_digits_of_a_uuid_are_the_msg_id() -> None:
    uuid = "3e916dfa-6930-40f9-9c13-e184bb0873eb"
    assert msg_id_of(uuid).hex() == "3e916dfa693040f99c13e184bb0873eb" + 16 * "0"
    assert msg_id_of(uuid.replace("-", "").upper()) == msg_id_of(uuid)


def test_a_short_id_is_itself_and_a_long_one_a_hash() -> None:
    assert msg_id_of("order-7") == b"order-7".ljust(24, b"\0")
    long = [msg_id_of(25 * "a"), msg_id_of(26 * "a")]
    assert [len(each) for each in long] == [24, 24]
    assert long[0] != long[1]
    with pytest.raises(ValueError, match="task_id ''"):
        msg_id_of("")


def test_a_name_that_mq_does_not_allow_is_escaped_and_comes_back() -> None:
    assert mq_name_of("w1@host.pidbox") == "w1%40host.pidbox"
    assert name_of("w1%40host.pidbox") == "w1@host.pidbox"
    with pytest.raises(ValueError, match="queue name ''"):
        mq_name_of("")


def test_names_that_are_too_long_stay_different() -> None:
    names = [f"{60 * 'q'}{number}" for number in range(2)]
    cut = [mq_name_of(name) for name in names]
    assert [len(name) for name in cut] == [48, 48]
    assert cut[0] != cut[1]
    assert name_of(cut[0]) is None


@given(st.text(min_size=1, max_size=16))
def test_a_name_that_fits_comes_back_as_it_was(name: str) -> None:
    found = name_of(mq_name_of(name))
    assert found in (name, None)
    assert len(mq_name_of(name)) <= 48
