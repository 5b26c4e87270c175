"""The IMS bridge: requests on a queue, a transaction program that answers them, replies (E30)."""

from mayfly.services.ims_bridge.bridge import ImsBridge
from mayfly.services.ims_bridge.refusals import ImsNak
from mayfly.services.ims_bridge.requests import Request

__all__ = ["ImsBridge", "ImsNak", "Request"]
