"""Check the English of documentation, rules, help texts, alerts, tasks, error messages, docstrings and comments.

    python -m scripts.check_prose

It reports banned phrases, each with its replacement, and sentences that are too long. Only prose is checked: code
blocks, code spans and link targets are not. Messages are the strings that a ``raise`` statement contains.
Docstrings and comments are those of all Python files, also of tests; further phrases are banned there.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
MAX_WORDS = 45
"""The style recommends about 25 words per sentence; a sentence above this limit is an error."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """A banned phrase, what to write in its place, and phrases that contain it and are allowed."""

    pattern: str
    replacement: str
    allowed: str = r"(?!)"


PHRASES = (
    Phrase(r"\bthe way back\b", "rollback"),
    Phrase(r"\b(?:puts?|putting|takes?|taking|taken) (?:it |them )?back\b", "roll back, restore"),
    Phrase(r"\bby (?:itself|themselves)\b", "automatically, by default, alone"),
    Phrase(r"\b(?:anew|afresh)\b", "again"),
    Phrase(r"\blets? (?:in|nobody)\b", "accepts, rejects"),
    Phrase(r"\b(?:whoever|nobody|somebody|someone else)\b", "the name of the actor"),
    Phrase(r"\bbeside\b", "next to, in addition to"),
    Phrase(r"\bfor (?:good|ever)\b", "permanently, indefinitely", r"\bfor good (?:reason|measure)"),
)
DOCSTRING_PHRASES = (
    Phrase(r"\b(?:says?|said|tells?|told)\b", "report, print, show, contain, distinguish"),
    Phrase(r"\b(?:asks?|asked|asking)\b", "query, request, call, require"),
    Phrase(r"\b(?:stands?|stood)\b", "is, is located, represents, matches"),
    Phrase(r"\b(?:looks?|looked|looking)\b", "check, search, read", r"look(?:s|ed|ing)? up\b"),
    Phrase(r"\bof (?:its|their) own\b", "separate"),
    Phrase(r"\banybody\b", "the name of the actor"),
)
_EXAMPLES_OF_RULE = re.compile(r"^(?:Fires|Silent) on .*", re.MULTILINE | re.DOTALL)
_LITERAL_BLOCK = re.compile(r"^ {4}.*$", re.MULTILINE)
"""A line of a table of files or commands in a docstring."""
_ANSIBLE_MARKUP = re.compile(r"\b[A-Z]+\([^()]*\)")
_PYTHON = ("agent/src", "benchmarks", "examples", "molecule", "plugins", "scripts", "src", "tests")
_CODE = re.compile(r"^(```|~~~).*?^\1[ \t]*$|``.*?``|`[^`\n]*`|<[^>\n]+>|\]\([^)\s]*\)", re.MULTILINE | re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.:;?!])\s+(?=[^a-z])|\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.))|\s\|\s|\|\n")


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of prose, and where it begins."""

    path: str
    line: int
    prose: str
    phrases: tuple[Phrase, ...] = PHRASES
    """The phrases that are banned in it."""


def main() -> int:
    """Print one line per problem; exit 1 if there is one."""
    problems = [problem for text in texts() for problem in problems_of(text)]
    for problem in problems:
        print(f"prose: error: {problem}", file=sys.stderr)
    return 1 if problems else 0


def problems_of(text: Text) -> Iterator[str]:
    """Yield one message per banned phrase and per sentence that is too long."""
    prose = _CODE.sub(_blank, text.prose)
    for phrase in text.phrases:
        for match in re.finditer(_across_lines(phrase.pattern), prose, re.IGNORECASE):
            if not re.match(_across_lines(phrase.allowed), prose[match.start() :], re.IGNORECASE):
                line = text.line + prose.count("\n", 0, match.start())
                yield f'{text.path}:{line}: "{" ".join(match[0].split())}": write {phrase.replacement}'
    position = 0
    for sentence in _SENTENCE_END.split(prose):
        position = prose.index(sentence, position)
        words = len(sentence.split())
        if words > MAX_WORDS:
            line = text.line + prose.count("\n", 0, position)
            yield f"{text.path}:{line}: a sentence has {words} words: split it, {MAX_WORDS} at most"
        position += len(sentence)


def texts() -> Iterator[Text]:
    """Yield all prose that users and readers of code read, such as pages, help texts, messages and docstrings."""
    pages = [
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "examples").glob("*/README.md")),
    ]
    yield from (Text(_relative(page), 1, page.read_text(encoding="utf-8")) for page in pages)
    yield from _role_texts()
    yield from _task_texts()
    yield from _plugin_texts()
    yield from _message_texts()
    yield from _alert_texts()
    yield from _help_texts()
    for path in sorted(path for directory in _PYTHON for path in (ROOT / directory).rglob("*.py")):
        content = path.read_text(encoding="utf-8")
        yield from docstrings_of(ast.parse(content), _relative(path))
        yield from comments_of(content, _relative(path))


def _role_texts() -> Iterator[Text]:
    for path in sorted((ROOT / "roles").glob("*/meta/argument_specs.yml")):
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values():
            yield from (Text(_relative(path), 1, description) for description in _descriptions(entry))


