"""Record a terminal session of the README's inventory as an SVG: ``python -m scripts.terminal_picture``.

The commands run in a temporary directory with real brokers. The recording shows their unchanged output.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.support.command_blocks import read_page

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "pictures" / "recordings" / "terminal.svg"
COLUMNS = 92
COMMANDS = (
    "activemq-fleet lab up -i hosts.yml",
    "activemq-fleet lab kill orders-mq01-a -i hosts.yml",
    "activemq-fleet lab status -i hosts.yml",
    "activemq-fleet lab start orders-mq01-a -i hosts.yml",
    "activemq-fleet lab drill -i hosts.yml --kills 3",
)


def main() -> int:
    """Run the commands, and write the picture; exit 1 if a command fails."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), color_system="truecolor")
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": str(COLUMNS)}
    with tempfile.TemporaryDirectory() as directory:
        for step in read_page(ROOT / "README.md").steps:
            if isinstance(step, tuple):
                Path(directory, step[0]).write_text(step[1], encoding="utf-8")
        try:
            for command in COMMANDS:
                console.print(Text("$ ", "bold green").append(command, "bold"))
                done = subprocess.run(
                    ["sh", "-c", command], cwd=directory, env=environment, check=True, stdout=subprocess.PIPE, text=True
                )
                console.print(Text(done.stdout.rstrip() + "\n"))
        except subprocess.CalledProcessError as error:
            print(f"terminal_picture: error: {error}", file=sys.stderr)
            return 1
        finally:
            subprocess.run(
                ["activemq-fleet", "lab", "down", "-i", "hosts.yml"], cwd=directory, env=environment, check=False
            )
    svg = console.export_svg(title="activemq-fleet", theme=MONOKAI)
    # The recording uses the reader's monospace font: a picture of the documentation loads nothing from a network.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).replace("Fira Code, monospace", "monospace")
    PICTURE.write_text(svg, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
