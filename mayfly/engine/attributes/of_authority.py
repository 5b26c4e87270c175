"""Authority records and children of a hierarchy, as they are stored: MQSC sets none of it."""

from __future__ import annotations

from typing import ClassVar

from mayfly.engine.attributes.attribute import AUTHREC, CHILD, kept
from mayfly.engine.attributes.definition import Definition, table


@table
class AuthorityDefinition(Definition):
    """The authority of one user or group on the objects of one profile."""

    kinds: ClassVar = (AUTHREC,)

    object_type: str = kept("", "OBJTYPE")
    profile: str = kept("", "PROFILE")
    entity_kind: str = kept("", "ENTTYPE")
    entity: str = kept("", "ENTITY")
    authorities: str = kept("", "AUTHLIST")


@table
class ChildDefinition(Definition):
    """A queue manager whose parent this one is, in a hierarchy of publish/subscribe."""

    kinds: ClassVar = (CHILD,)
