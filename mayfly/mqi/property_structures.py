"""The byte layouts of the options that go with message handles and message properties."""

from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import (
    MQCCSI_APPL,
    MQCOPY_DEFAULT,
    MQENC_NATIVE,
    MQPD_SUPPORT_OPTIONAL,
)
from mayfly.mqi.layout import Field, Layout, char, number


def _options(struc_id: str) -> list[Field]:
    return [char("StrucId", 4, struc_id), number("Version", 1), number("Options")]


#: How a message handle is made.
CMHO = Layout("MQCMHO", _options("CMHO"), versions={1: 12}, reason=rc.MQRC_CMHO_ERROR)

#: How a message handle is deleted.
DMHO = Layout("MQDMHO", _options("DMHO"), versions={1: 12}, reason=rc.MQRC_DMHO_ERROR)

#: How a property is deleted.
DMPO = Layout("MQDMPO", _options("DMPO"), versions={1: 12}, reason=rc.MQRC_DMPO_ERROR)

#: The descriptor of a property (MQPD): support, context, copy options.
PD = Layout(
    "MQPD",
    [
        *_options("PD  "),
        number("Support", MQPD_SUPPORT_OPTIONAL),
        number("Context"),
        number("CopyOptions", MQCOPY_DEFAULT),
    ],
    versions={1: 24},
    reason=rc.MQRC_PD_ERROR,
)

#: How a property is set.
SMPO = Layout(
    "MQSMPO",
    [
        *_options("SMPO"),
        number("ValueEncoding", MQENC_NATIVE),
        number("ValueCCSID", MQCCSI_APPL),
    ],
    versions={1: 20},
    reason=rc.MQRC_SMPO_ERROR,
)

#: How a property is inquired.
IMPO = Layout(
    "MQIMPO",
    [
        *_options("IMPO"),
        number("RequestedEncoding", MQENC_NATIVE),
        number("RequestedCCSID", MQCCSI_APPL),
        number("ReturnedEncoding", MQENC_NATIVE),
        number("ReturnedCCSID"),
        number("Reserved1"),
        number("ReturnedName.VSPtr", kind="ptr"),
        number("ReturnedName.VSOffset"),
        number("ReturnedName.VSBufSize"),
        number("ReturnedName.VSLength"),
        number("ReturnedName.VSCCSID"),
        char("TypeString", 8),
    ],
    versions={1: 64},
    reason=rc.MQRC_IMPO_ERROR,
)
