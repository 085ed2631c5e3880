"""Reading a Python file: its bytes as text, one parse, one Query, and positions.

Offsets are byte offsets into the UTF-8 form of the file. `Source.text` has one character a byte (Latin-1), so that the
same offsets cut both; a cut that is not ASCII is decoded by `word`.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from operator import attrgetter, sub
from typing import Final, NamedTuple

import tree_sitter_python
from tree_sitter import Language, Node, Parser, Query, QueryCursor

from knowingd.extract.limits import MAX_DEPTH, MAX_NAME_BYTES, MAX_TREE_DEPTH
from knowingd.extract.words import words

LANGUAGE: Final = Language(tree_sitter_python.language())

# Where an identifier is read. Bare names elsewhere are targets of bindings, parameters, keywords or attributes.
_READ_IN: Final = words(
    """
    argument_list return_statement binary_operator comparison_operator boolean_operator not_operator subscript list
    tuple set pair expression_list conditional_expression await type except_clause raise_statement unary_operator
    list_splat dictionary_splat interpolation with_item as_pattern yield assert_statement expression_statement slice
    decorator parenthesized_expression if_clause generic_type match_statement
    """
)
_READ_AS: Final = (
    "keyword_argument value",
    "assignment right",
    "for_statement right",
    "for_in_clause right",
    "if_statement condition",
    "elif_clause condition",
    "while_statement condition",
    "default_parameter value",
    "typed_default_parameter value",
    "lambda body",
    "augmented_assignment right",
    "augmented_assignment left",
    "named_expression value",
    "list_comprehension body",
    "set_comprehension body",
    "generator_expression body",
)
_QUERY: Final = (
    """
    [(function_definition) (class_definition)] @def
    (decorated_definition) @decorated
    (lambda) @lambda
    [(list_comprehension) (set_comprehension) (dictionary_comprehension) (generator_expression)] @comprehension
    (call function: (_) @callee)
    (call arguments: (argument_list) @arguments)
    (argument_list [(list_splat) (dictionary_splat)] @splat)
    (attribute object: (identifier) @head)
    (assignment) @assignment
    [(augmented_assignment) (named_expression) (for_statement) (for_in_clause) (as_pattern) (except_clause)
     (case_pattern) (type_alias_statement) (delete_statement)] @binding
    [(global_statement) (nonlocal_statement)] @outer
    [(import_statement) (import_from_statement) (future_import_statement)] @import
    (return_statement) @return
    (yield) @yield
    (raise_statement) @raise
    [(continue_statement) (break_statement)] @jump
    (block) @block
    (with_statement body: (block) @with)
    (if_statement) @if
    (if_statement consequence: (block) @branch)
    (if_statement alternative: (elif_clause consequence: (block) @branch))
    (if_statement alternative: (else_clause body: (block) @branch @else))
    [(for_statement) (while_statement)] @loop
    (assert_statement) @assert
    (type) @type
    """
    + "\n".join(f"({kind} (identifier) @read)" for kind in _READ_IN)
    + "\n"
    + "\n".join(f"({one.split()[0]} {one.split()[1]}: (identifier) @read)" for one in _READ_AS)
)
_COMPILED: Final = Query(LANGUAGE, _QUERY)
_PARSER: Final = Parser(LANGUAGE)
_UNORDERED: Final = frozenset({"arguments", "splat", "with", "branch", "else"})  # looked up by position
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"([{}])"))
_TURNS: Final = bytes(1 if one in b"([{" else 255 for one in range(256))  # as signed bytes: up one, down one
_JOINED_BEFORE: Final = re.compile(rb"\n[ \t]*(?:[-+.|&%*/^<>=]|and\b|or\b|else\b)")
_JOINED_AFTER: Final = re.compile(rb"[-+|&%*/^<>=\\][ \t\r]*\n")
_NESTED: Final = frozenset({"callee", "binding", "type", "comprehension", "lambda"})  # some start where others do
_START: Final = attrgetter("start_byte")
_END: Final = attrgetter("end_byte")

CHAIN: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
_COOKIE: Final = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK: Final = re.compile(rb"^[ \t\f]*(?:[#\r\n]|$)")
_LONE_RETURN: Final = re.compile(rb"\r(?!\n)")
_BOM: Final = b"\xef\xbb\xbf"
# A frozen list: what the running interpreter could decode besides must not change a graph.
_ENCODINGS: Final = {
    "latin-1": "latin-1",
    "latin1": "latin-1",
    "iso-8859-1": "latin-1",
    "iso8859-1": "latin-1",
    "l1": "latin-1",
    "iso-8859-15": "iso8859-15",
    "cp1252": "cp1252",
    "windows-1252": "cp1252",
    "cp1251": "cp1251",
    "windows-1251": "cp1251",
    "koi8-r": "koi8-r",
    "euc-jp": "euc-jp",
    "shift-jis": "shift-jis",
    "gbk": "gbk",
    "gb2312": "gb2312",
    "big5": "big5",
    "euc-kr": "euc-kr",
}


class Source(NamedTuple):
    """A file as it is parsed."""

    content: bytes
    text: str
    lines: list[int]  # offset of the start of each line
    clean: bool  # whether every byte could be read as what the file says that it is


def read(content: bytes) -> Source:
    """The UTF-8 form of a file, whatever its encoding. Bytes that cannot be read are replaced and reported."""
    clean = True
    if not content.isascii():
        content, clean = _decoded(content)
    if b"\0" in content:
        content, clean = content.replace(b"\0", b" "), False
    if b"\r" in content:
        content = _LONE_RETURN.sub(b"\n", content)
    text = content.decode("latin-1")
    lines = [0]
    lines += [found.end() for found in re.finditer("\n", text)]
    return Source(content, text, lines, clean)


def _decoded(content: bytes) -> tuple[bytes, bool]:
    content = content.removeprefix(_BOM)
    cookie = None
    first, _, rest = content[:4096].partition(b"\n")
    cookie = _COOKIE.match(first) or (_COOKIE.match(rest.partition(b"\n")[0]) if _BLANK.match(first) else None)
    name = cookie[1].decode("ascii").lower().replace("_", "-") if cookie else "utf-8"
    encoding = _ENCODINGS.get(name.removesuffix("-unix").removesuffix("-dos"), "utf-8")
    try:
        return content.decode(encoding).encode(), True
    except ValueError:
        return content.decode(encoding, "replace").encode(), False


def parse(source: Source) -> tuple[Node, dict[str, list[Node]], bool]:
    """The root of a file's tree, what the Query captures in it, by position, and whether it was too deep for that.

    The binding collects captures in sets, so their order differs from run to run until they are sorted. A Query takes
    time with the depth of the tree for every node of it, so depth is limited where a file could be deep.
    """
    root = _PARSER.parse(source.content).root_node
    cursor = QueryCursor(_COMPILED)
    deep = _may_be_deep(source) and _is_deep(root)
    if deep:
        cursor.set_max_start_depth(MAX_TREE_DEPTH)
    captures = cursor.captures(root)
    for name, nodes in captures.items():
        if name not in _UNORDERED:
            if name in _NESTED:
                nodes.sort(key=_END)
            nodes.sort(key=_START)
    return root, captures, deep


def _may_be_deep(source: Source) -> bool:
    """A cheap test that no deep file passes: depth needs brackets, long lines, or lines joined by operators."""
    content, lines = source.content, source.lines
    brackets = content.translate(_TURNS, _NO_BRACKETS)
    if len(brackets) > MAX_DEPTH and max(accumulate(memoryview(brackets).cast("b"))) > MAX_DEPTH:
        return True
    if max(map(sub, [*lines[1:], len(content)], lines)) > 4 * MAX_TREE_DEPTH:
        return True
    if len(lines) <= MAX_TREE_DEPTH:
        return False
    return len(_JOINED_BEFORE.findall(content)) + len(_JOINED_AFTER.findall(content)) > MAX_DEPTH


def _is_deep(root: Node) -> bool:
    cursor = root.walk()
    depth = 0
    while True:
        if cursor.goto_first_child():
            depth += 1
            if depth > MAX_TREE_DEPTH:
                return True
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return False
            depth -= 1


def word(text: str) -> str:
    """An identifier out of `Source.text`, as Python reads it: decoded, and folded to NFKC; empty if it is too long."""
    if len(text) > MAX_NAME_BYTES:
        return ""
    return text if text.isascii() else unicodedata.normalize("NFKC", text.encode("latin-1").decode(errors="ignore"))


def decoded(text: str) -> str:
    """Other text out of `Source.text`; a character that was cut in two is left out."""
    return text if text.isascii() else text.encode("latin-1").decode(errors="ignore")


class Regions:
    """Which of nested intervals is innermost at a position."""

    def __init__(self, intervals: Iterable[tuple[int, int, int]], outside: int) -> None:
        """Intervals are (start, end, label); they nest, and those inside come after those around them."""
        starts: list[int] = [0]
        labels: list[int] = [outside]
        stack: list[tuple[int, int]] = [(1 << 62, outside)]
        for start, end, label in sorted(intervals, key=lambda one: (one[0], -one[1])):
            while stack[-1][0] <= start:
                closed = stack.pop()[0]
                starts.append(closed)
                labels.append(stack[-1][1])
            starts.append(start)
            labels.append(label)
            stack.append((end, label))
        while len(stack) > 1:
            closed = stack.pop()[0]
            starts.append(closed)
            labels.append(stack[-1][1])
        self.starts = starts
        self.labels = labels

    def at(self, position: int) -> int:
        """The label of the innermost interval around a position."""
        return self.labels[bisect_right(self.starts, position) - 1]


def first_child(node: Node) -> Node | None:
    """The first named child of a node."""
    return node.named_child(0) if node.named_child_count else None
