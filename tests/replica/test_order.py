"""Nothing is acknowledged that was not appended, whatever ends the append."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mayfly.mqi.errors import LostAnswer, MQError, StoreError
from tests.store.scene import held, opened, put_unit

pytestmark = pytest.mark.interpreted


def raising(error: BaseException) -> Callable[[], None]:
    def append() -> None:
        raise error

    return append


def test_an_interrupt_of_the_append_stops_the_store_and_acknowledges_nothing(
    tmp_path: Path,
) -> None:
    store = opened(tmp_path)
    store.group._append = raising(KeyboardInterrupt())
    unit = put_unit(store)
    with pytest.raises(KeyboardInterrupt):
        store.commit([unit])
    assert not unit.is_safe
    assert store.group.is_broken
    with pytest.raises(MQError, match="2009"):
        store.commit([put_unit(store)])
    store.close()


def test_a_refused_append_fails_all_units_of_the_transaction_with_its_reason(
    tmp_path: Path,
) -> None:
    store = opened(tmp_path)
    store.group._append = raising(StoreError("QM1 is owned by two", tmp_path))
    units = [put_unit(store), put_unit(store)]
    with pytest.raises(LostAnswer, match="not in the replica: QM1 is owned by two"):
        store.commit(units)
    assert [unit.is_safe for unit in units] == [False, False]
    store.close()


def test_a_transaction_that_was_rolled_back_is_not_appended(tmp_path: Path) -> None:
    store = opened(tmp_path)
    unit = put_unit(store)
    store.commit([unit])
    appended: list[int] = []
    store.group._append = lambda: appended.append(len(held(store)))
    with pytest.raises(Exception, match="UNIQUE"):
        store.commit([put_unit(store, *unit.inserts)])
    store.commit([put_unit(store)])
    assert appended == [2]
    store.close()
