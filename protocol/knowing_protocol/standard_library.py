"""What belongs to the standard library of a language, as frozen tables.

Promises: the answer depends on the path alone, so that two machines with different interpreters agree on it. Must
never: ask the running interpreter, a JDK or Node what they have. A table changes only together with the protocol,
because names of the standard library cannot be claimed by a repository.

Sources of the tables: `sys.stdlib_module_names` of CPython 3.10 to 3.14, and what 3.8 and 3.9 had besides (their test
modules left out, as the later lists do); `module.builtinModules` of Node; the packages that JDK 21 exports.
C# has no table: packages outside of the framework also live in `System.*` and `Microsoft.*`, so the name of a namespace
does not tell who owns it.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Final

from knowing_protocol.paths import CALL, Path, alternatives


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _packages(text: str) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(package.split(".")) for package in text.split())


PYTHON_MODULES: Final = _words(
    """
    __future__ _abc _aix_support _android_support _apple_support _ast _ast_unparse _asyncio _bisect _blake2
    _bootlocale _bootsubprocess _bz2 _codecs _codecs_cn _codecs_hk _codecs_iso2022 _codecs_jp _codecs_kr _codecs_tw
    _collections _collections_abc _colorize _compat_pickle _compression _contextvars _crypt _csv _ctypes _curses
    _curses_panel _datetime _dbm _decimal _dummy_thread _elementtree _frozen_importlib _frozen_importlib_external
    _functools _gdbm _hashlib _heapq _hmac _imp _interpchannels _interpqueues _interpreters _io _ios_support _json
    _locale _lsprof _lzma _markupbase _md5 _msi _multibytecodec _multiprocessing _opcode _opcode_metadata _operator
    _osx_support _overlapped _peg_parser _pickle _posixshmem _posixsubprocess _py_abc _py_warnings _pydatetime
    _pydecimal _pyio _pylong _pyrepl _queue _random _remote_debugging _scproxy _sha1 _sha2 _sha256 _sha3 _sha512
    _signal _sitebuiltins _socket _sqlite3 _sre _ssl _stat _statistics _string _strptime _struct _suggestions
    _symtable _sysconfig _thread _threading_local _tkinter _tokenize _tracemalloc _types _typing _uuid _warnings
    _weakref _weakrefset _winapi _wmi _xxinterpchannels _xxsubinterpreters _zoneinfo _zstd
    abc aifc annotationlib antigravity argparse array ast asynchat asyncio asyncore atexit audioop base64 bdb
    binascii binhex bisect builtins bz2 cProfile calendar cgi cgitb chunk cmath cmd code codecs codeop collections
    colorsys compileall compression concurrent configparser contextlib contextvars copy copyreg crypt csv ctypes
    curses dataclasses datetime dbm decimal difflib dis distutils doctest dummy_threading email encodings ensurepip
    enum errno faulthandler fcntl filecmp fileinput fnmatch formatter fractions ftplib functools gc genericpath
    getopt getpass gettext glob graphlib grp gzip hashlib heapq hmac html http idlelib imaplib imghdr imp importlib
    inspect io ipaddress itertools json keyword lib2to3 linecache locale logging lzma mailbox mailcap marshal math
    mimetypes mmap modulefinder msilib msvcrt multiprocessing netrc nis nntplib nt ntpath nturl2path numbers opcode
    operator optparse os ossaudiodev parser pathlib pdb pickle pickletools pipes pkgutil platform plistlib poplib
    posix posixpath pprint profile pstats pty pwd py_compile pyclbr pydoc pydoc_data pyexpat queue quopri random re
    readline reprlib resource rlcompleter runpy sched secrets select selectors shelve shlex shutil signal site smtpd
    smtplib sndhdr socket socketserver spwd sqlite3 sre_compile sre_constants sre_parse ssl stat statistics string
    stringprep struct subprocess sunau symbol symtable sys sysconfig syslog tabnanny tarfile telnetlib tempfile
    termios textwrap this threading time timeit tkinter token tokenize tomllib trace traceback tracemalloc tty
    turtle turtledemo types typing unicodedata unittest urllib uu uuid venv warnings wave weakref webbrowser winreg
    winsound wsgiref xdrlib xml xmlrpc zipapp zipfile zipimport zlib zoneinfo
    """
)

NODE_MODULES: Final = _words(
    """
    _http_agent _http_client _http_common _http_incoming _http_outgoing _http_server _stream_duplex
    _stream_passthrough _stream_readable _stream_transform _stream_wrap _stream_writable _tls_common _tls_wrap
    assert assert/strict async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel
    dns dns/promises domain events fs fs/promises http http2 https inspector inspector/promises module net os path
    path/posix path/win32 perf_hooks process punycode querystring readline readline/promises repl stream
    stream/consumers stream/promises stream/web string_decoder sys timers timers/promises tls trace_events tty url
    util util/types v8 vm wasi worker_threads zlib
    """
)
"""Importable without `node:`; the newer ones (`node:test`, `node:sqlite`) exist only with it."""

GO_PACKAGES: Final = _words(
    """
    archive bufio builtin bytes cmp compress container context crypto database debug embed encoding errors expvar flag
    fmt go hash html image index internal io iter log maps math mime net os path plugin reflect regexp runtime slices
    sort strconv strings structs sync syscall testing text time unicode unique unsafe weak
    """
)
"""First elements of the import paths of Go's standard library."""

