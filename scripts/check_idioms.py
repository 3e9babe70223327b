"""Find names and idioms that are hard to read: a local named ``found``, ``text * bool(flag)``.

    python -m scripts.check_idioms [DIRECTORY]

The name of a local or a parameter is a noun for its value: ``broker``, ``settings``, ``findings``. A condition is an
``if``, a function returns the list that it fills, and a comprehension contains no ``next``. Fields of classes are not
checked, because they are public names, keys or columns.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHECKED = ("agent/src", "benchmarks", "examples", "molecule", "plugins", "scripts", "src", "tests")
"""Directories whose Python files are checked."""
EMPTY_NAMES = frozenset({"found", "mine", "one", "own", "said", "told"})
"""Names that do not describe the content of a variable."""
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one line for each problem; exit 1 if one exists."""
    names = arguments if arguments is not None else sys.argv[1:]
    problems = find_problems(Path(names[0])) if names else find_problems(ROOT, CHECKED)
    for problem in problems:
        print(f"idioms: error: {problem}", file=sys.stderr)
    return 1 if problems else 0


def find_problems(directory: Path, checked: Sequence[str] = (".",)) -> list[str]:
    """Return ``FILE:LINE: message`` for each problem of the Python files below directories, in order of files."""
    problems: list[str] = []
    for path in _python_files(directory, checked):
        name = str(path.relative_to(directory))
        lines = sorted(set(_problems(ast.parse(path.read_bytes(), name))))
        problems += [f"{name}:{line}: {message}" for line, message in lines]
    return problems


def _python_files(directory: Path, checked: Sequence[str]) -> list[Path]:
    """Return the files to check, without symbolic links, whose targets are checked in their directories."""
    return sorted(path for name in checked for path in (directory / name).rglob("*.py") if not path.is_symlink())


def _problems(tree: ast.Module) -> Iterator[tuple[int, str]]:
    public = {id(target) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for target in _class_fields(node)}
    for node in ast.walk(tree):
        for line, name in _bound_names(node) if id(node) not in public else ():
            if name in EMPTY_NAMES:
                yield line, f"the name {name} does not describe its value: write a noun, such as broker or finding"
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            if _is_condition(node.left) or _is_condition(node.right):
                yield node.lineno, f"{ast.unparse(node)} multiplies by a condition: write A if CONDITION else B"
        elif isinstance(node, ast.Subscript) and _is_condition(node.slice):
            yield node.lineno, f"{ast.unparse(node)} selects by a condition: write A if CONDITION else B"
        elif isinstance(node, _COMPREHENSIONS):
            for call in ast.walk(node):
                if isinstance(call, ast.Call) and _advances_iterator(call):
                    yield call.lineno, f"{ast.unparse(call)} in a comprehension hides a loop: write the loop, or zip"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for name in sorted(_filled_parameters(node)):
                yield node.lineno, f"{node.name} appends to its parameter {name}: return the list"


def _class_fields(node: ast.ClassDef) -> Iterator[ast.expr]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign):
            yield statement.target
        elif isinstance(statement, ast.Assign):
            yield from statement.targets


def _bound_names(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each variable that a node binds, without its children."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.lineno, node.id
    elif isinstance(node, ast.arg):
        yield node.lineno, node.arg
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        yield node.lineno, node.name


def _is_condition(node: ast.expr) -> bool:
    """Return whether an expression is a comparison, a negation or a call of ``bool``."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "bool"
    return isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))


def _advances_iterator(call: ast.Call) -> bool:
    """Return whether a call is ``next(name)``, which changes the state of an iterator."""
    return ast.unparse(call.func) == "next" and bool(call.args) and isinstance(call.args[0], ast.Name)


def _filled_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the parameters annotated as a list to which the function appends."""
    lists = {
        parameter.arg
        for parameter in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        if parameter.annotation is not None and ast.unparse(parameter.annotation).startswith(("list[", "List["))
    }
    return lists & {
        node.func.value.id
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("append", "extend", "insert")
        and isinstance(node.func.value, ast.Name)
    }


if __name__ == "__main__":
    sys.exit(main())
