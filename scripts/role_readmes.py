"""Write the README of each role from its argument specification; with --check, report whether it is up to date.

Galaxy requires this file for each role, and shows only this file, so it contains no relative links.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.check_ansible_doc import COLLECTION, documented_plugins
from scripts.docsite.ansible_pages import markdown
from scripts.generated_page import write_or_check

ROLES = Path(__file__).resolve().parents[1] / "roles"


def main(arguments: list[str]) -> int:
    """Write the README of each role, or with --check return 1 if one is out of date."""
    codes = [
        write_or_check(
            ROLES / name.removeprefix(f"{COLLECTION}.") / "README.md",
            "".join(_readme(name, role["entry_points"]["main"])),
            "the argument specification of the role",
            arguments,
        )
        for name, role in sorted(documented_plugins()["role"].items())
    ]
    return max(codes)


def _readme(name: str, role: Mapping[str, Any]) -> Iterator[str]:
    yield "<!-- Made by `make rules` from meta/argument_specs.yml. -->\n"
    yield f"# {name}\n\n{markdown(role['short_description'])}.\n\n"
    yield f"{markdown(role['description'])}\n\n"
    yield f"The playbook `{COLLECTION}.site` runs this role.\n\n"
    yield "## Variables\n\n| variable | type | required |\n|---|---|---|\n"
    for variable, option in sorted(role["options"].items()):
        yield f"| `{variable}` | {option.get('type', 'str')} | {'yes' if option.get('required') else 'no'} |\n"
    yield f"\n`ansible-doc -t role {name}` describes each variable with its default.\n\n"
    yield "## License\n\nApache-2.0\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
