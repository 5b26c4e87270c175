"""The sending end: batches of a transmission queue, each at its partner exactly once.

A batch goes in steps, and after each of them the disk holds enough to go on from there:

1. its messages are taken off the queue, hidden but still in the store, and handed over;
2. its name, sequence number and keys are made durable here: it is in doubt;
3. the partner commits it together with its name;
4. the messages and the doubt end here in one transaction.

Cut before 2, both sides have it as it was. Cut later, the partner's answer at the next start
decides: it is committed there or not.
"""

from __future__ import annotations

from mayfly.channel.links import Link, end_link, luw_name
from mayfly.channel.parcels import as_it_stands, original_of, parcel_of
from mayfly.engine import Engine, full_name, manager_definition, new_message_id
from mayfly.engine.face.transit import ChannelDefinition, Refused, Shipment
from mayfly.lifetime.transmission import transit_ms
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQNPMS_FAST, MQUSEDLQ_YES
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.channels import ChannelRow
from mayfly.store.units import StoredMessage
from mayfly.verbs.contracts.channels import Opening, Parcel, ReceiverState

#: The part of a MsgId that no two have: it names a batch.
_UNIQUE_FROM = 16
_MS_PER_S = 1_000


class Sender:
    """One channel's connection to its partner, from the negotiation to a failure or the end."""

    def __init__(self, manager: Engine, definition: ChannelDefinition) -> None:
        """Take over what the last run has left in doubt; the queue is open for this sender."""
        self._manager = manager
        self._definition = definition
        self._xmitq = definition.xmitq
        self._shipment: Shipment = manager.shipments.claimed(definition.name, self._xmitq)
        self._link: Link | None = None
        self._standing: ReceiverState | None = None
        self._taken: list[StoredMessage] = []
        self._begun_ms = self._transit_ms = 0
        self.message_count = self.batch_count = 0
        self.last_message_ms: int | None = None

    @property
    def state(self) -> ChannelRow:
        """How far the channel has come, durably."""
        return self._manager.shipments.state(self._definition.name)

    @property
    def partner(self) -> str:
        """The name of the queue manager at the other end, empty before the negotiation."""
        return "" if self._standing is None else self._standing.manager

    @property
    def heartbeat_s(self) -> int:
        """How often the partner hears of it at least: seldom while a batch stays open."""
        heartbeat_s = self._definition.hbint
        held_s = -(-self._definition.batchint // _MS_PER_S)
        return heartbeat_s + held_s if heartbeat_s else 0

    def connect(self, link: Link) -> None:
        """Negotiate, and settle what is in doubt as the partner tells it.

        Raises LinkDown; MQRC_CHANNEL_CONFIG_ERROR when the sequence numbers differ, and whatever
        the partner refuses it for.
        """
        self._link = link
        name, state, definition = self._definition.name, self.state, self._definition
        opening = Opening(
            name,
            self._manager.name,
            state.sequence,
            definition.batchsz,
            self._max_message_bytes(),
            bool(state.is_reset),
            self.heartbeat_s,
            self._manager.ledger.instance_id,
        )
        standing = link.negotiate(opening)
        if state.doubt_luw and standing.luw == state.doubt_luw:
            self.resolve(is_committed=True)
        expected = self.state.sequence
        if standing.sequence != expected:
            # This partner has another history: it cannot prove that a batch in doubt is not there.
            said = f"{standing.manager} has committed up to {standing.sequence}, not {expected}"
            raise mq_error(rc.MQRC_CHANNEL_CONFIG_ERROR, f"sequence number of {name}: {said}")
        if self.state.doubt_luw:
            self.resolve(is_committed=False)
        if not self._shipment.is_of(self._xmitq):
            # XMITQ was altered while a batch was in doubt.
            self._shipment = self._manager.shipments.claimed(name, self._xmitq)
        if state.is_reset:
            self._manager.shipments.save(state._replace(is_reset=0))
        self._standing = standing

    def resolve(self, *, is_committed: bool) -> None:
        """End the doubt: the messages are at the partner, or go back to their places."""
        shipments, name = self._manager.shipments, self._definition.name
        shipments.resolve(name, self._shipment, is_committed=is_committed)

    def take(self) -> bool:
        """Take what is there for the batch; True when the queue holds no more for it."""
        assert self._standing is not None
        manager, standing = self._manager, self._standing
        room = min(standing.batch_size, manager_definition(manager).maxumsgs)
        # MAXUMSGS may be less than what an open batch has by now.
        room = max(room - len(self._taken), 0)
        if not self._taken:
            self._begun_ms = manager.now_ms()
        found = self._shipment.take(room)
        self._taken += found
        return len(found) < room

    def open_until_ms(self) -> int | None:
        """Return until when a batch stays open for more messages (BATCHINT); None: none is."""
        if not self._taken:
            return None
        return self._begun_ms + self._definition.batchint

    def send(self) -> int | None:
        """Hand the batch over; returns in how many ms to :meth:`go_on`, None when it is done."""
        assert self._link is not None
        now_ms = self._manager.now_ms()
        is_fast_channel = self._definition.npmspeed == MQNPMS_FAST
        parcels = self._parcels(now_ms, is_fast_channel=is_fast_channel)
        if is_fast_channel:
            # Not twice, come what may; the others may wait for what the batch meets.
            self._shipment.let_volatile_go()
            parcels.sort(key=lambda parcel: not parcel.is_fast)
        if not parcels:
            self._taken = []
            return None
        self.message_count += len(parcels)
        self.last_message_ms = now_ms
        if all(parcel.life_ms is None for parcel in parcels):
            # Nothing is to be shortened: one call does.
            self._transit_ms = 0
            return self._after(self._link.send(parcels))
        asked_ms = self._manager.now_ms()
        had_ms = self._link.hand_over(parcels)
        # Measured with each batch, and before its lives are fixed there: a link changes (E7).
        round_trip_ms = self._manager.now_ms() - asked_ms
        self._transit_ms = asked_ms - now_ms + transit_ms(round_trip_ms, had_ms)
        return self._after(self._link.go_on(self._transit_ms))

    def go_on(self) -> int | None:
        """Let the partner try again; as :meth:`send`."""
        assert self._link is not None
        return self._after(self._link.go_on(self._transit_ms))

    def ping(self) -> None:
        """Find out whether the partner is there."""
        assert self._link is not None
        self._link.ping(self._definition.name)

    def close(self) -> None:
        """End the connection; messages that are not in doubt go back to their places."""
        if self._link is not None:
            end_link(self._link)
        self._taken = []
        if not self.state.doubt_luw and len(self._shipment):
            self._shipment.give_back()

    def hand_over(self) -> None:
        """Leave what is in doubt, after :meth:`close`, to the sender that comes next."""
        if self.state.doubt_luw:
            self._manager.shipments.keep(self._definition.name, self._shipment)

    def _after(self, wait_ms: int | None) -> int | None:
        if wait_ms is None:
            self._confirm()
        return wait_ms

    def _confirm(self) -> None:
        """Steps 2 to 4 for what is part of the batch."""
        assert self._link is not None
        shipment, manager = self._shipment, self._manager
        if len(shipment):
            state, wrap = self.state, self._definition.seqwrap
            sequence = (state.sequence + len(shipment) - 1) % wrap + 1
            unique = new_message_id(manager)[_UNIQUE_FROM:]
            luw = luw_name(manager.ledger.instance_id, unique)
            doubt = state._replace(
                doubt_sequence=sequence, doubt_luw=luw, doubt_keys=shipment.packed_keys()
            )
            manager.shipments.save(doubt)
            self._link.confirm(luw, sequence)
            self.resolve(is_committed=True)
        self._taken = []
        self.batch_count += 1

    def _parcels(self, now_ms: int, *, is_fast_channel: bool) -> list[Parcel]:
        """Return what is taken as it is sent, but for what ends here instead.

        Raises why a message can end nowhere.
        """
        parcels, largest = list[Parcel](), self._max_message_bytes()
        for row in self._taken:
            try:
                parcel = parcel_of(row, now_ms, is_fast_channel=is_fast_channel)
                if len(parcel.body) > largest:
                    said = f"{len(parcel.body)} bytes for {self._definition.name}"
                    raise mq_error(rc.MQRC_MSG_TOO_BIG_FOR_CHANNEL, said)
            except MQError as error:
                self._set_aside(as_it_stands(row, now_ms, self._shipment.queue.name), row, error)
                continue
            if parcel.life_ms == 0:
                self._shipment.discard(row.k, original_of(parcel))
            else:
                parcels.append(parcel)
        return parcels

    def _set_aside(self, parcel: Parcel, row: StoredMessage, error: MQError) -> None:
        target = full_name(parcel.queue, parcel.manager, self._manager.name)
        may_be_letter = self._definition.usedlq == MQUSEDLQ_YES
        refused = Refused(original_of(parcel), target, may_be_letter)
        self._shipment.set_aside(row.k, refused, error)

    def _max_message_bytes(self) -> int:
        own = self._definition.maxmsgl
        largest = own or manager_definition(self._manager).maxmsgl
        return largest if self._standing is None else min(largest, self._standing.max_message_bytes)
