"""A defined object: its kind, its name, its attributes as typed fields, and its stored form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from mayfly.engine.attributes.attribute import ROW, STORED, Attribute
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQQDT_PREDEFINED
from mayfly.mqi.errors import mq_error
from mayfly.verbs.facts import Value

#: The name of ``Definition.is_switched_off`` in the stored form.
SWITCHED_OFF = "switched_off"
#: The table of each kind of object; :func:`table` enters it.
TABLES: dict[str, type[Definition]] = {}
_D = TypeVar("_D", bound="Definition")


@dataclass(slots=True, eq=False, repr=False)
class Definition:
    """One defined object; ``kind`` is the MQSC object type.

    Each subclass is the table of attributes of its ``kinds``. An attribute is a field, with its
    default where the kind does not have it; ``attributes`` are those the kind has, by keyword.
    """

    kinds: ClassVar[tuple[str, ...]] = ()

    kind: str
    name: str
    #: MQQDT_*; dynamic queues remember how they came to be.
    definition_type: int = MQQDT_PREDEFINED
    #: Users who may do everything with it: it was made for them.
    owners: tuple[str, ...] = ()
    #: Whether a trigger of type DEPTH has made it NOTRIGGER, and nobody has said so since.
    is_switched_off: bool = False
    #: Attributes that a newer Mayfly has stored: they are stored again as they were.
    unknown: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def attributes(self) -> Mapping[str, Value]:
        """The attributes that the kind has, by keyword, in display order; a snapshot."""
        rows = attributes_of(self.kind)
        return MappingProxyType({k: getattr(self, row.field) for k, row in rows.items()})

    def value(self, attribute: Attribute) -> Value:
        """Return the value of an attribute of a table."""
        value: Value = getattr(self, attribute.field)
        return value

    def altered(self, attributes: Mapping[str, Value]) -> Self:
        """Return a copy in which attributes, by keyword, have other values.

        Raises MQRC_SELECTOR_ERROR for an attribute that the kind does not have, TypeError for text
        in the place of a number or the other way round.
        """
        made = copy(self)
        rows = attributes_of(self.kind)
        for keyword, value in attributes.items():
            row = rows.get(keyword)
            if row is None:
                said = f"{self.kind} {self.name} has no attribute {keyword} ({value!r})"
                raise mq_error(rc.MQRC_SELECTOR_ERROR, said)
            setattr(made, row.field, _checked(keyword, value, row.default))
        return made

    def take(self, other: Self) -> None:
        """Take the attributes of another definition of the object."""
        for row in attributes_of(self.kind).values():
            setattr(self, row.field, getattr(other, row.field))

    def to_json(self) -> str:
        """Return the stored form."""
        made = {"definition_type": self.definition_type}
        owners = {"owners": self.owners} if self.owners else {}
        switched_off = {SWITCHED_OFF: True} if self.is_switched_off else {}
        kept = _kept_names(self.kind).items()
        beside = {stored_name: getattr(self, name) for stored_name, (name, _default) in kept}
        every = {**made, **owners, **switched_off, **self.attributes, **beside, **self.unknown}
        return json.dumps(every)

    @classmethod
    def from_json(cls, kind: str, name: str, stored: str) -> Self:
        """Return a definition from its stored form; attributes it lacks take their default.

        Raises ValueError, LookupError, TypeError or AttributeError for what is no such form.
        """
        values = json.loads(stored)
        definition = cls(kind, name, values.pop("definition_type"))
        definition.owners = tuple(values.pop("owners", ()))
        definition.is_switched_off = values.pop(SWITCHED_OFF, False)
        for keyword, row in attributes_of(kind).items():
            if keyword in values:
                value = _checked(keyword, values.pop(keyword), row.default)
                setattr(definition, row.field, value)
        for keyword, (field_name, default) in _kept_names(kind).items():
            if keyword in values:
                setattr(definition, field_name, _checked(keyword, values.pop(keyword), default))
        definition.unknown = MappingProxyType(values)
        return definition


@dataclass_transform(eq_default=False, kw_only_default=True)
def table(cls: type[_D]) -> type[_D]:
    """Make a class the table of attributes of its kinds: a dataclass with a slot a row."""
    made = dataclass(slots=True, eq=False, repr=False, kw_only=True)(cls)
    TABLES.update(dict.fromkeys(made.kinds, made))
    return made


@cache
def attributes_of(kind: str) -> Mapping[str, Attribute]:
    """Return the attributes that a kind of object has, by keyword, in display order."""
    found = {}
    for each in fields(TABLES[kind]) if kind in TABLES else ():
        row: Attribute | None = each.metadata.get(ROW)
        if row is not None and kind in (row.objects or (kind,)):
            keyword = row.keyword or each.name.upper()
            found[keyword] = row._replace(keyword=keyword, field=each.name)
    return MappingProxyType(found)


@cache
def _kept_names(kind: str) -> Mapping[str, tuple[str, Value]]:
    """Return name and default of the fields that are no attributes, by the name they are stored."""
    kept: dict[str, tuple[str, Any]] = {}
    for each in fields(TABLES[kind]):
        if STORED in each.metadata:
            kept[each.metadata[STORED]] = each.name, each.default
    return kept


def _checked(keyword: str, value: Value, default: Value) -> Value:
    if isinstance(value, bool) or not isinstance(value, type(default)):
        said = "text" if isinstance(default, str) else "a number"
        raise TypeError(f"{keyword} takes {said}, not {value!r}")
    return value
