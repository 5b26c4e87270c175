"""MQ Everyplace: a message expires on both sides of a cut link, and a rule keeps one copy of it."""

from mayfly.everyplace import (
    DEAD_LETTER_QUEUE_NAME,
    MSG_EXPIRE_TIME,
    MSG_RESEND,
    EveryplaceQueueManager,
    MessageFields,
    QueueEntry,
    QueueRule,
)
from mayfly.testing import VirtualClock


class KeepACopy(QueueRule):
    """Puts what expired on the dead-letter queue, where it has no end any more."""

    def message_expired(self, entry: QueueEntry, message: MessageFields) -> None:
        print(f"expired at {entry.owner.name}: {message.get_ascii('MsgData')!r}")
        if entry.owner.name == "VAN":
            message.put_boolean(MSG_RESEND, True)
            message.delete(MSG_EXPIRE_TIME)
            entry.owner.put_message(DEAD_LETTER_QUEUE_NAME, message)


clock = VirtualClock()
van, depot = EveryplaceQueueManager("VAN", clock), EveryplaceQueueManager("DEPOT", clock)
link = van.connect(depot)
depot.create_queue("ORDERS", rule=KeepACopy())
van.create_remote_queue("ORDERS", "DEPOT", asynchronous=True, rule=KeepACopy())
order = MessageFields(clock)
order.put_ascii("MsgData", "two crates")
order.put_int(MSG_EXPIRE_TIME, 600_000)  # ten minutes from its creation
van.put_message("ORDERS", order)
print("first stage:", van.transmit_put("ORDERS"), "- seen there:", depot.get_message("ORDERS"))
link.cut()
clock.advance(600_000)
link.restore()
print("second stage:", van.transmit_confirm("ORDERS"), "- there:", depot.get_message("ORDERS"))
print("kept:", [m.get_ascii("MsgData") for m in van.browse_messages(DEAD_LETTER_QUEUE_NAME)])
