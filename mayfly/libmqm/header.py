"""The C header of the library, made of the tables of constants and structures of the MQI."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mayfly.libmqm.memory import LAYOUTS
from mayfly.libmqm.structures import STRUCTURES, CStructure
from mayfly.mqi.layout import Field, Layout
from mayfly.pymqi import CMQC

#: The name of the header for programs of IBM MQ, which includes ours.
IBM_NAME, NAME = "cmqc.h", "mayfly_mqi.h"

_TYPES = """\
#include <stdint.h>

#define MQENTRY
#define MQPOINTER *
typedef int32_t MQLONG;
typedef uint32_t MQULONG;
typedef int64_t MQINT64;
typedef int16_t MQINT16;
typedef int8_t MQINT8;
typedef float MQFLOAT32;
typedef double MQFLOAT64;
typedef int32_t MQBOOL;
typedef char MQCHAR;
typedef unsigned char MQBYTE;
typedef MQLONG MQHCONN, MQHOBJ;
typedef MQINT64 MQHMSG;
typedef void *MQPTR, *PMQVOID;
typedef MQLONG *PMQLONG;
typedef MQINT64 *PMQINT64;
typedef MQCHAR *PMQCHAR;
typedef MQBYTE *PMQBYTE;
typedef MQHCONN *PMQHCONN;
typedef MQHOBJ *PMQHOBJ;
typedef MQHMSG *PMQHMSG;
typedef MQCHAR MQCHAR4[4], MQCHAR8[8], MQCHAR12[12], MQCHAR20[20], MQCHAR28[28], MQCHAR32[32];
typedef MQCHAR MQCHAR48[48], MQCHAR64[64], MQCHAR128[128], MQCHAR256[256], MQCHAR264[264];
typedef MQBYTE MQBYTE8[8], MQBYTE16[16], MQBYTE24[24], MQBYTE32[32], MQBYTE40[40], MQBYTE128[128];

typedef struct tagMQCHARV {
    MQPTR VSPtr;
    MQLONG VSOffset;
    MQLONG VSBufSize;
    MQLONG VSLength;
    MQLONG VSCCSID;
} MQCHARV, *PMQCHARV;
#define MQCHARV_DEFAULT {0, 0, 0, 0, -3}
"""

_PROTOTYPES = """\
void MQENTRY MQCONN(PMQCHAR, PMQHCONN, PMQLONG, PMQLONG);
void MQENTRY MQCONNX(PMQCHAR, PMQVOID, PMQHCONN, PMQLONG, PMQLONG);
void MQENTRY MQDISC(PMQHCONN, PMQLONG, PMQLONG);
void MQENTRY MQOPEN(MQHCONN, PMQVOID, MQLONG, PMQHOBJ, PMQLONG, PMQLONG);
void MQENTRY MQCLOSE(MQHCONN, PMQHOBJ, MQLONG, PMQLONG, PMQLONG);
void MQENTRY MQPUT(MQHCONN, MQHOBJ, PMQVOID, PMQVOID, MQLONG, PMQVOID, PMQLONG, PMQLONG);
void MQENTRY MQPUT1(MQHCONN, PMQVOID, PMQVOID, PMQVOID, MQLONG, PMQVOID, PMQLONG, PMQLONG);
void MQENTRY MQGET(MQHCONN, MQHOBJ, PMQVOID, PMQVOID, MQLONG, PMQVOID, PMQLONG, PMQLONG, PMQLONG);
void MQENTRY MQINQ(MQHCONN, MQHOBJ, MQLONG, PMQLONG, MQLONG, PMQLONG, MQLONG, PMQCHAR, PMQLONG,
                   PMQLONG);
void MQENTRY MQSET(MQHCONN, MQHOBJ, MQLONG, PMQLONG, MQLONG, PMQLONG, MQLONG, PMQCHAR, PMQLONG,
                   PMQLONG);
void MQENTRY MQBEGIN(MQHCONN, PMQVOID, PMQLONG, PMQLONG);
void MQENTRY MQCMIT(MQHCONN, PMQLONG, PMQLONG);
void MQENTRY MQBACK(MQHCONN, PMQLONG, PMQLONG);
void MQENTRY MQSUB(MQHCONN, PMQVOID, PMQHOBJ, PMQHOBJ, PMQLONG, PMQLONG);
void MQENTRY MQSUBRQ(MQHCONN, MQHOBJ, MQLONG, PMQVOID, PMQLONG, PMQLONG);
void MQENTRY MQSTAT(MQHCONN, MQLONG, PMQVOID, PMQLONG, PMQLONG);
void MQENTRY MQCB(MQHCONN, MQLONG, PMQVOID, MQHOBJ, PMQVOID, PMQVOID, PMQLONG, PMQLONG);
void MQENTRY MQCTL(MQHCONN, MQLONG, PMQVOID, PMQLONG, PMQLONG);
void MQENTRY MQCRTMH(MQHCONN, PMQVOID, PMQHMSG, PMQLONG, PMQLONG);
void MQENTRY MQDLTMH(MQHCONN, PMQHMSG, PMQVOID, PMQLONG, PMQLONG);
void MQENTRY MQSETMP(MQHCONN, MQHMSG, PMQVOID, PMQVOID, PMQVOID, MQLONG, MQLONG, PMQVOID, PMQLONG,
                     PMQLONG);
