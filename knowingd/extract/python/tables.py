"""Frozen tables about Python: builtin names, and what a few functions and types of the standard library mean.

Never the running interpreter's: the same tree must give the same graph on every machine.
"""

from __future__ import annotations

from typing import Final

from knowingd.extract.words import words

BUILTINS: Final = frozenset(
    words(
        """
    ArithmeticError AssertionError AttributeError BaseException BaseExceptionGroup BlockingIOError BrokenPipeError
    BufferError BytesWarning ChildProcessError ConnectionAbortedError ConnectionError ConnectionRefusedError
    ConnectionResetError DeprecationWarning EOFError Ellipsis EncodingWarning EnvironmentError Exception
    ExceptionGroup FileExistsError FileNotFoundError FloatingPointError FutureWarning GeneratorExit IOError
    ImportError ImportWarning IndentationError IndexError InterruptedError IsADirectoryError KeyError
    KeyboardInterrupt LookupError MemoryError ModuleNotFoundError NameError NotADirectoryError NotImplemented
    NotImplementedError OSError OverflowError PendingDeprecationWarning PermissionError ProcessLookupError
    PythonFinalizationError RecursionError ReferenceError ResourceWarning RuntimeError RuntimeWarning
    StopAsyncIteration StopIteration SyntaxError SyntaxWarning SystemError SystemExit TabError TimeoutError
    TypeError UnboundLocalError UnicodeDecodeError UnicodeEncodeError UnicodeError UnicodeTranslateError
    UnicodeWarning UserWarning ValueError Warning WindowsError ZeroDivisionError __build_class__ __import__ abs
    aiter all anext any apply ascii basestring bin bool breakpoint buffer bytearray bytes callable chr classmethod
    cmp coerce compile complex copyright credits delattr dict dir divmod enumerate eval exec execfile exit file
    filter float format frozenset getattr globals hasattr hash help hex id input int intern isinstance issubclass
    iter len license list locals long map max memoryview min next object oct open ord pow print property quit range
    raw_input reduce reload repr reversed round set setattr slice sorted staticmethod str sum super tuple type
    unichr unicode vars xrange zip
    """
    )
)
MODULE_NAMES: Final = frozenset(
    words(
        """
    __name__ __file__ __doc__ __path__ __spec__ __loader__ __package__ __builtins__ __debug__ __dict__ __class__
    """
    )
)
"""What every module has without binding it."""

_ALIASES: Final = ["typing", "typing_extensions", "collections.abc", "builtins", "contextlib", "types", "asyncio"]


def _rules() -> dict[str, str]:
    words = {
        "inner": "Optional Annotated ClassVar Final Required NotRequired ReadOnly Awaitable InitVar Unpack Future Task",
        "last": "Coroutine CoroutineType",
        "union": "Union",
        "type": "Type type",
        "dict": "Dict dict Mapping MutableMapping DefaultDict OrderedDict Counter ChainMap ItemsView",
        "tuple": "Tuple tuple",
        "callable": "Callable",
        "context": "ContextManager AsyncContextManager AbstractContextManager AbstractAsyncContextManager",
        "element": "List list Set set FrozenSet frozenset Sequence MutableSequence Iterable Iterator Collection"
        " Container Deque AbstractSet MutableSet AsyncIterable AsyncIterator Generator AsyncGenerator Reversible"
        " KeysView ValuesView AsyncGeneratorType GeneratorType",
        "nothing": "None NoReturn Never",
        "unknown": "Any object Literal LiteralString TypeAlias TypeGuard TypeIs ParamSpec Concatenate Generic Protocol"
        " TypeVar Hashable Sized",
        "self": "Self",
    }
    found: dict[str, str] = {}
    for rule, names in words.items():
        for name in names.split():
            for module in _ALIASES:
                found[f"{module}.{name}"] = rule
    found |= {"collections.defaultdict": "dict", "collections.OrderedDict": "dict", "collections.deque": "element"}
    found |= {"collections.Counter": "dict", "collections.ChainMap": "dict", "dataclasses.InitVar": "inner"}
    found |= {"builtins.NotImplemented": "nothing"}
    return found


TYPE_RULES: Final = _rules()
"""What a type of the standard library does with its arguments."""

