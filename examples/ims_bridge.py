"""A reply of the IMS bridge keeps what was left of its request's lifetime, if it asks for that."""

import mayfly
from mayfly import pymqi
from mayfly.ims_bridge import ImsBridge, Request
from mayfly.mqi.constants import MQIIH_PASS_EXPIRATION
from mayfly.testing import VirtualClock

clock = VirtualClock()


def book(request: Request, _iih: pymqi.IIH | None) -> bytes:
    """Take five seconds."""
    clock.advance(5_000)
    return b"booked: " + request


with mayfly.QueueManager("QM1", clock=clock) as manager, manager.session() as session:
    manager.mqsc("DEFINE QLOCAL(IMS.BRIDGE)\nDEFINE QLOCAL(REPLIES)")
    bridge = ImsBridge(manager, queue="IMS.BRIDGE", transaction=book)
    for flags in (0, MQIIH_PASS_EXPIRATION):
        session.put(
            "IMS.BRIDGE",
            pymqi.IIH(Flags=flags).pack() + b"two tickets",
            time_to_live_ms=20_000,
            reply_to_q="REPLIES",
            format_name="MQIMS",
        )
        clock.advance(12_000)
        bridge.run_once()
        reply = session.get("REPLIES")
        assert reply is not None
        print(f"Flags {flags}: {reply.body[84:].decode()!r}, {reply.remaining_ms} ms left")
