"""How many clients each channel has."""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import NamedTuple

from mayfly.admin.security.admission import Admitted
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error

#: Numbers of sockets of clients. All servers of a process share them: administration tells the
#: instances of a channel apart by them, whichever protocol each speaks.
INSTANCE_NUMBERS = count(1)


class Place(NamedTuple):
    """Where a client has come in: an instance of a channel, from an address."""

    queue_manager: str
    channel: str
    address: str


class Instances:
    """Counts the instances of each channel: MAXINST, and MAXINSTC for those of one address."""

    def __init__(self) -> None:
        """Begin with none."""
        self._by_place: Counter[Place] = Counter()

    def enter(self, place: Place, admitted: Admitted) -> None:
        """Count a client; raises MQRC_CHANNEL_NOT_AVAILABLE for one too many."""
        same = sum(count for other, count in self._by_place.items() if other[:2] == place[:2])
        is_full = same >= admitted.max_instances
        if is_full or self._by_place[place] >= admitted.max_instances_per_client:
            said = f"channel {place.channel} has as many instances as it may"
            raise mq_error(rc.MQRC_CHANNEL_NOT_AVAILABLE, said)
        self._by_place[place] += 1

    def leave(self, place: Place) -> None:
        """Count a client no more."""
        self._by_place[place] -= 1
        if not self._by_place[place]:
            del self._by_place[place]