def _task_texts() -> Iterator[Text]:
    """Yield the names of plays and tasks, and the messages of ``fail``, ``assert`` and ``debug``."""
    pattern = re.compile(r"^[ -]*(?:name|msg|fail_msg|success_msg): *(?:>-\n((?: {4,}.*\n)+)|(.+))", re.MULTILINE)
    for path in (*sorted((ROOT / "playbooks").rglob("*.yml")), *sorted((ROOT / "roles").glob("*/tasks/*.yml"))):
        content = path.read_text(encoding="utf-8")
        for match in pattern.finditer(content):
            prose = re.sub(r"\{\{.*?\}\}", "Code", match[1] or match[2], flags=re.DOTALL)
            yield Text(_relative(path), content.count("\n", 0, match.start()) + 1, prose)


def _plugin_texts() -> Iterator[Text]:
    """Yield the descriptions in the documentation of modules and plugins."""
    for path in sorted((ROOT / "plugins").glob("*/*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            match node:
                case ast.Assign(
                    targets=[ast.Name(id="DOCUMENTATION" | "RETURN")], value=ast.Constant(value=str() as content)
                ):
                    texts = _described(yaml.safe_load(content))
                    phrases = PHRASES + DOCSTRING_PHRASES
                    prose = (_ANSIBLE_MARKUP.sub("Code", text) for text in texts)
                    yield from (Text(_relative(path), node.lineno, text, phrases) for text in prose)


def _described(documentation: object) -> Iterator[str]:
    """Yield each ``description``, ``short_description`` and ``notes`` at any depth of a documentation block."""
    if isinstance(documentation, dict):
        for key, value in documentation.items():
            if key in ("description", "short_description", "notes") and isinstance(value, str):
                yield value
            elif key in ("description", "notes") and isinstance(value, list):
                yield from _strings(value)
            else:
                yield from _described(value)


def _message_texts() -> Iterator[Text]:
    """Yield the strings of ``raise`` statements in code for hosts, of agents and of operations."""
    directories = ("plugins", "agent/src", "src/activemq_fleet/operations")
    for path in sorted(path for directory in directories for path in (ROOT / directory).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and node.exc:
                yield from messages_of(node.exc, _relative(path))


def messages_of(raised: ast.expr, path: str) -> Iterator[Text]:
    """Yield the strings in the expression of a ``raise`` statement; a replaced field is shown as code."""
    match raised:
        case ast.JoinedStr(values=values):
            parts = [str(part.value) if isinstance(part, ast.Constant) else "Code" for part in values]
            yield Text(path, raised.lineno, "".join(parts))
        case ast.Constant(value=str() as text):
            yield Text(path, raised.lineno, text)
        case _:
            for child in ast.iter_child_nodes(raised):
                if isinstance(child, ast.expr):
                    yield from messages_of(child, path)


def docstrings_of(tree: ast.Module, path: str) -> Iterator[Text]:
    """Yield the docstrings of a module and of its classes, functions and constants, private ones too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:
                match statement:
                    case ast.Expr(value=ast.Constant(value=str() as docstring)):
                        prose = _LITERAL_BLOCK.sub("", _EXAMPLES_OF_RULE.sub("", inspect.cleandoc(docstring)))
                        yield Text(path, statement.lineno, prose, PHRASES + DOCSTRING_PHRASES)


def comments_of(content: str, path: str) -> Iterator[Text]:
    """Yield the comments of a Python file; comments on lines that follow each other are one text."""
    comments: list[str] = []
    begin = 0
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        if token.type == tokenize.COMMENT:
            if comments and token.start[0] != begin + len(comments):
                yield Text(path, begin, "\n".join(comments), PHRASES + DOCSTRING_PHRASES)
                comments = []
            begin = begin if comments else token.start[0]
            comments.append(token.string)
    if comments:
        yield Text(path, begin, "\n".join(comments), PHRASES + DOCSTRING_PHRASES)


def _descriptions(entry: dict[str, object]) -> Iterator[str]:
    description = entry.get("description", [])
    yield from [description] if isinstance(description, str) else _strings(description)
    options = entry.get("options")
    if isinstance(options, dict):
        for option in options.values():
            yield from _descriptions(option)


def _strings(texts: object) -> Iterator[str]:
    if isinstance(texts, list):
        yield from (str(text) for text in texts)


def _alert_texts() -> Iterator[Text]:
    path = ROOT / "src" / "activemq_fleet" / "render" / "monitoring" / "alerts.toml"
    for alert in tomllib.loads(path.read_text(encoding="utf-8"))["alerts"]:
        yield from (Text(_relative(path), 1, alert[key]) for key in ("summary", "meaning", "todo"))


def _help_texts() -> Iterable[Text]:
    from scripts.docsite.command_pages import command_line_page

    yield Text("help of commands (src/activemq_fleet/cli)", 1, command_line_page())


def _across_lines(pattern: str) -> str:
    """Return a pattern of a phrase that also matches where a line ends between two words."""
    return pattern.replace(" ", r"\s+")


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0]) if "\n" in match[0] else "Code"


def _relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


if __name__ == "__main__":
    sys.exit(main())
