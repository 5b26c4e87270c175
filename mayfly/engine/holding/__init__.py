"""Which messages are hidden, by whom, and how many there are: this package alone changes it.

Each change is something that happens to a message. It is put and arrives; it is held by a unit of
work, a channel, a claim or a browse; it is given back; it leaves for another queue; its life ends.
The life table (``lifetime/life.py``) is asked with the state that the message has at that moment.
That state follows from who hides it: by nobody it is AVAILABLE, on the staging queue DELAYED; by a
hold that locks it is LOCKED; any other hold keeps it for somebody and leaves its state as it was.

Changes of a transaction happen in two steps: they are announced as the transaction is built, and
``effect`` follows when it is durable or has failed. All of it is under the lock. A pair that the
table lacks raises TransitionError: it is a bug of the engine.
"""
