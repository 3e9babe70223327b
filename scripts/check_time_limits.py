"""Find tests that compare a duration with a constant, because they fail on a busy machine.

    python -m scripts.check_time_limits [DIRECTORY ...]

A test counts work, compares how work grows between two sizes, or waits with ``tests.waiting.wait_until``. The check
follows clock readings through assignments, arithmetic, comprehensions and functions of the tests that return them. It
reports an ordering comparison, or ``pytest.approx``, of a duration with anything but another duration. It allows the
condition of a ``while`` loop, an ``if`` statement that leaves a loop, and one that raises an error whose name has
``Late`` or ``Timeout`` in it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[1]
Kind = Literal["moment", "deadline", "duration"]
CLOCKS = frozenset(
    f"{name}{suffix}"
    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime")
    for suffix in ("", "_ns")
)
"""Functions of the module ``time`` that return a clock reading."""
LATE = re.compile("Late|Timeout")
"""The names of errors that end a wait because it timed out contain one of these words."""
_SAME_KIND = frozenset({"abs", "float", "int", "max", "mean", "median", "min", "round", "sorted", "sum"})
_ORDERING = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one line for each comparison of a duration with a constant; exit 1 if one exists."""
    names = arguments if arguments is not None else sys.argv[1:]
    problems = find_comparisons([Path(name) for name in names] or [ROOT / "tests"])
    for problem in problems:
        print(f"time limits: error: {problem}", file=sys.stderr)
    return 1 if problems else 0


def find_comparisons(directories: Sequence[Path]) -> list[str]:
    """Return ``FILE:LINE: message`` for each comparison of a duration with a constant in Python files below."""
    paths = sorted(path for directory in directories for path in directory.rglob("*.py"))
    trees = {path: ast.parse(path.read_bytes(), str(path)) for path in paths}
    functions = _measuring_functions([*trees.values()])
    return [
        f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{line}: the test compares a duration with a "
        "constant, and fails on a busy machine. Count work or compare growth (tests/work.py), or wait with "
        "tests.waiting.wait_until"
        for path, tree in trees.items()
        if _names_in(tree) & (CLOCKS | functions.keys())
        for line in sorted(_comparisons(tree, functions))
    ]


def _measuring_functions(trees: Sequence[ast.Module]) -> dict[str, Kind]:
    """Return the kinds of the values that functions, methods and fixtures of the tests return, by name."""
    functions: dict[str, Kind] = {}
    definitions = [
        (node, _names_in(node)) for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
    ]
    while True:
        before = len(functions)
        for definition, names in definitions:
            if not names & (CLOCKS | functions.keys()):
                continue
            scope = _Scope(functions)
            scope.read(definition.body)
            kinds = [scope.kind(node.value) for node in _nodes_of_body(definition) if isinstance(node, ast.Return)]
            kind = next((kind for kind in kinds if kind), None)
            if kind:
                functions[definition.name] = kind
        if len(functions) == before:
            return functions


def _names_in(tree: ast.AST) -> set[str]:
    """Return every name that a part of a module mentions: variables, attributes, imports and parameters."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                names.add(name)
    return names


def _comparisons(tree: ast.Module, functions: dict[str, Kind]) -> Iterator[int]:
    module = _Scope(functions)
    module.read(tree.body)
    yield from _comparisons_in_body(tree, module)


def _comparisons_in_body(body: ast.AST, scope: _Scope) -> Iterator[int]:
    allowed: set[int] = set()
    for node in _nodes_of_body(body):
        if isinstance(node, ast.While):
            allowed |= {id(part) for part in ast.walk(node.test)}
        if isinstance(node, ast.If) and _raises_late_error(node):
            allowed |= {id(part) for part in ast.walk(node.test)}
        if isinstance(node, (ast.While, ast.For)):
            exits = (part for part in _nodes_of_body(node) if isinstance(part, ast.If) and _leaves_loop(part, node))
            allowed |= {id(part) for leaving in exits for part in ast.walk(leaving.test)}
        if isinstance(node, ast.Compare) and id(node) not in allowed and scope.is_limit(node):
            yield node.lineno
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and node is not body:
            inner = _Scope(scope.functions, dict(scope.names))
            inner.read(node.body if isinstance(node.body, list) else [])
            yield from _comparisons_in_body(node, inner)


def _leaves_loop(statement: ast.If, loop: ast.While | ast.For) -> bool:
    match statement.body[-1]:
        case ast.Return() | ast.Break() | ast.Continue() | ast.Raise(exc=None):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]) if isinstance(loop, ast.While):
            return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(loop.test))
    return False


def _raises_late_error(statement: ast.If) -> bool:
    match statement.body[-1]:
        case ast.Raise(exc=ast.expr() as raised):
            error = raised.func if isinstance(raised, ast.Call) else raised
            return LATE.search(ast.unparse(error)) is not None
    return False


def _nodes_of_body(body: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below a definition, outer nodes first, without the bodies of nested definitions."""
    for child in ast.iter_child_nodes(body):
        yield child
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from _nodes_of_body(child)


