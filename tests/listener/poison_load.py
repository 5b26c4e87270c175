"""A program whose handler kills its process with the first message that it is given.

Called as ``python -m tests.listener.poison_load FOLDER MODE``, MODE ``asf``, ``non-asf``, ``jms``
(a message listener of a session) or ``receive`` (a transacted receive). It prints what it is told
of earlier deliveries; when a message was moved instead it prints ``idle`` and waits to be killed.
"""

import logging
import os
import signal
import sys
import threading
from typing import Any

from mayfly import QueueManager, jms
from mayfly.listener import ListenerPort

QUEUE, BACKOUTS = "POISONED", "BACKOUTS"
#: A loop without a pause would take the processor from what it waits for.
_LOOK_SECONDS = 0.001


def die(message: Any) -> None:
    """Say how often this message was delivered, and what that says of it; then be killed."""
    count = message.get_property("JMSXDeliveryCount")
    print(message.text, count, message.jms_redelivered, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Wait for a message."""
    logging.disable()
    folder, mode = sys.argv[1:]
    manager = QueueManager("QM1", folder)
    if mode in ("asf", "non-asf"):
        timeout_ms = "0" if mode == "asf" else "100000"
        properties = {"NON.ASF.RECEIVE.TIMEOUT": timeout_ms}
        ListenerPort(manager, destination=QUEUE, on_message=die, properties=properties).start()
    else:
        session_mode = jms.AUTO_ACKNOWLEDGE if mode == "jms" else jms.SESSION_TRANSACTED
        context = jms.ConnectionFactory(manager).create_context(session_mode)
        consumer = context.create_consumer(context.create_queue(QUEUE))
        if mode == "receive":
            # A poisoned message is moved as part of the unit of work.
            while (message := consumer.receive_no_wait()) is not None:
                die(message)
            context.commit()
        else:
            consumer.set_message_listener(die)
    while not manager.counts(BACKOUTS).live:
        threading.Event().wait(_LOOK_SECONDS)
    print("idle", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
