"""pymqi's structures for message handles and properties, and two that ibmmq has beside them."""

from __future__ import annotations

from mayfly.mqi import structures as layouts
from mayfly.pymqi.structures import MQOpts


class CMHO(MQOpts, layout=layouts.CMHO):
    """The options for a new message handle, MQCMHO."""


class DMHO(MQOpts, layout=layouts.DMHO):
    """The options for deleting a message handle, MQDMHO."""


class PD(MQOpts, layout=layouts.PD):
    """The descriptor of a property, MQPD."""


class SMPO(MQOpts, layout=layouts.SMPO):
    """The options for setting a property, MQSMPO."""


class IMPO(MQOpts, layout=layouts.IMPO):
    """The options for inquiring a property, MQIMPO."""


class DMPO(MQOpts, layout=layouts.DMPO):
    """The options for deleting a property, MQDMPO."""
