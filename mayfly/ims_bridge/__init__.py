"""The IMS bridge: requests on a queue, a transaction program that answers them, replies (E30)."""

from mayfly.ims_bridge.bridge import ImsBridge
from mayfly.ims_bridge.refusals import ImsNak
from mayfly.ims_bridge.requests import Request

__all__ = ["ImsBridge", "ImsNak", "Request"]
