"""A defined object: its kind, its name and the values of its attributes."""

from __future__ import annotations

import json
import re

from mayfly.engine.attributes import defaults_of
from mayfly.engine.attributes.attribute import Value
from mayfly.mqi.constants import MQCEX_NOLIMIT, MQQDT_PREDEFINED
from mayfly.mqi.errors import StoreDamaged
from mayfly.store.store import Store

#: The name of ``Definition.is_switched_off`` in the stored form.
SWITCHED_OFF = "switched_off"
_CUSTOM_CAP = re.compile(r"\bCAPEXPRY\((NOLIMIT|\d+)\)", re.IGNORECASE)


class Definition:
    """One defined object; ``kind`` is the MQSC object type, ``attributes`` are by keyword."""

    def __init__(self, kind: str, name: str, attributes: dict[str, Value]) -> None:
        """Hold a definition."""
        self.kind = kind
        self.name = name
        self.attributes = attributes
        #: MQQDT_*; dynamic queues remember how they came to be.
        self.definition_type = MQQDT_PREDEFINED
        #: Users who may do everything with it: it was made for them.
        self.owners: tuple[str, ...] = ()
        #: Whether a trigger of type DEPTH has made it NOTRIGGER, and nobody has said so since.
        self.is_switched_off = False

    def number(self, keyword: str) -> int:
        """Return a numeric attribute."""
        value = self.attributes[keyword]
        assert isinstance(value, int)
        return value

    def text(self, keyword: str) -> str:
        """Return a text attribute."""
        value = self.attributes[keyword]
        assert isinstance(value, str)
        return value

    @property
    def cap_tenths(self) -> int:
        """CAPEXPRY in tenths, or MQCEX_NOLIMIT; CUSTOM('CAPEXPRY(n)') wins when both stand (X2)."""
        custom = _CUSTOM_CAP.search(self.text("CUSTOM"))
        if custom is None:
            return self.number("CAPEXPRY")
        return MQCEX_NOLIMIT if custom[1].upper() == "NOLIMIT" else int(custom[1])

    @property
    def cap_text(self) -> str:
        """What an error calls the cap, with the object that has it."""
        return f"CAPEXPRY({self.cap_tenths}) of {self.kind}({self.name})"

    def to_json(self) -> str:
        """Return the stored form of the attributes."""
        made = {"definition_type": self.definition_type}
        owners = {"owners": self.owners} if self.owners else {}
        switched_off = {SWITCHED_OFF: True} if self.is_switched_off else {}
        return json.dumps({**made, **owners, **switched_off, **self.attributes})

    @classmethod
    def from_json(cls, kind: str, name: str, stored: str) -> Definition:
        """Return a definition from its stored form; attributes it lacks take their default."""
        values = json.loads(stored)
        definition_type, owners = values.pop("definition_type"), values.pop("owners", ())
        is_switched_off = values.pop(SWITCHED_OFF, False)
        definition = cls(kind, name, {**defaults_of(kind), **values})
        definition.definition_type = definition_type
        definition.owners = tuple(owners)
        definition.is_switched_off = is_switched_off
        return definition


def stored_definitions(store: Store) -> list[tuple[Definition, int]]:
    """Return all definitions of a store with their numbers; raises StoreDamaged, naming one."""
    found = []
    for kind, name, number, stored in store.objects():
        try:
            definition = Definition.from_json(kind, name, stored)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            # What is in memory nobody reads back.
            assert store.folder is not None
            raise StoreDamaged(
                f"the definition {kind} {name} is damaged: {error}", store.folder
            ) from error
        found.append((definition, number))
    return found
