"""What `isinstance` says of a variable: inside of the branch it guards, and after a guard that leaves."""

from __future__ import annotations

from tree_sitter import Node

from knowingd.extract.python.scopes import Binding, Scopes
from knowingd.extract.python.syntax import first_child, word

_LEAVES = frozenset({"return_statement", "raise_statement", "continue_statement", "break_statement"})


def narrow(scopes: Scopes) -> None:
    """Enter a binding of kind `n` for each variable that a condition tests."""
    touched: list[list[Binding]] = []
    for node in scopes.captures.get("if", ()):
        _test(scopes, node, node.end_byte, touched)
        for other in node.children_by_field_name("alternative"):
            if other.type == "elif_clause":
                _test(scopes, other, other.end_byte, touched)
    for node in scopes.captures.get("assert", ()):
        first = first_child(node)
        if first is not None:
            scope = scopes.all[scopes.at(node.start_byte)]
            for one in _tests(first):
                _enter(scopes, one, node.end_byte, scope.end, touched)
    for bindings in touched:
        bindings.sort(key=lambda one: one.position)


def _test(scopes: Scopes, node: Node, after: int, touched: list[list[Binding]]) -> None:
    """What the condition of an `if` or `elif` says."""
    condition = node.child_by_field_name("condition")
    body = node.child_by_field_name("consequence")
    if condition is None or body is None:
        return
    start = condition.start_byte
    if "isinstance(" not in scopes.source.text[start : min(condition.end_byte, start + 300)]:
        return
    if condition.type != "not_operator":
        for one in _tests(condition):
            _enter(scopes, one, body.start_byte, body.end_byte, touched)
        return
    last = body.named_child(body.named_child_count - 1) if body.named_child_count else None
    if last is not None and last.type in _LEAVES and node.type == "if_statement":
        scope = scopes.all[scopes.at(start)]
        _enter(scopes, condition.child_by_field_name("argument"), after, scope.end, touched)


def _tests(condition: Node) -> list[Node]:
    """The parts of a condition that all hold."""
    found: list[Node] = []
    current: Node | None = condition
    for _ in range(8):
        if current is not None and current.type == "parenthesized_expression":
            current = first_child(current)
        if current is None or current.type != "boolean_operator":
            break
        operator = current.child_by_field_name("operator")
        if operator is None or operator.type != "and":
            return []
        right = current.child_by_field_name("right")
        if right is not None:
            found.append(right)
        current = current.child_by_field_name("left")
    if current is not None:
        found.append(current)
    return found


def _enter(scopes: Scopes, test: Node | None, start: int, end: int, touched: list[list[Binding]]) -> None:
    if test is None or test.type != "call":
        return
    text = scopes.source.text
    function, arguments = test.child_by_field_name("function"), test.child_by_field_name("arguments")
    if function is None or arguments is None or text[function.start_byte : function.end_byte] != "isinstance":
        return
    given = arguments.named_children
    if len(given) != 2 or given[0].type != "identifier":
        return
    name = word(text[given[0].start_byte : given[0].end_byte])
    scope = scopes.at(test.start_byte)
    bindings = scopes.all[scope].bindings.get(name)
    if bindings is not None and scope and scopes.home(scope, name) == scope:
        bindings.append(Binding(start, "n", node=given[1], ends=end))
        touched.append(bindings)
