"""Shared queues beside the bulk plane and publish/subscribe."""

from __future__ import annotations

import pytest

from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQUS_TRANSMISSION
from mayfly.mqi.structures import DLH
from tests.sharing.scene import PRIVATE, SHARED, Sharing
from tests.spec.scene import DEAD, bodies, refused
from tests.spec.stage_scene import row, write


def test_nobody_claims_from_a_shared_queue(sharing: Sharing) -> None:
    with refused(rc.MQRC_OBJECT_TYPE_ERROR):
        sharing.qm1.claims.attach("consumer", SHARED)
    sharing.qm1.claims.attach("consumer", PRIVATE)


def test_a_row_that_a_sink_has_for_a_shared_queue_is_dead_lettered(sharing: Sharing) -> None:
    write(sharing.qm1, [row(b"to share", SHARED), row(b"own", PRIVATE)])
    with sharing.qm1.session() as one:
        assert bodies(one, PRIVATE) == [b"own"]
        assert one.get(SHARED) is None
        letter = one.get(DEAD)
    assert letter is not None
    assert DLH.unpack(letter.body)["Reason"] == rc.MQRC_OBJECT_TYPE_ERROR


def test_no_channel_empties_a_shared_queue(sharing: Sharing) -> None:
    """A batch in doubt there would be seen, and sent again, once its queue manager is closed."""
    sharing.shared("OUT")
    # As earlier versions have let it be defined.
    sharing.group.engine.registry.queue("OUT").definition.usage = MQUS_TRANSMISSION
    channel = "DEFINE CHANNEL(C) CHLTYPE(SDR) CONNAME(QM9) XMITQ(OUT)"
    assert sharing.qm1.mqsc(f"{channel}\nSTART CHANNEL(C)").ok
    [standing] = sharing.qm1.channels.status("C")
    assert standing.status == "RETRYING"
    said = "MQRC_OBJECT_TYPE_ERROR (2043): OUT is shared: no channel empties it"
    assert standing.failure == said


@pytest.mark.parametrize("delay_ms", [0, 1_000])
@pytest.mark.parametrize("persistent", [False, True])
def test_a_subscription_may_have_its_copies_on_a_shared_queue(
    sharing: Sharing, delay_ms: int, persistent: bool
) -> None:
    script = f"""
        DEFINE TOPIC(NEWS) TOPICSTR('news') PMSGDLV(ALLAVAIL) NPMSGDLV(ALLAVAIL)
        DEFINE SUB(S) TOPICSTR('news') DEST({SHARED})
        DEFINE QALIAS(PUBLISH) TARGET(NEWS) TARGTYPE(TOPIC)"""
    assert sharing.qm1.mqsc(script).ok
    with sharing.qm1.session() as one, sharing.qm2.session() as two:
        one.put("PUBLISH", b"news", delay_ms=delay_ms, persistent=persistent)
        sharing.clock.advance(delay_ms)
        assert bodies(two, SHARED) == [b"news"]