void MQENTRY MQINQMP(MQHCONN, MQHMSG, PMQVOID, PMQVOID, PMQVOID, PMQLONG, MQLONG, PMQVOID, PMQLONG,
                     PMQLONG, PMQLONG);
void MQENTRY MQDLTMP(MQHCONN, MQHMSG, PMQVOID, PMQVOID, PMQLONG, PMQLONG);
void MQENTRY MQBUFMH(MQHCONN, MQHMSG, PMQVOID, PMQVOID, MQLONG, PMQVOID, PMQLONG, PMQLONG, PMQLONG);
void MQENTRY MQMHBUF(MQHCONN, MQHMSG, PMQVOID, PMQVOID, PMQVOID, MQLONG, PMQVOID, PMQLONG, PMQLONG,
                     PMQLONG);
"""


def header() -> str:
    """Return the text of ``mayfly_mqi.h``: types, constants, structures and prototypes."""
    parts = [
        "/* The MQI as Mayfly's libmqm has it. Made by mayfly.libmqm.header. */",
        "#ifndef MAYFLY_MQI_H",
        "#define MAYFLY_MQI_H",
        _TYPES,
        *_constants(),
        "",
        *(_layout(layout) for layout in LAYOUTS.values()),
        *(_structure(structure) for structure in STRUCTURES),
        '#ifdef __cplusplus\nextern "C" {\n#endif',
        _PROTOTYPES,
        "#ifdef __cplusplus\n}\n#endif",
        "#endif",
        "",
    ]
    return "\n".join(parts)


def _constants() -> Iterator[str]:
    """Yield a #define for each constant; identifiers of zeros are arrays of that length."""
    for name, value in sorted(vars(CMQC).items()):
        if not name.startswith("MQ") or not isinstance(value, int | bytes):
            continue
        if name.endswith(("_CURRENT_LENGTH", "_DEFAULT")) and isinstance(value, bytes):
            continue
        yield f"#define {name} {_literal(value)}"


def _literal(value: int | bytes) -> str:
    """Return a number or text as C: a text of printable characters in quotes, else escaped."""
    if isinstance(value, int):
        return f"({value})" if -(2**31) <= value < 2**31 else f"({value}LL)"
    text = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in value)
    return f'"{text}"'


def _typedef(name: str, members: Iterable[str], initial: Iterable[str]) -> str:
    """Return a structure of C with its pointer type and its MQxxx_DEFAULT."""
    body = "\n".join(f"    {member};" for member in members)
    values = ", ".join(initial)
    pointer = f"P{name}"
    return (
        f"typedef struct tag{name} {{\n{body}\n}} {name}, *{pointer};\n"
        f"#define {name}_DEFAULT {{{values}}}\n"
    )


def _layout(layout: Layout) -> str:
    """Return the structure of a layout; the five fields of an MQCHARV are one member."""
    members: list[str] = []
    initial: list[str] = []
    for field in layout.fields:
        if field.name.endswith(".VSPtr"):
            members.append(f"MQCHARV {field.name.removesuffix('.VSPtr')}")
            initial.append("{0, 0, 0, 0, -3}")
        elif field.name and "." not in field.name:
            members.append(_member(field.name, field.kind, field.length))
            initial.append(_initial(field))
    return _typedef(layout.name, members, initial)


def _member(name: str, kind: str, length: int) -> str:
    """Return the declaration of a field of a layout."""
    if kind in ("i32", "i64", "ptr"):
        kinds = {"i32": "MQLONG", "i64": "MQINT64", "ptr": "MQPTR"}
        return f"{kinds[kind]} {name}"
    if kind == "char":
        return f"MQCHAR {name}" + (f"[{length}]" if length > 1 else "")
    return f"MQBYTE {name}[{length}]"


def _initial(field: Field) -> str:
    """Return what a field begins with; characters are padded with blanks as in IBM's defaults."""
    if isinstance(field.initial, int):
        return f"{field.initial}"
    if field.kind == "char":
        text = str(field.initial)
        if field.length == 1:
            return f"'{text or ' '}'"
        return _characters(text.encode(), field.length)
    return "{0}"


def _characters(text: bytes, length: int) -> str:
    """Return the initial value of an array of characters, which a NUL ends if it is shorter."""
    inner = ", ".join(f"'{chr(each)}'" for each in text[:length])
    return f"{{{inner or 0}}}"


def _structure(structure: CStructure) -> str:
    """Return a structure that C programs alone have."""
    members: list[str] = []
    initial: list[str] = []
    for name, code, value in structure.fields:
        if code.endswith("s"):
            kind = "MQBYTE" if name in ("ConnTag", "ConnectionId") else "MQCHAR"
            members.append(f"{kind} {name}[{code[:-1]}]")
            initial.append(_characters(value if isinstance(value, bytes) else b"", int(code[:-1])))
        else:
            members.append(f"{'MQPTR' if code == 'P' else 'MQLONG'} {name}")
            initial.append(f"{value!r}")
    text = _typedef(structure.name, members, initial)
    if structure.name == "MQCD":
        text += "#define MQCD_CLIENT_CONN_DEFAULT MQCD_DEFAULT\n"
    return text
