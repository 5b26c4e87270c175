"""A message expires, and whoever asked is told: an expiration report on the reply-to queue."""

import mayfly
from mayfly.mqi.constants import MQFB_EXPIRATION, MQRO_EXPIRATION_WITH_FULL_DATA
from mayfly.testing import VirtualClock

clock = VirtualClock()
with mayfly.QueueManager("QM1", clock=clock) as manager, manager.session() as session:
    manager.mqsc("DEFINE QLOCAL(OFFERS)\nDEFINE QLOCAL(REPORTS)")
    msg_id = session.put(
        "OFFERS",
        b"half price for a minute",
        time_to_live_ms=60_000,
        report=MQRO_EXPIRATION_WITH_FULL_DATA,
        reply_to_q="REPORTS",
    )

    clock.advance(59_999)
    message = next(session.browse("OFFERS"))
    print(f"after 59.999 s: {message.body.decode()!r}, {message.remaining_tenths} tenth is left")

    clock.advance(1)
    print(f"after 60 s: a get finds {session.get('OFFERS')}")

    report = session.get("REPORTS")
    assert report is not None
    assert report.descriptor.feedback == MQFB_EXPIRATION
    assert report.correl_id == msg_id
    print(f"the report returns {report.body.decode()!r}")
