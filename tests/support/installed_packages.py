"""The packages of a release, built and installed as on a machine that has no checkout."""

from __future__ import annotations

import os
import re
import subprocess
import venv
from dataclasses import dataclass
from pathlib import Path

from activemq_fleet.artifacts import cache_directory
from scripts.build_packages import build_distributions, source_date

ROOT = Path(__file__).resolve().parents[2]
_PIN = re.compile(r"^[A-Za-z0-9._-]+==[^\s\\;]+", re.MULTILINE)
_OF_CHECKOUT = ("ANSIBLE_", "ACTIVEMQ_", "PYTHON", "MOLECULE_", "FLEET_", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True)
class InstalledPackages:
    """A virtual environment with the wheels, and a home directory without files."""

    environment: Path
    home: Path

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of a reader who activated the virtual environment. Downloads stay in the cache."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OF_CHECKOUT)}
        programs = [str(self.environment / "bin")]
        programs += [path for path in os.environ["PATH"].split(":") if not Path(path).is_relative_to(ROOT)]
        return kept | {
            "HOME": str(self.home),
            "PATH": ":".join(programs),
            "ACTIVEMQ_FLEET_CACHE": str(cache_directory()),
            "NO_COLOR": "1",
            "COLUMNS": "200",
        }


def install_packages(directory: Path, *further: str) -> InstalledPackages:
    """Build the wheels, and install them with ``further`` requirements in the versions of requirements/dev.txt."""
    distributions = build_distributions(directory / "dist", source_date())
    library, agent = (str(path) for path in distributions if path.suffix == ".whl")
    pins = directory / "pins.txt"
    pins.write_text("\n".join(_PIN.findall((ROOT / "requirements" / "dev.txt").read_text())) + "\n")
    environment, home = directory / "fleet", directory / "home"
    home.mkdir()
    venv.create(environment, with_pip=True)
    pip = (str(environment / "bin" / "pip"), "install", "--quiet", "--constraint", str(pins))
    subprocess.run([*pip, f"{library}[lab]", agent, *further], check=True, stdin=subprocess.DEVNULL, cwd=directory)
    return InstalledPackages(environment, home)
