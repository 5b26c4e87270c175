"""A listener port in non-ASF mode: safe timeouts, the example that is late, and a reply in time."""

import logging
import threading

import mayfly
from mayfly import jms
from mayfly.listener import ListenerPort, check_timeouts, current_transaction
from mayfly.testing import VirtualClock

clock, is_done = VirtualClock(), threading.Event()
logging.disable(logging.WARNING)  # it would also say at which moment a transaction was too late


def on_message(message: jms.Message) -> None:
    """Work for 15 s the first time, then answer: request and reply are one transaction."""
    if message.jms_redelivered:
        session = current_transaction().session
        assert isinstance(session, jms.Session)
        producer = session.create_producer(session.create_queue("REPLIES"))
        producer.send(session.create_text_message("done"))
        is_done.set()
    else:
        clock.advance(15_000)


print(*check_timeouts(receive_timeout_ms=115_000, total_tran_lifetime_timeout_s=120,
                      longest_on_message_ms=15_000))  # fmt: skip
with mayfly.QueueManager("QM1", clock=clock) as manager:
    manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(REPLIES)")
    port = ListenerPort(manager, destination="Q1", on_message=on_message,
                        properties={"NON.ASF.RECEIVE.TIMEOUT": "115000"})  # fmt: skip
    port.start()
    clock.advance(110_000)
    with manager.session() as session:
        session.put("Q1", b"request", format_name="MQSTR")
    is_done.wait()
    port.stop()
    done = port.statistics()
    print(f"delivered {done.delivered}, rolled back {done.rolled_back}, committed {done.committed}")
