"""Get and put in one unit of work: both happen, or neither does."""

import mayfly

with mayfly.QueueManager("QM1") as manager:
    manager.mqsc("DEFINE QLOCAL(ORDERS)\nDEFINE QLOCAL(INVOICES)")
    with manager.session() as session:
        session.put("ORDERS", b"order 1")

    try:
        with manager.session(transacted=True) as session:
            order = session.get("ORDERS")
            assert order is not None
            session.put("INVOICES", b"invoice for " + order.body)
            raise RuntimeError("the printer is on fire")
    except RuntimeError as error:
        print(f"backed out: {error}")
    print(f"orders {manager.curdepth('ORDERS')}, invoices {manager.curdepth('INVOICES')}")

    with manager.session(transacted=True) as session:
        order = session.get("ORDERS")
        assert order is not None
        print(f"second attempt, backout count {order.backout_count}")
        session.put("INVOICES", b"invoice for " + order.body)
    print(f"orders {manager.curdepth('ORDERS')}, invoices {manager.curdepth('INVOICES')}")