RUST_CRATES: Final = frozenset({"alloc", "core", "proc_macro", "std", "test"})

JAVA_PACKAGES: Final = _packages(
    """
    java
    javax.accessibility javax.annotation.processing javax.crypto javax.imageio javax.lang.model javax.management
    javax.naming javax.net javax.print javax.rmi.ssl javax.script javax.security.auth javax.security.cert
    javax.security.sasl javax.smartcardio javax.sound javax.sql javax.swing javax.tools javax.transaction.xa
    javax.xml
    """
)
"""Packages of the JDK, with all that is below them except for JAKARTA_PACKAGES."""

JAKARTA_PACKAGES: Final = _packages(
    """
    javax.management.j2ee javax.security.auth.message javax.xml.bind javax.xml.registry javax.xml.rpc javax.xml.soap
    javax.xml.ws
    """
)
"""Packages of Java EE, published as libraries, that lie below a package of the JDK."""

BUILTIN_MEMBERS: Final = {
    "bool": _words(
        """
        as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag is_integer numerator
        real to_bytes
        """
    ),
    "bytearray": _words(
        """
        append capitalize center clear copy count decode endswith expandtabs extend find fromhex hex index
        insert isalnum isalpha isascii isdigit islower isspace istitle isupper join ljust lower lstrip
        maketrans partition pop remove removeprefix removesuffix replace reverse rfind rindex rjust
        rpartition rsplit rstrip split splitlines startswith strip swapcase title translate upper zfill
        """
    ),
    "bytes": _words(
        """
        capitalize center count decode endswith expandtabs find fromhex hex index isalnum isalpha isascii
        isdigit islower isspace istitle isupper join ljust lower lstrip maketrans partition removeprefix
        removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip
        swapcase title translate upper zfill
        """
    ),
    "complex": _words(
        """
        conjugate imag real
        """
    ),
    "dict": _words(
        """
        clear copy fromkeys get items keys pop popitem setdefault update values
        """
    ),
    "float": _words(
        """
        as_integer_ratio conjugate fromhex hex imag is_integer real
        """
    ),
    "frozenset": _words(
        """
        copy difference intersection isdisjoint issubset issuperset symmetric_difference union
        """
    ),
    "int": _words(
        """
        as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag is_integer numerator
        real to_bytes
        """
    ),
    "list": _words(
        """
        append clear copy count extend index insert pop remove reverse sort
        """
    ),
    "memoryview": _words(
        """
        c_contiguous cast contiguous f_contiguous format hex itemsize nbytes ndim obj readonly release shape
        strides suboffsets tobytes tolist toreadonly
        """
    ),
    "range": _words(
        """
        count index start step stop
        """
    ),
    "set": _words(
        """
        add clear copy difference difference_update discard intersection intersection_update isdisjoint
        issubset issuperset pop remove symmetric_difference symmetric_difference_update union update
        """
    ),
    "slice": _words(
        """
        indices start step stop
        """
    ),
    "str": _words(
        """
        capitalize casefold center count encode endswith expandtabs find format format_map index isalnum
        isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper
        join ljust lower lstrip maketrans partition removeprefix removesuffix replace rfind rindex rjust
        rpartition rsplit rstrip split splitlines startswith strip swapcase title translate upper zfill
        """
    ),
    "tuple": _words(
        """
        count index
        """
    ),
}
"""Types of Python's `builtins` whose call returns an instance of exactly that type, and the members that these have."""


def in_standard_library(path: Path) -> bool:
    """Whether every alternative of a path starts in the standard library of its language."""
    return all(_starts_in_standard_library(alternative) for alternative in alternatives(path))


def is_builtin_instance_member(path: Path) -> bool:
    """Whether a path is exactly a member of an instance of a builtin type: `python://builtins.str().join`."""
    if path.scheme != "python" or len(path.heads) != 1 or path.heads[0].module != "builtins":
        return False
    match path.steps:
        case (str(type_name), call, str(name)):
            return call is CALL and name in BUILTIN_MEMBERS.get(type_name, ())
        case _:
            return False


def _starts_in_standard_library(path: Path) -> bool:
    module = path.heads[0].module
    match path.scheme:
        case "python":
            return module in PYTHON_MODULES
        case "go":
            # A list, not "no dot in the first element": private modules may have none either.
            return module.partition("/")[0] in GO_PACKAGES
        case "rust":
            return module in RUST_CRATES
        case "npm":
            return module.startswith("node:") or module in NODE_MODULES
        case "java":
            names = (module, *takewhile(lambda step: isinstance(step, str), path.steps))
            prefixes = {names[:length] for length in range(1, len(names) + 1)}
            return not prefixes.isdisjoint(JAVA_PACKAGES) and prefixes.isdisjoint(JAKARTA_PACKAGES)
        case _:
            return False
