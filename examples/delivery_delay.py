"""A message that cannot be got before its time; virtual time makes an hour pass at once."""

import mayfly
from mayfly.mqi.errors import MQError
from mayfly.testing import VirtualClock

HOUR_MS = 3_600_000

clock = VirtualClock()
with mayfly.QueueManager("QM1", clock=clock) as manager, manager.session() as session:
    manager.mqsc("DEFINE QLOCAL(REMINDERS)")
    session.put(
        "REMINDERS", b"leave for the airport", delay_ms=HOUR_MS, time_to_live_ms=2 * HOUR_MS
    )
    counts = manager.counts("REMINDERS")
    print(f"put: {counts.staged} waits for its time, {counts.live} can be got")

    clock.advance(HOUR_MS - 1)
    print(f"a millisecond before: {session.get('REMINDERS')}")

    clock.advance(1)
    message = session.get("REMINDERS")
    assert message is not None
    print(f"on the hour: {message.body.decode()!r}")
    # The lifetime runs from the put, so the delay has used half of it.
    print(f"what is left of its life: {message.remaining_ms} ms")

    try:
        session.put("REMINDERS", b"never", delay_ms=HOUR_MS, time_to_live_ms=HOUR_MS - 1)
    except MQError as error:
        print(f"refused: {error}")
