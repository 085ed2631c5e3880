r"""Expressions of a file as a table of symbolic paths: each entry is an earlier entry and one more step.

A step is `.name`, `()` (called), `[]`, `[3]`, `[:]` (subscripts), `*` (iterated), `^` (entered by `with`), `*~` and
`^~` the same asynchronously; `(=n` and `(=n;m` a call with the entries of its first arguments, `(:text` a call with a
type, for the few functions whose result depends on them. An entry without an earlier one is a head:

    Gname             a name of the module, a star import or a builtin
    Bname             an instance of a builtin
    L4:name           a name of scope 4, any of its bindings; L4:name@0,2 just these
    S4:name, C4:name  an instance of class 4 (`self`), the class itself (`cls`)
    U4, K4            `super()` in the methods and the class methods of class 4
    |1;2              one of these entries
    [1;2 {1;2 (1;2    a list or set, a dictionary (its values), a tuple of these
    \1                a function that returns this
    N, ?              None, something unknown
"""

from __future__ import annotations

from typing import Final

from tree_sitter import Node

from knowingd.extract.limits import MAX_ANNOTATION_BYTES, MAX_BINDINGS, MAX_CHAIN, MAX_DEPTH, MAX_NAME_BYTES, MAX_VALUES
from knowingd.extract.python.flow import Flow
from knowingd.extract.python.scopes import FUNCTION, Binding, Scopes
from knowingd.extract.python.syntax import CHAIN, decoded, first_child, word
from knowingd.extract.words import words

UNKNOWN: Final = "?"
_LITERALS: Final = {
    "string": "Bstr",
    "concatenated_string": "Bstr",
    "integer": "Bint",
    "float": "Bfloat",
    "true": "Bbool",
    "false": "Bbool",
    "none": "N",
    "comparison_operator": "Bbool",
    "not_operator": "Bbool",
}
_OPERATORS: Final = {
    "+": "__add__",
    "-": "__sub__",
    "*": "__mul__",
    "/": "__truediv__",
    "//": "__floordiv__",
    "%": "__mod__",
    "**": "__pow__",
    "@": "__matmul__",
    "&": "__and__",
    "|": "__or__",
    "^": "__xor__",
    "<<": "__lshift__",
    ">>": "__rshift__",
}
WITH_ARGUMENTS: Final = frozenset(
    words(
        """
    partial enter_context enter_async_context next iter enumerate zip sorted list tuple set frozenset reversed
    filter copy deepcopy type NewType wait_for create_task ensure_future shield run run_until_complete max min
    TypeVar property cached_property lru_cache cache wraps replace chain closing nullcontext dict
    """
    )
)
"""Last names of functions whose result depends on their first arguments; the linker knows which of them are meant."""


