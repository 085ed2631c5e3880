"""Every statement of a file that binds a name, entered into its scopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tree_sitter import Node

from knowingd.extract.limits import MAX_DEPTH
from knowingd.extract.python.scopes import CLASS, FUNCTION, INNER, Binding, Scopes, annotation_text, bind_parameters
from knowingd.extract.python.syntax import first_child, word

_PATTERNS: Final = frozenset({"pattern_list", "tuple_pattern", "list_pattern", "tuple", "list", "expression_list"})


class Import(NamedTuple):
    """One imported module, or one name out of it, and where it is written."""

    scope: int
    level: int
    module: str
    name: str  # empty for the module itself, `*` for all of its names
    position: int
    bound: str  # the name that it binds, empty for `*`


class Binder:
    """Enters bindings; afterwards `imports` and `stars` hold the import statements."""

    def __init__(self, scopes: Scopes) -> None:
        self.scopes = scopes
        self.text = scopes.source.text
        self.imports: list[Import] = []
        self.exported: list[Node] = []  # values assigned or added to __all__
        captures = scopes.captures
        for node in captures.get("outer", ()):
            self._outer(node)
        bind_parameters(scopes)
        for number, scope in enumerate(scopes.all):
            if scope.kind in {CLASS, FUNCTION}:
                kind = "c" if scope.kind == CLASS else "d"
                scopes.bind(self._where(scope.parent), scope.name, Binding(scope.start, kind, number=number))
        for node in captures.get("import", ()):
            self._import(node)
        for node in captures.get("assignment", ()):
            self._assignment(node)
        actions: dict[str, Callable[[Node], None]] = {
            "for_statement": self._loop,
            "for_in_clause": self._loop,
            "named_expression": self._named,
            "as_pattern": self._as_pattern,
            "augmented_assignment": self._augmented,
            "case_pattern": self._case,
            "type_alias_statement": self._type_alias,
            "except_clause": self._old_except,
        }
        for node in captures.get("binding", ()):
            action = actions.get(node.type)
            if action is not None:
                action(node)
        for scope in scopes.all:
            for found in scope.bindings.values():
                if len(found) > 1:
                    found.sort(key=lambda one: one.position)

    def _where(self, scope: int) -> int:
        """A definition or assignment inside of a comprehension's region (a walrus) belongs to what is around it."""
        while self.scopes.all[scope].kind == INNER:
            scope = self.scopes.all[scope].parent
        return scope

    def _cut(self, node: Node) -> str:
        return word(self.text[node.start_byte : node.end_byte])

    def _outer(self, node: Node) -> None:
        everywhere = node.type == "global_statement"
        scope = self.scopes.all[self.scopes.at(node.start_byte)]
        for child in node.named_children:
            scope.elsewhere[self._cut(child)] = everywhere

    def _bind(self, scope: int, target: Node | None, binding: Binding, depth: int = 0) -> None:
        """Bind what stands at the left of an assignment, `for`, `with` or `as`."""
        if target is None or depth > MAX_DEPTH:
            return
        kind = target.type
        if kind == "identifier":
            name = self._cut(target)
            self.scopes.bind(scope, name, binding)
            if name == "__all__" and scope == 0 and binding.node is not None:
                self.exported.append(binding.node)
        elif kind == "attribute":
            self._bind_attribute(scope, target, binding)
        elif kind in _PATTERNS:
            starred = False
            for index, child in enumerate(target.named_children):
                starred = starred or child.type == "list_splat_pattern"
                op = "*" if starred or binding.node is None else f"[{index}]"
                self._bind(scope, child, binding._replace(ops=(*binding.ops, op)), depth + 1)
        elif kind in {"list_splat_pattern", "parenthesized_expression", "as_pattern_target"}:
            inside = first_child(target)
            unknown = kind == "list_splat_pattern"
            self._bind(scope, inside, Binding(binding.position, "?") if unknown else binding, depth + 1)

    def _bind_attribute(self, scope: int, target: Node, binding: Binding) -> None:
        """`self.x = …` in a method declares an attribute of its class."""
        owner = target.child_by_field_name("object")
        named = target.child_by_field_name("attribute")
        if owner is None or named is None or owner.type != "identifier":
            return
        name = self._cut(owner)
        home = self.scopes.all[self.scopes.home(scope, name)]
        if home.method_of >= 0 and home.level in {"i", "k"} and home.first == name:
            attributes = self.scopes.all[home.method_of].attributes
            if not self._cut(named):
                return
            attributes.setdefault(self._cut(named), []).append((scope, binding))

    def _assignment(self, node: Node) -> None:
        scope = self._where(self.scopes.at(node.start_byte))
        left = node.child_by_field_name("left")
        right = node.child_by_field_name("right")
        annotation = annotation_text(self.scopes.source, node.child_by_field_name("type"))
        while right is not None and right.type == "assignment":  # a = b = value
            right = right.child_by_field_name("right")
        position = node.end_byte
        if annotation is not None:
            self._bind(scope, left, Binding(position, ":", node=right, text=annotation, number=scope))
        elif right is not None:
            self._bind(scope, left, Binding(position, "=", node=right))

    def _augmented(self, node: Node) -> None:
        left = node.child_by_field_name("left")
        if left is None or left.type != "identifier":
            return
        scope = self._where(self.scopes.at(node.start_byte))
        name = self._cut(left)
        if name == "__all__" and scope == 0:
            right = node.child_by_field_name("right")
            if right is not None:
                self.exported.append(right)
        elif name not in self.scopes.all[scope].bindings:
            self.scopes.bind(scope, name, Binding(node.end_byte, "?"))

    def _loop(self, node: Node) -> None:
        comprehension = node.type == "for_in_clause"
        scope = self.scopes.at(node.start_byte)
        right = node.child_by_field_name("right")
        op = "*~" if self.text.startswith("async", node.start_byte) else "*"
        if right is not None:
            position = 0 if comprehension else right.end_byte
            binding = Binding(position, "=", node=right, ops=(op,))
            self._bind(scope, node.child_by_field_name("left"), binding)

    def _named(self, node: Node) -> None:
        value = node.child_by_field_name("value")
        scope = self._where(self.scopes.at(node.start_byte))
        self._bind(scope, node.child_by_field_name("name"), Binding(node.end_byte, "=", node=value))

    def _as_pattern(self, node: Node) -> None:
        """`with value as target`, `except type as target`, and `case pattern as target`."""
        value = first_child(node)
        target = node.child_by_field_name("alias")
        parent = node.parent
        if value is None or target is None or parent is None:
            return
        scope = self.scopes.at(node.start_byte)
        position = node.end_byte
        if parent.type == "with_item":
            statement = parent.parent.parent if parent.parent is not None else None
            asynchronous = statement is not None and self.text.startswith("async", statement.start_byte)
            binding = Binding(position, "=", node=value, ops=("^~" if asynchronous else "^",))
        elif parent.type in {"except_clause", "except_group_clause"}:
            grouped = parent.type == "except_group_clause"
            binding = Binding(position, "?") if grouped else Binding(position, "e", node=value)
        else:
            binding = Binding(position, "?")
        self._bind(scope, target, binding)

    def _old_except(self, node: Node) -> None:
        """`except type, name`, as Python 2 has it."""
        children = node.named_children
        if len(children) > 2 and children[1].type == "identifier":
            self._bind(self.scopes.at(node.start_byte), children[1], Binding(children[1].end_byte, "e", children[0]))

    def _case(self, node: Node) -> None:
        """Names in patterns are bound to parts of the subject, which nothing is known of."""
        scope = self.scopes.at(node.start_byte)
        todo = [node]
        for _ in range(1000):
            if not todo:
                return
            current = todo.pop()
            for child in current.named_children:
                if child.type == "dotted_name":
                    if child.named_child_count == 1:
                        self.scopes.bind(scope, self._cut(child), Binding(node.start_byte, "?"))
                elif child.type == "identifier":
                    self.scopes.bind(scope, self._cut(child), Binding(node.start_byte, "?"))
                elif child.type not in {"class_pattern", "case_pattern"}:
                    todo.append(child)

    def _type_alias(self, node: Node) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is not None and right is not None and left.named_child_count:
            named = first_child(left)
            if named is not None and named.type == "identifier":
                self._bind(self.scopes.at(node.start_byte), named, Binding(node.end_byte, "=", node=right))

    def _import(self, node: Node) -> None:
        scope = self._where(self.scopes.at(node.start_byte))
        kind = node.type
        if kind == "import_statement":
            for child in node.named_children:
                self._import_module(scope, child)
            return
        module_node = node.child_by_field_name("module_name")
        level, module, position = 0, "__future__", node.start_byte
        if kind == "import_from_statement":
            if module_node is None:
                return
            written = self.text[module_node.start_byte : module_node.end_byte]
            dots = len(written) - len(written.lstrip(". \t\\\r\n"))
            level = written.count(".", 0, dots)
            module, position = self._dotted(written[dots:]), module_node.start_byte
        self.imports.append(Import(scope, level, module, "", position, ""))
        names = node.children_by_field_name("name")
        if not names and any(child.type == "wildcard_import" for child in node.named_children):
            self.imports.append(Import(scope, level, module, "*", node.end_byte - 1, ""))
        for child in names:
            named, alias = child, child
            if child.type == "aliased_import":
                named = child.child_by_field_name("name") or child
                alias = child.child_by_field_name("alias") or child
            name, bound = self._cut(named), self._cut(alias)
            self.imports.append(Import(scope, level, module, name, named.start_byte, bound))
            binding = Binding(node.start_byte, "i", text=module, more=name, number=level)
            self.scopes.bind(scope, bound, binding)

    def _import_module(self, scope: int, child: Node) -> None:
        named, alias = child, None
        if child.type == "aliased_import":
            named = child.child_by_field_name("name") or child
            alias = child.child_by_field_name("alias")
        elif child.type != "dotted_name":
            return
        module = self._dotted(self.text[named.start_byte : named.end_byte])
        if not module:
            return
        bound = self._cut(alias) if alias is not None else module.partition(".")[0]
        self.imports.append(Import(scope, 0, module, "", named.start_byte, bound))
        whole = module if alias is not None else bound
        self.scopes.bind(scope, bound, Binding(child.start_byte, "i", text=whole))

    def _dotted(self, written: str) -> str:
        return ".".join(word(part.strip(" \t\\\r\n")) for part in written.split(".")) if written.strip() else ""