TYPE_NAMES: Final = {
    f"{module}.{name}": f"builtins.{name.lower()}"
    for module in ("typing", "typing_extensions")
    for name in ("List", "Dict", "Tuple", "Set", "FrozenSet")
}
"""Old names of builtin types."""

FIRST_ARGUMENT: Final = frozenset(
    words(
        """
    copy.copy copy.deepcopy asyncio.wait_for asyncio.create_task asyncio.ensure_future asyncio.shield asyncio.run
    contextlib.nullcontext dataclasses.replace functools.partial functools.partialmethod functools.lru_cache()
    functools.cache functools.lru_cache functools.wraps functools.wraps() contextlib.closing typing.NewType
    """
    )
)
"""Functions whose result is of the type of their first argument, or behaves like it."""

DECLARERS: Final = frozenset(
    (
        "dataclasses.field",
        "attr.ib",
        "attr.attrib",
        "attr.field",
        "attrs.field",
        "pydantic.Field",
        "pydantic.fields.Field",
    )
)
"""Calls in a class body that declare a field; the field's values are not what they return."""

ELEMENTS: Final = frozenset(
    words(
        """
    builtins.list builtins.tuple builtins.set builtins.frozenset builtins.sorted builtins.reversed builtins.iter
    builtins.filter collections.deque itertools.chain itertools.islice
    """
    )
)
"""Functions whose result has the elements of their (last given) argument."""

ONE_ELEMENT: Final = frozenset(["builtins.next", "builtins.max", "builtins.min", "builtins.anext", "random.choice"])

ENTERED: Final = frozenset({"enter_context", "enter_async_context"})

PROCESS: Final = frozenset(
    words(
        """
    subprocess.run subprocess.Popen subprocess.call subprocess.check_call subprocess.check_output
    subprocess.getoutput subprocess.getstatusoutput os.system os.popen os.execl os.execle os.execlp os.execlpe
    os.execv os.execve os.execvp os.execvpe os.spawnl os.spawnle os.spawnlp os.spawnlpe os.spawnv os.spawnve
    os.spawnvp os.spawnvpe os.posix_spawn os.posix_spawnp os.startfile asyncio.create_subprocess_exec
    asyncio.create_subprocess_shell pty.spawn os.fork
    """
    )
)

ENUMS: Final = frozenset(["enum.Enum", "enum.IntEnum", "enum.Flag", "enum.IntFlag", "enum.StrEnum"])
INERT_BASES: Final = frozenset(
    words(
        """
    builtins.object typing.Generic typing.Protocol typing_extensions.Protocol abc.ABC typing_extensions.Generic
    """
    )
)
"""Bases that bring no members that anybody would call."""
INTERFACES: Final = frozenset(["typing.Protocol", "typing_extensions.Protocol", "abc.ABC"])

SAME_BUILTIN: Final = frozenset(
    words(
        """
    str.capitalize str.casefold str.center str.expandtabs str.format str.format_map str.join str.ljust str.lower
    str.lstrip str.removeprefix str.removesuffix str.replace str.rjust str.rstrip str.strip str.swapcase str.title
    str.translate str.upper str.zfill str.__mod__ str.__add__ str.__mul__ bytes.replace bytes.strip bytes.join
    bytes.__add__ bytes.lower bytes.upper bytes.lstrip bytes.rstrip int.__add__ int.__sub__ int.__mul__ int.__mod__
    int.__floordiv__ int.__pow__ float.__add__ float.__sub__ float.__mul__ float.__truediv__ list.copy dict.copy
    set.copy list.__add__ list.__mul__ set.union set.intersection set.difference set.__or__ set.__and__ set.__sub__
    tuple.__add__
    """
    )
)
"""Methods of builtins that return what they belong to."""
OTHER_BUILTIN: Final = {
    "str.encode": "bytes",
    "bytes.decode": "str",
    "str.split": "list",
    "str.rsplit": "list",
    "str.splitlines": "list",
    "str.partition": "tuple",
    "str.rpartition": "tuple",
    "str.find": "int",
    "str.index": "int",
    "str.startswith": "bool",
    "str.endswith": "bool",
}
CONSTRUCTORS: Final = {
    "builtins.open": "io.TextIOWrapper",
    "builtins.repr": "builtins.str",
    "builtins.len": "builtins.int",
    "builtins.format": "builtins.str",
    "builtins.isinstance": "builtins.bool",
    "builtins.hasattr": "builtins.bool",
}
