"""Authority in pymqi: connect and open answer MQRC_NOT_AUTHORIZED (C7)."""

from __future__ import annotations

import pytest

from mayfly import QueueManager, pymqi
from mayfly.pymqi import CMQC, MQMIError


def test_C7_connect_and_open(queue_manager: QueueManager) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(Q1)")
    queue_manager.mqsc("SET AUTHREC PROFILE(Q1) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT)")
    queue_manager.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT)")
    with pytest.raises(MQMIError) as caught:
        pymqi.connect("QM1", user="ann", password="-")
    assert (caught.value.comp, caught.value.reason) == (2, CMQC.MQRC_NOT_AUTHORIZED)
    queue_manager.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('ann') AUTHADD(CONNECT)")
    connection = pymqi.connect("QM1", user="ann", password="-")
    pymqi.Queue(connection, "Q1", CMQC.MQOO_OUTPUT).put(b"x")
    with pytest.raises(MQMIError) as caught:
        pymqi.Queue(connection, "Q1", CMQC.MQOO_INPUT_SHARED)
    assert caught.value.reason == CMQC.MQRC_NOT_AUTHORIZED
    # put1 that sets the context needs it on the queue and on the queue manager.
    md, pmo = pymqi.MD(), pymqi.PMO(Options=CMQC.MQPMO_SET_ALL_CONTEXT)
    with pytest.raises(MQMIError) as caught:
        connection.put1("Q1", b"x", md, pmo)
    assert caught.value.reason == CMQC.MQRC_NOT_AUTHORIZED
    connection.disconnect()
    assert queue_manager.curdepth("Q1") == 1


def test_C7_inquire_about_the_queue_manager_needs_INQ_on_it(queue_manager: QueueManager) -> None:
    record = "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('ann') "
    queue_manager.mqsc(record + "AUTHADD(CONNECT)")
    connection = pymqi.connect("QM1", user="ann", password="-")
    with pytest.raises(MQMIError) as caught:
        connection.inquire(CMQC.MQCA_Q_MGR_NAME)
    assert caught.value.reason == CMQC.MQRC_NOT_AUTHORIZED
    queue_manager.mqsc(record + "AUTHADD(INQ)")
    assert connection.inquire(CMQC.MQCA_Q_MGR_NAME) == b"QM1".ljust(48)
    connection.disconnect()


def test_C7_an_alternate_user(queue_manager: QueueManager) -> None:
    """OD.AlternateUserId counts with its open option, for who has ALTUSR."""
    queue_manager.mqsc("DEFINE QLOCAL(Q1)")
    queue_manager.mqsc("SET AUTHREC PROFILE(Q1) OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(PUT)")
    queue_manager.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('ann') AUTHADD(CONNECT,ALTUSR)")
    connection = pymqi.connect("QM1", user="ann", password="-")
    options = CMQC.MQOO_OUTPUT | CMQC.MQOO_ALTERNATE_USER_AUTHORITY
    for user in (b"bob", b"eve"):
        od = pymqi.OD(ObjectName=b"Q1", AlternateUserId=user)
        if user == b"bob":
            pymqi.Queue(connection, od, options).put(b"x")
        else:
            with pytest.raises(MQMIError) as caught:
                pymqi.Queue(connection, od, options).put(b"x")
            assert caught.value.reason == CMQC.MQRC_NOT_AUTHORIZED
    connection.disconnect()
    assert queue_manager.curdepth("Q1") == 1
