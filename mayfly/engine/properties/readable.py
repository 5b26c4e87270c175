"""The properties of a message, for whoever reads them by name."""

from __future__ import annotations

from abc import ABC, abstractmethod

from mayfly.engine.properties.folders import Parts, parts_of
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.properties import Value


class Readable(ABC):
    """A message whose properties can be read; nothing is read before it is asked for."""

    __slots__ = ()

    body: bytes

    @property
    @abstractmethod
    def descriptor(self) -> Descriptor:
        """The descriptor, which says what the body begins with."""

    @property
    def properties(self) -> dict[str, Value]:
        """The message properties by name; {} without an MQRFH2.

        A property of the ``usr`` folder has no folder in its name, others have: ``jms.Dst``. Raises
        MQRC_RFH_ERROR, MQRC_RFH_STRING_ERROR, MQRC_RFH_FORMAT_ERROR for what cannot be read.
        """
        return {found.name: found.typed.value for found in self._parts().properties}

    @property
    def data(self) -> bytes:
        """The body without the MQRFH2 at its start; raises as ``properties``."""
        return self._parts().data

    def _parts(self) -> Parts:
        return parts_of(self.descriptor, self.body)
