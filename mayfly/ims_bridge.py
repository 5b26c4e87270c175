"""The IMS bridge: requests on a queue, a transaction program that answers them, replies (E30)."""

from mayfly.services.ims_bridge import ImsBridge, ImsNak, Request

__all__ = ["ImsBridge", "ImsNak", "Request"]