@dataclass
class _Scope:
    """The names in a function whose values depend on clock readings; it determines the kind of an expression."""

    functions: dict[str, Kind]
    names: dict[str, Kind] = field(default_factory=dict)

    def read(self, body: Sequence[ast.stmt]) -> None:
        """Record the kind of each name that is assigned in a body; twice, because of loops."""
        for _ in range(2):
            for statement in body:
                for node in (statement, *_nodes_of_body(statement)):
                    self._assign(node)

    def _assign(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
                self._bind(target, value)
            case ast.AugAssign(target=ast.Name(id=name), value=value) if kind := self.kind(value):
                self.names.setdefault(name, kind)
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                self._bind(target, value)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "add"), args=[value]):
                if kind := self.kind(value):
                    self.names.setdefault(name, kind)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for element, element_value in zip(target.elts, value.elts, strict=True):
                self._bind(element, element_value)
        elif isinstance(target, ast.Tuple):
            for element in target.elts:
                self._bind(element, value)
        elif isinstance(target, ast.Name) and (kind := self.kind(value)):
            self.names[target.id] = kind

    def kind(self, node: ast.AST | None) -> Kind | None:
        """Return the kind of an expression: a clock reading, a clock reading plus a constant, a duration, or None."""
        match node:
            case ast.Name(id=name):
                return self.names.get(name)
            case ast.Call():
                return self._kind_of_call(node)
            case ast.BinOp():
                return self._kind_of_operation(node)
            case ast.UnaryOp(operand=inner) | ast.Subscript(value=inner) | ast.Starred(value=inner):
                return self.kind(inner)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return next(filter(None, map(self.kind, parts)), None)
            case ast.GeneratorExp(elt=inner) | ast.ListComp(elt=inner) | ast.SetComp(elt=inner):
                scope = _Scope(self.functions, dict(self.names))
                for generator in node.generators:
                    scope._assign(generator)
                return scope.kind(inner)
            case ast.IfExp(body=first, orelse=second):
                return self.kind(first) or self.kind(second)
        return None

    def _kind_of_call(self, node: ast.Call) -> Kind | None:
        name = ast.unparse(node.func).rpartition(".")[2]
        if name in CLOCKS and not (isinstance(node.func, ast.Attribute) and "time" not in ast.unparse(node.func.value)):
            return "moment"
        if name in {"timeit", "repeat", "getrusage", "total_seconds"} and isinstance(node.func, ast.Attribute):
            return "duration" if name != "repeat" or "timeit" in ast.unparse(node.func) else None
        if name in _SAME_KIND:
            return next(filter(None, map(self.kind, node.args)), None)
        return self.functions.get(name)

    def _kind_of_operation(self, node: ast.BinOp) -> Kind | None:
        left, right = self.kind(node.left), self.kind(node.right)
        if not left and not right:
            return None
        match node.op:
            case ast.Div() | ast.FloorDiv():
                return None if left == right == "duration" else "duration" if "duration" in (left, right) else left
            case ast.Sub() if left in ("moment", "deadline") and not right:
                return "deadline" if _is_constant(node.right) else "duration"
            case ast.Sub() if right in ("moment", "deadline"):
                return "duration"
            case ast.Add() if "moment" in (left, right):
                return "deadline"
        return left or right

    def is_limit(self, node: ast.Compare) -> bool:
        """Return whether a comparison compares a duration with anything but another duration."""
        sides = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
            approximate = [side for side in (left, right) if _is_approximation(side) and self._holds_clock(side)]
            if approximate:
                return True
            if not isinstance(operator, _ORDERING):
                continue
            kinds = {self.kind(left), self.kind(right)}
            if "duration" in kinds and (None in kinds or self._adds_constant(left) or self._adds_constant(right)):
                return True
            if kinds == {"moment", "deadline"}:
                return True
        return False

    def _holds_clock(self, node: ast.expr) -> bool:
        return any(self.kind(part) for part in ast.walk(node))

    def _adds_constant(self, node: ast.expr) -> bool:
        return (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, (ast.Add, ast.Sub))
            and not (self.kind(node.left) and self.kind(node.right))
        )


def _is_constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id.isupper())


def _is_approximation(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in {"approx", "isclose"}


if __name__ == "__main__":
    sys.exit(main())
