"""See, cancel, reschedule and release what waits; replace it in one unit of work."""

import mayfly
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import ScheduleFilter

HOUR_MS = 3_600_000

clock = VirtualClock()
with mayfly.QueueManager("QM1", clock=clock) as manager, manager.session(user="alice") as session:
    manager.mqsc("DEFINE QLOCAL(REMINDERS)")
    schedule = session.schedule
    pack = session.put("REMINDERS", b"pack", delay_ms=HOUR_MS)
    taxi = session.put("REMINDERS", b"call a taxi", delay_ms=2 * HOUR_MS)
    gate = session.put("REMINDERS", b"go to gate 7", delay_ms=3 * HOUR_MS)
    for entry in schedule.list(ScheduleFilter(queue="REMINDERS")):
        hours = (entry.deliver_at_ms - clock.now_ms()) // HOUR_MS
        print(f"in {hours} h for {entry.target}: {entry.body_bytes} bytes")

    print(f"pack: {schedule.cancel(pack)}, and once more: {schedule.cancel(pack)}")
    print(f"taxi: {schedule.reschedule(taxi, delay_ms=90 * 60_000)}")

    # Both or neither: nobody is sent to no gate, or to two.
    with manager.session(user="bob", transacted=True) as unit:
        receipt = unit.schedule.cancel(gate)
        unit.put("REMINDERS", b"go to gate 9", delay_ms=3 * HOUR_MS)
    print(f"gate: {receipt}, {schedule.count('REMINDERS')} wait")

    clock.advance(90 * 60_000 - 1)
    print(f"a millisecond before: {session.get('REMINDERS')}")
    clock.advance(1)
    message = session.get("REMINDERS")
    assert message is not None
    print(f"on time: {message.body.decode()!r}, to cancel it now: {schedule.cancel(taxi)}")

    *_, released = schedule.release_all(ScheduleFilter(queue="REMINDERS"))
    message = session.get("REMINDERS")
    assert message is not None
    print(f"released: {released}, {message.body.decode()!r}")
