"""The metadata of a connection: versions, and the names of the JMSX properties."""

from __future__ import annotations

from mayfly import __version__
from mayfly.jms import constants as k


class ConnectionMetaData:
    """The versions of JMS and of the provider; numbers are those before and after the point."""

    jms_version = "2.0"
    jms_major_version = 2
    jms_minor_version = 0
    jms_provider_name = "Mayfly"
    #: The properties whose names begin with JMSX that messages have, or may be given.
    jmsx_property_names = (
        k.JMSX_GROUPID,
        k.JMSX_GROUPSEQ,
        k.JMSX_DELIVERY_COUNT,
        k.JMSX_USERID,
        k.JMSX_APPID,
    )

    def __init__(self) -> None:
        """Take the version of Mayfly apart."""
        self.provider_version = __version__
        major, minor = self.provider_version.split(".")[:2]
        self.provider_major_version = int(major)
        self.provider_minor_version = int(minor)
