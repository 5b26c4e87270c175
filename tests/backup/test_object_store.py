"""A backup in an object store, whose S3 is moto's; ``make interop`` runs it where that is there."""

from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.store.backup.copying import Copier
from mayfly.store.backup.objects import Secrets, place_of
from mayfly.store.backup.restoring import plan_of, restore
from tests.object_store import needs_object_store, store

pytestmark = [pytest.mark.object_store, needs_object_store]
__all__ = ["store"]
PLACE = "s3://lakes/backups/QM1"


@pytest.mark.usefixtures("store")
def test_a_backup_in_an_object_store_is_restored(tmp_path: Path) -> None:
    folder = tmp_path / "QM1"
    with QueueManager("QM1", folder) as qm:
        qm.define_queue("Q1")
        qm.session().put("Q1", b"kept", persistent=True)
    for _ in range(2):
        Copier(folder, "QM1", PLACE, Secrets(None), "0").back_up(lambda _done, _all: None)
    names = place_of(PLACE).names()
    assert sum(name.endswith("epoch.json") for name in names) == 2
    new = tmp_path / "NEW"
    restore(
        PLACE,
        plan_of(PLACE, None),
        new,
        is_new_instance=True,
        passphrase=None,
        say=lambda _done, _all: None,
    )
    with QueueManager("QM1", new) as qm:
        assert [message.body for message in qm.session().browse("Q1")] == [b"kept"]
    place_of(PLACE).remove(names[0])
    assert place_of(PLACE).names() == names[1:]
