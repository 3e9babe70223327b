"""A headless Chromium: screenshots of pages, and what a script in a page found out.

Used by the tests of the pictures and by the command that makes those of the documentation.
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
# Chromium's own numbers of the colour schemes (blink::mojom::PreferredColorScheme).
_SCHEMES: dict[Scheme, int] = {"dark": 0, "light": 1}
_SECONDS = 500  # only ends a browser that hangs: a page takes some seconds, on a busy machine a minute and more


class BrowserError(Exception):
    """An error for a missing browser, or for a browser that failed."""


@dataclass(frozen=True, slots=True)
class Browser:
    """``program`` is Chromium's; ``profile`` a directory of this browser's own."""

    program: str
    profile: Path

    @classmethod
    def find(cls, profile: Path) -> Browser:
        """The one of ``CHROMIUM``, else of the PATH. Raises BrowserError where there is none."""
        named = os.environ.get("CHROMIUM")
        program = next((path for name in ([named] if named else _NAMES) if (path := shutil.which(name))), None)
        if program is None:
            what = f"CHROMIUM={named} is not there" if named else "there is no Chromium"
            raise BrowserError(f"{what}: install the packages chromium and fonts-dejavu-core")
        # Some distributions have only a program of that name which says where to get it.
        asked = subprocess.run([program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if asked.returncode:
            raise BrowserError(f"{program} does not run: {asked.stderr.decode(errors='replace').strip()[-200:]}")
        return cls(program, profile)

    def screenshot(self, page: Path, picture: Path, size: tuple[int, int], scheme: Scheme, *, scale: float = 1) -> None:
        """Write ``picture`` (PNG): the page in a window of ``size`` pixels, each ``scale`` dots wide."""
        wanted = (
            f"--screenshot={picture}",
            f"--window-size={size[0]},{size[1]}",
            f"--force-device-scale-factor={scale:g}",
        )
        picture.unlink(missing_ok=True)
        self._run(page, scheme, *wanted)
        if not picture.is_file():
            raise BrowserError(f"{self.program} made no picture of {page}")

    def ask(self, page: Path, scheme: Scheme) -> Any:
        """What the page's script left in ``<pre id="found">``, which is JSON."""
        dom = self._run(page, scheme, "--dump-dom")
        # The last one: a script in the page may name it too.
        _, there, answer = dom.rpartition('<pre id="found">')
        if not there:
            raise BrowserError(f"the script of {page} found nothing:\n{dom[-2000:]}")
        return json.loads(html.unescape(answer.partition("</pre>")[0]))

    def _run(self, page: Path, scheme: Scheme, *options: str) -> str:
        command = [
            self.program,
            "--headless",
            "--no-sandbox",  # pages of our own only, also where root runs the tests
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
        # A session of its own: Chromium is a family of processes, and all of them end here.
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            output, errors = process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            raise BrowserError(f"{self.program} did not come to an end within {_SECONDS} s") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        if process.returncode:
            raise BrowserError(f"{self.program} ended with {process.returncode}:\n{errors[-2000:]}")
        return output
