"""Run a headless Chromium: take screenshots of pages, and read the output of a script in a page.

The tests of the pictures use it, and the command that makes the pictures of the documentation.
"""

from __future__ import annotations

import html
import json
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Scheme = Literal["light", "dark"]

_NAMES = ("chromium", "chromium-browser", "google-chrome")
# The numbers that Chromium assigns to color schemes (blink::mojom::PreferredColorScheme).
_SCHEMES: dict[Scheme, int] = {"dark": 0, "light": 1}
_SECONDS = 500  # stops a browser that hangs: a page takes some seconds, and a minute or more on a busy machine


class BrowserError(Exception):
    """An error for a missing browser, or for a browser that failed."""


@dataclass(frozen=True, slots=True)
class Browser:
    """A Chromium: ``program`` is its path, and ``profile`` a directory that no other browser uses."""

    program: str
    profile: Path

    @classmethod
    def find(cls, profile: Path) -> Browser:
        """Return the browser in the variable ``CHROMIUM``, or else on the PATH. Raises BrowserError if none exists."""
        configured = os.environ.get("CHROMIUM")
        names = [configured] if configured else _NAMES
        program = next((path for name in names if (path := shutil.which(name))), None)
        if program is None:
            problem = f"the program CHROMIUM={configured} does not exist" if configured else "Chromium is not installed"
            raise BrowserError(f"{problem}: install the packages chromium and fonts-dejavu-core")
        # On some distributions, the program of this name only prints how to install Chromium.
        process = subprocess.run([program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if process.returncode:
            raise BrowserError(f"{program} does not run: {process.stderr.decode(errors='replace').strip()[-200:]}")
        return cls(program, profile)

    def screenshot(self, page: Path, picture: Path, size: tuple[int, int], scheme: Scheme, *, scale: float = 1) -> None:
        """Write a screenshot to ``picture`` (PNG): a page in a window of ``size`` pixels, each ``scale`` dots wide."""
        options = (
            f"--screenshot={picture}",
            f"--window-size={size[0]},{size[1]}",
            f"--force-device-scale-factor={scale:g}",
        )
        picture.unlink(missing_ok=True)
        self._run(page, scheme, *options)
        if not picture.is_file():
            raise BrowserError(f"{self.program} wrote no screenshot of {page}")

    def run_script(self, page: Path, scheme: Scheme) -> Any:
        """Open a page, and return the JSON that its script wrote to ``<pre id="output">``."""
        dom = self._run(page, scheme, "--dump-dom")
        # Use the last occurrence, because the text of a script in the page may contain the tag.
        _, tag, rest = dom.rpartition('<pre id="output">')
        if not tag:
            raise BrowserError(f"the script of {page} wrote no output:\n{dom[-2000:]}")
        return json.loads(html.unescape(rest.partition("</pre>")[0]))

    def _run(self, page: Path, scheme: Scheme, *options: str) -> str:
        command = [
            self.program,
            "--headless",
            "--no-sandbox",  # for tests that run as root; the browser opens only pages of this project
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--hide-scrollbars",
            f"--user-data-dir={self.profile}",
            f"--blink-settings=preferredColorScheme={_SCHEMES[scheme]}",
            *options,
            page.resolve().as_uri(),
        ]
        # A separate session, because Chromium starts several processes, and all of them must stop.
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            output, errors = process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            raise BrowserError(f"{self.program} timed out after {_SECONDS} s") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        if process.returncode:
            raise BrowserError(f"{self.program} exited with {process.returncode}:\n{errors[-2000:]}")
        return output
