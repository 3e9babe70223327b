"""Measure the packages that `pip install` of the built wheels installs, and write the table of docs/install.md.

    python -m scripts.install_size [DIST]

Run it after `make package`. The seconds depend on the machine and on pip's cache.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass
from pathlib import Path

from activemq_fleet import __version__

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "install.md"
BEGIN, END = "<!-- made by scripts/install_size.py -->\n", "<!-- end of scripts/install_size.py -->\n"
_LARGEST = 4
_REPORT = """
import importlib.metadata, json, os
sizes = {}
for distribution in importlib.metadata.distributions():
    paths = [str(distribution.locate_file(file)) for file in distribution.files or ()]
    sizes[distribution.name] = sum(os.path.getsize(path) for path in paths if os.path.isfile(path))
print(json.dumps(sizes))
"""


@dataclass(frozen=True, slots=True)
class Installation:
    """The packages that a command installed: the bytes of each package, and the seconds that pip took."""

    sizes: dict[str, int]
    seconds: float

    def row(self, purpose: str) -> str:
        """Return the row of the table."""
        largest = sorted(self.sizes, key=lambda name: -self.sizes[name])[:_LARGEST]
        largest_packages = ", ".join(f"{name} {self.sizes[name] / 1e6:.0f}" for name in largest)
        megabytes = sum(self.sizes.values()) / 1e6
        return f"| {purpose} | {len(self.sizes)} | {megabytes:.0f} | {self.seconds:.0f} | {largest_packages} |\n"


def main(arguments: list[str]) -> int:
    """Measure the installation for each purpose, and write the table."""
    dist = Path(arguments[0]) if arguments else ROOT / "dist"
    library = dist / f"activemq_fleet-{__version__}-py3-none-any.whl"
    agent = dist / f"activemq_agent-{__version__}-py3-none-any.whl"
    missing = [path for path in (library, agent) if not path.is_file()]
    if missing:
        print(f"install_size: error: {missing[0]} is missing: run `make package`", file=sys.stderr)
        return 1
    wheels_by_purpose = {
        "`render`, `check` and playbooks: the library": [str(library)],
        "`lab`: the library with `[lab]`, and the agent": [f"{library}[lab]", str(agent)],
        "`audit`, `drift` and `plan`: the library with `[pipeline]`": [f"{library}[pipeline]"],
        "the host of an agent: only the agent": [str(agent)],
    }
    rows = [measure(wheels).row(purpose) for purpose, wheels in wheels_by_purpose.items()]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    head = f"| for | packages | MB | seconds (Python {version}) | largest, in MB |\n|---|---|---|---|---|\n"
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}{head}{''.join(rows)}{END}{after}", encoding="utf-8")
    return 0


def measure(wheels: list[str]) -> Installation:
    """Install wheels into a new environment, and return the installed packages."""
    with tempfile.TemporaryDirectory(prefix="install-") as directory:
        venv.create(directory, with_pip=True)
        python = f"{directory}/bin/python"
        before = _sizes(python)
        began = time.monotonic()
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wheels], check=True, stdin=subprocess.DEVNULL)
        seconds = time.monotonic() - began
        sizes = {name: size for name, size in _sizes(python).items() if name not in before}
    return Installation(sizes, seconds)


def _sizes(python: str) -> dict[str, int]:
    output = subprocess.run([python, "-c", _REPORT], check=True, capture_output=True, text=True).stdout
    return dict(json.loads(output))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