class Expressions:
    """The table of one file. Names are resolved to scopes and bindings; bindings are queued for `drain`."""

    def __init__(self, scopes: Scopes) -> None:
        self.scopes = scopes
        self.text = scopes.source.text
        self.table: list[tuple[int, str]] = []
        self._lengths: list[int] = []
        self._numbers: dict[tuple[int, str], int] = {}
        self._chains: dict[tuple[int, str], int] = {}
        self._heads: dict[tuple[int, str], int] = {}
        self._rests: dict[tuple[int, str], int] = {}
        self._nodes: dict[tuple[int, int], int] = {}
        self._flow: Flow | None = None
        self.consumed: set[int] = set()  # where names start that are part of a longer expression
        self.wanted: dict[tuple[int, str], None] = {}  # bindings of functions that some entry needs

    def entry(self, base: int, step: str) -> int:
        """The number of a path."""
        key = (base, step)
        number = self._numbers.get(key)
        if number is None:
            length = self._lengths[base] + 1 if base >= 0 else 0
            if length > MAX_CHAIN:
                return self.entry(-1, UNKNOWN)
            number = self._numbers[key] = len(self.table)
            self.table.append(key)
            self._lengths.append(length)
        return number

    def chain(self, text: str, scope: int, position: int) -> int:
        """The entry of a dotted name, read in a scope at a position."""
        key = (scope, text)
        number = self._chains.get(key)
        if number is None:
            if len(text) > MAX_NAME_BYTES:
                return self.entry(-1, UNKNOWN)
            name, dot, rest = text.partition(".")
            head = self._heads.get((scope, name))
            stable = True
            if head is None:
                head, stable = self.name(name, scope, position)
                if stable:
                    self._heads[scope, name] = head
            number = head
            if dot:
                # Methods of one class share most of their chains: the same head, the same rest.
                known = self._rests.get((head, rest))
                if known is None:
                    for one in rest.split("."):
                        number = self.entry(number, f".{one}")
                    self._rests[head, rest] = number
                else:
                    number = known
            if stable:
                self._chains[key] = number
        return number

    def name(self, name: str, scope: int, position: int) -> tuple[int, bool]:
        """The entry of a name, and whether it is the same everywhere in that scope."""
        scopes = self.scopes
        home = scopes.home(scope, name)
        current = scopes.all[home]
        bindings = current.bindings.get(name)
        if bindings is None:
            return self.entry(-1, f"G{name}"), True
        if len(bindings) == 1:
            return self._only(home, name, bindings[0]), True
        if home != scope and (scope == 0 or self._function_of(scope) != home):
            return self._all(home, name), True
        if all(one.kind in "dci" for one in bindings):
            return self._all(home, name), True
        if self._flow is None:
            self._flow = Flow(scopes.captures, len(scopes.source.content))
        found = self._flow.reaching(bindings, position)
        if found is None:
            return self.entry(-1, UNKNOWN), False
        if not found or len(found) == len(bindings):
            return self._all(home, name), False
        if len(found) == 1 and bindings[found[0]].kind in "sk":
            return self._only(home, name, bindings[found[0]]), False
        self.wanted[home, name] = None
        return self.entry(-1, f"L{home}:{name}@{','.join(map(str, found[-MAX_BINDINGS:]))}"), False

    def _function_of(self, scope: int) -> int:
        """The scope whose flow a comprehension or lambda is part of."""
        all_scopes = self.scopes.all
        while all_scopes[scope].owner != scope:
            scope = all_scopes[scope].parent
        return scope

    def _only(self, home: int, name: str, binding: Binding) -> int:
        if binding.kind == "s" and not binding.text:
            return self.entry(-1, f"S{binding.number}:{name}")
        if binding.kind == "k" and not binding.text:
            return self.entry(-1, f"C{binding.number}:{name}")
        return self._all(home, name)

    def _all(self, home: int, name: str) -> int:
        if home == 0:
            return self.entry(-1, f"G{name}")
        self.wanted[home, name] = None
        return self.entry(-1, f"L{home}:{name}")

    def of(self, node: Node | None, depth: int = 0) -> int:
        """The entry of an expression."""
        if node is None or depth > MAX_DEPTH:
            return self.entry(-1, UNKNOWN)
        key = (node.start_byte, node.end_byte)
        number = self._nodes.get(key)
        if number is None:
            number = self._nodes[key] = self._of(node, depth)
        return number

    def _of(self, node: Node, depth: int) -> int:
        start, end = node.start_byte, node.end_byte
        kind = node.type
        if kind == "identifier":
            return self.name(word(self.text[start:end]), self.scopes.at(start), start)[0]
        literal = _LITERALS.get(kind)
        if literal is not None:
            if literal == "Bstr" and "b" in self.text[start : start + 2].lower().partition('"')[0].partition("'")[0]:
                literal = "Bbytes"
            return self.entry(-1, literal)
        if kind == "attribute":
            return self._attribute(node, start, end, depth)
        if kind == "call":
            return self._call(node, depth)
        method = getattr(self, f"_of_{kind}", None)
        return self.entry(-1, UNKNOWN) if method is None else method(node, depth + 1)

    def _attribute(self, node: Node, start: int, end: int, depth: int) -> int:
        if end - start < 200:
            text = self.text[start:end]
            if CHAIN.fullmatch(text):
                return self.chain(text, self.scopes.at(start), start)
        # A chain of calls nests to the left; going down it in a loop spares the stack.
        steps: list[str] = []
        current: Node | None = node
        while current is not None and len(steps) < 64:
            if current.type == "attribute":
                named = current.child_by_field_name("attribute")
                steps.append("." + (word(self.text[named.start_byte : named.end_byte]) if named is not None else ""))
                current = current.child_by_field_name("object")
            elif current.type == "parenthesized_expression":
                current = first_child(current)
            else:
                break
        if current is not None and current.type == "identifier":
            self.consumed.add(current.start_byte)
        number = self.of(current, depth + 1) if len(steps) < 64 else self.entry(-1, UNKNOWN)
        for step in reversed(steps):
            number = self.entry(number, step)
        return number

    def _call(self, node: Node, depth: int) -> int:
        function = node.child_by_field_name("function")
        if function is None:
            return self.entry(-1, UNKNOWN)
        text = self.text[function.start_byte : min(function.end_byte, function.start_byte + 200)]
        if text == "super":
            return self._super(node)
        callee = self.of(function, depth + 1)
        last = text.rpartition(".")[2]
        step = "()"
        if last in WITH_ARGUMENTS or last == "cast":
            step = self._with_arguments(node, last, depth)
        return self.entry(callee, step)

    def _with_arguments(self, node: Node, last: str, depth: int) -> str:
        arguments = node.child_by_field_name("arguments")
        if arguments is None:
            return "()"
        if arguments.type == "generator_expression":
            return f"(={self.of(arguments, depth + 1)}"
        given = [one for one in arguments.named_children if one.type not in {"comment", "dictionary_splat"}]
        if last == "cast":
            return f"(:{self._annotation(given[0])}" if given else "()"
        if last == "TypeVar":
            for one in given:
                named = one.child_by_field_name("name") if one.type == "keyword_argument" else None
                value = one.child_by_field_name("value")
                if named is not None and value is not None and self._cut(named) == "bound":
                    return f"(:{self._annotation(value)}"
            return "()"
        plain = [one for one in given if one.type not in {"keyword_argument", "list_splat"}]
        return "(=" + ";".join(str(self.of(one, depth + 1)) for one in plain[:2]) if plain else "()"

    def _annotation(self, node: Node) -> str:
        if node.end_byte - node.start_byte > MAX_ANNOTATION_BYTES:
            return ""
        return decoded(self.text[node.start_byte : node.end_byte])

    def _cut(self, node: Node) -> str:
        return word(self.text[node.start_byte : node.end_byte])

    def _super(self, node: Node) -> int:
        scopes = self.scopes
        function = scopes.at(node.start_byte)
        while function > 0 and not (scopes.all[function].kind == FUNCTION and scopes.all[function].method_of >= 0):
            function = scopes.all[function].parent
        if function <= 0:
            return self.entry(-1, UNKNOWN)
        owner = scopes.all[function].method_of
        arguments = node.child_by_field_name("arguments")
        given = first_child(arguments) if arguments is not None and arguments.named_child_count else None
        if given is not None:
            written = self.text[given.start_byte : given.end_byte]
            simple = written.rpartition(".")[2] if CHAIN.fullmatch(written) else ""
            if simple not in {scopes.all[owner].name, "__class__"}:
                return self.entry(-1, UNKNOWN)
        letter = "U" if scopes.all[function].level == "i" else "K"
        return self.entry(-1, f"{letter}{owner}")

    def instance(self, node: Node | None) -> int:
        """The entry of an instance of a class, or of one of a tuple of classes."""
        if node is not None and node.type in {"tuple", "parenthesized_expression"}:
            children = node.named_children[:MAX_VALUES]
            return self._union([self.instance(one) for one in children if one.type != "tuple"])
        return self.entry(self.of(node), "()")

    def _union(self, numbers: list[int]) -> int:
        distinct = list(dict.fromkeys(numbers))
        if not distinct:
            return self.entry(-1, UNKNOWN)
        if len(distinct) == 1:
            return distinct[0]
        return self.entry(-1, "|" + ";".join(map(str, distinct)))

    def _of_parenthesized_expression(self, node: Node, depth: int) -> int:
        return self.of(first_child(node), depth)

    def _of_await(self, node: Node, depth: int) -> int:
        return self.of(first_child(node), depth)

    def _of_named_expression(self, node: Node, depth: int) -> int:
        return self.of(node.child_by_field_name("value"), depth)

    def _of_unary_operator(self, node: Node, depth: int) -> int:
        return self.of(node.child_by_field_name("argument"), depth)

    def _of_conditional_expression(self, node: Node, depth: int) -> int:
        children = node.named_children
        if len(children) != 3:
            return self.entry(-1, UNKNOWN)
        return self._union([self.of(children[0], depth), self.of(children[2], depth)])

    def _of_boolean_operator(self, node: Node, depth: int) -> int:
        left = self.of(node.child_by_field_name("left"), depth)
        right = self.of(node.child_by_field_name("right"), depth)
        operator = node.child_by_field_name("operator")
        if operator is not None and self._cut(operator) == "and":
            return right
        return self._union([left, right])

    def _of_binary_operator(self, node: Node, depth: int) -> int:
        operator = node.child_by_field_name("operator")
        method = _OPERATORS.get(self._cut(operator)) if operator is not None else None
        left = self.of(node.child_by_field_name("left"), depth)
        if method is None:
            return self.entry(-1, UNKNOWN)
        return self.entry(self.entry(left, f".{method}"), "()")

    def _of_subscript(self, node: Node, depth: int) -> int:
        base = self.of(node.child_by_field_name("value"), depth)
        index = node.child_by_field_name("subscript")
        if index is not None and index.type == "slice":
            return self.entry(base, "[:]")
        if index is not None and index.type == "integer":
            written = self._cut(index)
            if written.isdigit() and len(written) < 3:
                return self.entry(base, f"[{int(written)}]")
        return self.entry(base, "[]")

    def _several(self, mark: str, nodes: list[Node], depth: int) -> int:
        numbers = [self.of(one, depth) for one in nodes if one.type != "comment"]
        if mark != "(":
            numbers = list(dict.fromkeys(numbers))
        if len(numbers) > MAX_VALUES:
            numbers = [] if mark == "(" else [*numbers[:MAX_VALUES], self.entry(-1, UNKNOWN)]
        return self.entry(-1, mark + ";".join(map(str, numbers)))

    def _of_list(self, node: Node, depth: int) -> int:
        return self._several("[", node.named_children[: MAX_VALUES + 2], depth)

    _of_set = _of_list

    def _of_tuple(self, node: Node, depth: int) -> int:
        return self._several("(", node.named_children[: MAX_VALUES + 2], depth)

    _of_expression_list = _of_tuple

    def _of_dictionary(self, node: Node, depth: int) -> int:
        values = [one.child_by_field_name("value") for one in node.named_children[: MAX_VALUES + 2]]
        return self._several("{", [one for one in values if one is not None], depth)

    def _of_list_comprehension(self, node: Node, depth: int) -> int:
        body = node.child_by_field_name("body")
        return self._several("[", [body] if body is not None else [], depth)

    _of_set_comprehension = _of_list_comprehension
    _of_generator_expression = _of_list_comprehension

    def _of_dictionary_comprehension(self, node: Node, depth: int) -> int:
        body = node.child_by_field_name("body")
        value = body.child_by_field_name("value") if body is not None else None
        return self._several("{", [value] if value is not None else [], depth)

    def _of_lambda(self, node: Node, depth: int) -> int:
        return self.entry(-1, f"\\{self.of(node.child_by_field_name('body'), depth)}")
