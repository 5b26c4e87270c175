"""The C library: its header, made of the tables of the MQI, its build, and its folder.

It is built with the wheel, and on demand where there is a C compiler. Variables of the environment
lead programs to the folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from mayfly.mqi.layout import Field, Layout
from mayfly.pymqi import CMQC
from mayfly.pymqi.libmqm.memory import LAYOUTS, STRUCTURES, CStructure

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
        "/* The MQI as Mayfly's libmqm has it. Made by mayfly.pymqi.libmqm.library. */",
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
    """Return the C declaration of a structure that pymqi lacks, and its ``*_DEFAULT`` macro."""
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


#: The file that programs load, and the names under which others link the same library.
LIBRARY, ALIASES = "libmqm_r.so", ("libmqm.so", "libmqic_r.so", "libmqic.so")
SOURCE = Path(__file__).with_name("libmqm.c")


class CannotBuild(Exception):
    """The library is not built; the text says why."""


def compiler() -> str:
    """Return the path of the C compiler: $CC, else cc or gcc; raises CannotBuild without one."""
    wanted = [os.environ["CC"]] if os.environ.get("CC") else ["cc", "gcc"]
    for each in wanted:
        found = shutil.which(each)
        if found:
            return found
    raise CannotBuild(f"libmqm needs a C compiler: there is no {' and no '.join(wanted)}")


def build(library: Path, include: Path, *flags: str) -> None:
    """Compile the library to a path; ``include`` is the folder of its header.

    ``flags`` are further ones of the compiler. Raises CannotBuild without a compiler, or with what
    it has printed.
    """
    command = compiler()
    # Replaced whole: programs may be running with the old one.
    made = library.with_name(f"{library.name}.{os.getpid()}")
    words = [command, "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra"]
    words += [f"-Wl,-soname,{LIBRARY}", *flags, f"-I{include}", str(SOURCE), "-o", str(made)]
    words += ["-ldl", "-lpthread"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBuild(f"{command} failed: {done.stderr.strip()}")
    made.replace(library)


#: Where the build of the wheel puts the library.
PACKAGED = Path(__file__).with_name("lib") / LIBRARY


def default_folder() -> Path:
    """Return the folder of this version of the library, in the cache of the user."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    digest = hashlib.sha256(SOURCE.read_bytes() + header().encode()).hexdigest()[:12]
    return Path(cache) / "mayfly" / f"libmqm-{digest}"


def install(folder: Path) -> Path:
    """Fill a folder as programs expect that of a client of IBM MQ, and return it.

    ``lib64`` has the library under each of its names, ``inc`` the headers. The library is that of
    the wheel, else it is compiled; one that is there stays. Raises CannotBuild, and OSError for a
    folder that cannot be written.
    """
    include, libraries = folder / "inc", folder / "lib64"
    library = libraries / LIBRARY
    if not library.exists():
        text = header()
        include.mkdir(parents=True, exist_ok=True)
        libraries.mkdir(parents=True, exist_ok=True)
        (include / NAME).write_text(text, encoding="ascii")
        (include / IBM_NAME).write_text(f'#include "{NAME}"\n', encoding="ascii")
        for alias in ALIASES:
            (libraries / alias).unlink(missing_ok=True)
            (libraries / alias).symlink_to(LIBRARY)
        if PACKAGED.exists():
            library.symlink_to(PACKAGED)
        else:
            build(library, include)
    return folder


def python_library() -> Path | None:
    """Return the shared library of this Python, which C programs start; None if it has none."""
    values = sysconfig.get_config_vars("LIBDIR", "MULTIARCH", "INSTSONAME", "LDLIBRARY")
    directory, machine, *names = values
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    names += [f"libpython{version}.so.1.0", f"libpython{version}.so.1", f"libpython{version}.so"]
    folders = [Path(directory or "/usr/lib"), Path(sys.base_prefix) / "lib"]
    folders += [folder / machine for folder in folders if machine]
    for name in names:
        for folder in folders:
            path = folder / str(name)
            if ".so" in path.suffixes and path.exists():
                return path.resolve()
    return None


def variables(folder: Path) -> dict[str, str]:
    """Return the environment with which programs find the library of a folder, and Mayfly.

    MAYFLY_LIBPYTHON is missing for a Python without a shared library.
    """
    libraries = str(folder / "lib64")
    found = {
        "MQ_FILE_PATH": str(folder),
        "MQ_INSTALLATION_PATH": str(folder),
        "LD_LIBRARY_PATH": _prefixed(libraries, "LD_LIBRARY_PATH"),
        "LIBRARY_PATH": _prefixed(libraries, "LIBRARY_PATH"),
        "C_INCLUDE_PATH": _prefixed(str(folder / "inc"), "C_INCLUDE_PATH"),
        "MAYFLY_PYTHONPATH": os.pathsep.join(dict.fromkeys(each for each in sys.path if each)),
    }
    library = python_library()
    return found if library is None else found | {"MAYFLY_LIBPYTHON": str(library)}


def _prefixed(folder: str, variable: str) -> str:
    """Return the folders of a variable with ``folder`` as the first one, once."""
    others = [each for each in os.environ.get(variable, "").split(os.pathsep) if each]
    return os.pathsep.join([folder, *(each for each in others if each != folder)])
