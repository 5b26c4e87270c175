"""Names of message properties: their rules, and the folder in which a property is kept.

A name is a folder, its groups and the property, with dots between them; without a dot it is a
property of the ``usr`` folder (IBM MQ, "Property names", "Property name restrictions").
"""

from __future__ import annotations

from functools import lru_cache

from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQ_MAX_PROPERTY_NAME_LENGTH
from mayfly.mqi.errors import MQError, mq_error
from mayfly.properties.selectors.names import RESERVED

USER_FOLDER = "usr"
#: Folders that hold properties without saying so by content='properties'.
PROPERTY_FOLDERS = frozenset(
    "usr jms mcd mqext mqps mq mq_usr mqema mq_svc mqtt ibm sib sib_context sib_usr".split()
)
#: Folders in which there are no groups.
_FLAT = frozenset("usr mqext mqps mq mqema mq_svc mqtt ibm".split())
#: The names of JMS that a program of the MQI may set -> where they are kept.
JMS_SETTABLE = {
    "JMSCorrelationID": "jms.Cid",
    "JMSReplyTo": "jms.Rto",
    "JMSType": "mcd.Type",
    "JMSXGroupID": "jms.Gid",
    "JMSXGroupSeq": "jms.Seq",
}
#: The topic string of a publication, as its subscriber has it, kept with the message.
TOPIC = "mqps.Top"
#: Names of JMS, and of the topic, that can only be read -> where they are kept; the others are in
#: the descriptor.
JMS_READABLE = {
    **JMS_SETTABLE,
    "JMSDestination": "jms.Dst",
    "JMSExpiration": "jms.Exp",
    "MQTopicString": TOPIC,
}


@lru_cache(maxsize=2048)
def checked_name(name: str) -> str:
    """Return the name under which a property is kept: ``usr.`` left out, JMS's own resolved.

    Raises MQRC_PROPERTY_NAME_LENGTH_ERR, MQRC_PROPERTY_NAME_ERROR.
    """
    check_length(name)
    if name in JMS_SETTABLE:
        return JMS_SETTABLE[name]
    kept = plain_name(name)
    folder, *rest = kept.split(".")
    for part in (folder, *rest):
        # Java allows what Python does, and the dollar sign.
        if not part.replace("$", "_").isidentifier():
            raise _wrong(name, f"{part!r} is not a name as in Java")
    if any(ord(char) > 0xFFFF for char in name):
        raise _wrong(name, "characters above U+FFFF")
    if not rest and kept.upper() in RESERVED:
        raise _wrong(name, "a word of selectors")
    if kept.startswith("JMS"):
        raise _wrong(name, f"of JMS only {', '.join(JMS_SETTABLE)} can be set")
    if folder in ("Body", "Root"):
        raise _wrong(name, "fields of the MQMD are set in the MQMD")
    is_mq = folder.lower().startswith("mq") and folder.lower() != "mq_usr"
    if len(rest) > 1 and (is_mq or folder in _FLAT):
        raise _wrong(name, f"there are no groups in {folder}")
    return kept


def plain_name(name: str) -> str:
    """Return a name without the folder that need not be said."""
    start = f"{USER_FOLDER}."
    # A second dot would be a group; checked_name refuses it with the folder in place.
    return name[len(start) :] if name.startswith(start) and name.count(".") == 1 else name


def check_length(name: str) -> None:
    """Raise MQRC_PROPERTY_NAME_LENGTH_ERR unless a name has 1 to 4,095 characters."""
    if not 1 <= len(name) <= MQ_MAX_PROPERTY_NAME_LENGTH:
        raise mq_error(rc.MQRC_PROPERTY_NAME_LENGTH_ERR, f"property name of {len(name)} characters")


def path_of(name: str) -> list[str]:
    """Return folder, groups and property of a name as it is kept."""
    return name.split(".") if "." in name else [USER_FOLDER, name]


def _wrong(name: str, why: str) -> MQError:
    return mq_error(rc.MQRC_PROPERTY_NAME_ERROR, f"property {name[:80]!r}: {why}")
