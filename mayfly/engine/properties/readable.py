"""The properties of a message, for whoever reads them by name."""

from __future__ import annotations

from abc import ABC, abstractmethod

from mayfly.mqi.delay_header import DelayHeader, find_delay_header
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.properties import Value
from mayfly.properties.folders import Parts, parts_of
from mayfly.runtime.extended import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Readable(ABC):
    """A message whose properties can be read; nothing is read before it is asked for."""

    __slots__ = ()

    body: bytes

    @property
    @abstractmethod
    def descriptor(self) -> Descriptor:
        """The descriptor, which says what the body begins with."""

    @property
    def delay_header(self) -> DelayHeader | None:
        """Where a message taken from the staging queue goes, when, and with which ids (D2, D3).

        None for a message that waits for nothing, or with a header that cannot be read.
        """
        return find_delay_header(self.descriptor.format, self.body)

    @property
    def properties(self) -> dict[str, Value]:
        """The message properties by name; {} without an MQRFH2.

        Those of a message from the staging queue stand behind its delay header.

        A property of the ``usr`` folder has no folder in its name, others have: ``jms.Dst``. Raises
        MQRC_RFH_ERROR, MQRC_RFH_STRING_ERROR, MQRC_RFH_FORMAT_ERROR for what cannot be read.
        """
        return {found.name: found.typed.value for found in self._parts().properties}

    @property
    def data(self) -> bytes:
        """The body without delay header and MQRFH2 at its start; raises as ``properties``."""
        return self._parts().data

    def _parts(self) -> Parts:
        header = self.delay_header
        if header is None:
            return parts_of(self.descriptor, self.body)
        original = header.descriptor_of_data(self.descriptor)
        return parts_of(original, self.body[header.length_bytes :])
