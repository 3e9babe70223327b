"""The files of a release, built and installed as on a machine without a checkout."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from activemq_fleet.artifacts import cache_directory
from scripts.build_packages import build_release, source_date
from tests.support.command_blocks import Page, read_section, run_steps

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
INSTALL_PAGE = DOCS / "install.md"
_PIN = re.compile(r"^[A-Za-z0-9._-]+==[^\s\\;]+", re.MULTILINE)
_OF_CHECKOUT = ("ANSIBLE_", "ACTIVEMQ_", "PYTHON", "MOLECULE_", "FLEET_", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True)
class InstalledPackages:
    """A directory with the files of a release in ``dist``, their virtual environment, and a home directory."""

    directory: Path

    @property
    def environment(self) -> Path:
        """The virtual environment that docs/install.md creates."""
        return self.directory / "fleet"

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of a reader who activated the virtual environment. Downloads stay in the cache."""
        variables = variables_without_checkout(self.directory / "home")
        return variables | {"PATH": f"{self.environment / 'bin'}:{variables['PATH']}"}

    def follow(self, page: Page) -> None:
        """Run the steps of a page in the directory."""
        run_steps(page, self.directory, self.variables)

    def install_collection(self) -> Path:
        """Install the archive of the collection as docs/install.md shows it, and return its directory."""
        self.follow(read_section(INSTALL_PAGE, "The collection from its archive"))
        return self.directory / "home" / ".ansible" / "collections" / "ansible_collections" / "activemq" / "fleet"

    def install(self, *names: str) -> None:
        """Install further packages in the versions of requirements/dev.txt."""
        pins = self.directory / "pins.txt"
        pins.write_text("\n".join(_PIN.findall((ROOT / "requirements" / "dev.txt").read_text())) + "\n")
        pip = (str(self.environment / "bin" / "pip"), "install", "--quiet", "--constraint", str(pins))
        subprocess.run([*pip, *names], check=True, stdin=subprocess.DEVNULL, cwd=self.directory)


def variables_without_checkout(home: Path) -> dict[str, str]:
    """Return this process's environment variables without those that lead to the checkout."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_OF_CHECKOUT) and str(ROOT) not in value
    }
    programs = [path for path in os.environ["PATH"].split(":") if not Path(path).is_relative_to(ROOT)]
    return kept | {
        "HOME": str(home),
        "PATH": ":".join(programs),
        "ACTIVEMQ_FLEET_CACHE": str(cache_directory()),
        "NO_COLOR": "1",
        "COLUMNS": "200",
    }


def install_packages(directory: Path) -> InstalledPackages:
    """Build the files of a release, and install them as docs/install.md shows it."""
    (directory / "home").mkdir()
    build_release(directory / "dist", source_date())
    run_steps(read_section(INSTALL_PAGE, "Install"), directory, variables_without_checkout(directory / "home"))
    return InstalledPackages(directory)
