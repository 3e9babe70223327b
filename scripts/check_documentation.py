"""Proves that ansible-doc shows every plugin, module and role of the collection, examples included.

Ansible passes over a plugin whose documentation it cannot read; here that is an error.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
COLLECTION = "activemq.fleet"
# Directory below plugins/ -> ansible-doc's type. An action plugin is documented by its module.
TYPES = {
    "filter": "filter",
    "inventory": "inventory",
    "lookup": "lookup",
    "modules": "module",
    "test": "test",
}
WITH_RETURN = ("filter", "lookup", "module", "test")


def main() -> int:
    """Print one line a problem; exit 1 when there is one."""
    documented = documented_plugins()
    problems = [*_plugins(documented), *_roles(documented.get("role", {}))]
    for problem in problems:
        print(f"documentation: error: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _plugins(documented: dict[str, Any]) -> Iterator[str]:
    plugins = [
        (path, kind)
        for directory, kind in TYPES.items()
        for path in sorted((ROOT / "plugins" / directory).glob("*.py"))
        if path.stem != "__init__"
    ]
    if not plugins:
        yield "no plugin was found at all"
    for path, kind in plugins:
        entry = documented.get(kind, {}).get(f"{COLLECTION}.{path.stem}")
        where = path.relative_to(ROOT)
        if entry is None or "doc" not in entry:
            reason = (entry or {}).get("error", "its DOCUMENTATION is missing or cannot be read")
            yield f"{where}: ansible-doc does not show it: {' '.join(reason.split())}"
            continue
        wanted = ("examples", "return") if kind in WITH_RETURN else ("examples",)
        yield from (f"{where}: has no {what.upper()}" for what in wanted if not entry.get(what))
        yield from (f"{where}: option {name} is not described" for name in _silent(entry["doc"].get("options", {})))


def _roles(documented: dict[str, Any]) -> Iterator[str]:
    for path in sorted((ROOT / "roles").iterdir()) if (ROOT / "roles").is_dir() else ():
        entry = documented.get(f"{COLLECTION}.{path.name}")
        if entry is None or "main" not in entry.get("entry_points", {}):
            reason = (entry or {}).get("error", "look at its meta/argument_specs.yml")
            yield f"roles/{path.name}: ansible-doc does not show it: {' '.join(reason.split())}"
            continue
        options = entry["entry_points"]["main"].get("options", {})
        yield from (f"roles/{path.name}: variable {name} is not described" for name in _silent(options))


def _silent(options: dict[str, Any]) -> Iterable[str]:
    return sorted(name for name, option in options.items() if not option.get("description"))


def documented_plugins() -> dict[str, Any]:
    command = [str(Path(sys.executable).with_name("ansible-doc")), "--metadata-dump", "--no-fail-on-errors", COLLECTION]
    ended = subprocess.run(command, cwd=ROOT, env=os.environ, check=False, capture_output=True, text=True)
    if ended.returncode:
        sys.exit(f"documentation: error: {' '.join(ended.stderr.split()) or 'ansible-doc failed'}")
    documented = json.loads(ended.stdout)["all"]
    assert isinstance(documented, dict)  # noqa: S101 -- the shape of ansible-doc's own output
    return documented


if __name__ == "__main__":
    sys.exit(main())
