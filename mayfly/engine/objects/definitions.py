"""The definitions that a store holds."""

from __future__ import annotations

from mayfly.engine.attributes import TABLES
from mayfly.engine.attributes.definition import Definition
from mayfly.mqi.errors import StoreDamaged
from mayfly.store.store import Store


def stored_definitions(store: Store) -> list[tuple[Definition, int]]:
    """Return all definitions of a store with their numbers; raises StoreDamaged, naming one."""
    found = []
    for kind, name, number, stored in store.objects():
        try:
            definition = TABLES[kind].from_json(kind, name, stored)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            # A queue manager in memory reads nothing back.
            assert store.folder is not None
            raise StoreDamaged(
                f"the definition {kind} {name} is damaged: {error}", store.folder
            ) from error
        found.append((definition, number))
    return found
