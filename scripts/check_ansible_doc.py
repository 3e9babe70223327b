"""Check that ansible-doc shows every plugin, module and role of the collection, with examples.

Ansible skips a plugin whose documentation it cannot read; this check reports it as an error.
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
# The type of ansible-doc by directory below plugins/. The documentation of an action plugin is in its module.
TYPES = {
    "filter": "filter",
    "inventory": "inventory",
    "lookup": "lookup",
    "modules": "module",
    "test": "test",
}
WITH_RETURN = ("filter", "lookup", "module", "test")


def main() -> int:
    """Print one line for each problem; exit 1 if one exists."""
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
        yield "the directory plugins contains no plugin"
    for path, kind in plugins:
        entry = documented.get(kind, {}).get(f"{COLLECTION}.{path.stem}")
        where = path.relative_to(ROOT)
        if entry is None or "doc" not in entry:
            reason = (entry or {}).get("error", "its DOCUMENTATION is missing or cannot be read")
            yield f"{where}: ansible-doc does not show the plugin: {' '.join(reason.split())}"
            continue
        required_parts = ("examples", "return") if kind in WITH_RETURN else ("examples",)
        yield from (f"{where}: {part.upper()} is missing" for part in required_parts if not entry.get(part))
        undescribed = _undescribed_options(entry["doc"].get("options", {}))
        yield from (f"{where}: option {name} has no description" for name in undescribed)


def _roles(documented: dict[str, Any]) -> Iterator[str]:
    for path in sorted((ROOT / "roles").iterdir()) if (ROOT / "roles").is_dir() else ():
        entry = documented.get(f"{COLLECTION}.{path.name}")
        if entry is None or "main" not in entry.get("entry_points", {}):
            reason = (entry or {}).get("error", "correct its meta/argument_specs.yml")
            yield f"roles/{path.name}: ansible-doc does not show the role: {' '.join(reason.split())}"
            continue
        options = entry["entry_points"]["main"].get("options", {})
        yield from (f"roles/{path.name}: variable {name} has no description" for name in _undescribed_options(options))


def _undescribed_options(options: dict[str, Any]) -> Iterable[str]:
    return sorted(name for name, option in options.items() if not option.get("description"))


def documented_plugins() -> dict[str, Any]:
    """Return the documentation of the collection by type and name, as ``ansible-doc --metadata-dump`` prints it."""
    command = [str(Path(sys.executable).with_name("ansible-doc")), "--metadata-dump", "--no-fail-on-errors", COLLECTION]
    process = subprocess.run(command, cwd=ROOT, env=os.environ, check=False, capture_output=True, text=True)
    if process.returncode:
        sys.exit(f"documentation: error: {' '.join(process.stderr.split()) or 'ansible-doc failed'}")
    documented = json.loads(process.stdout)["all"]
    assert isinstance(documented, dict)  # noqa: S101 -- the format of the output of ansible-doc
    return documented


if __name__ == "__main__":
    sys.exit(main())
