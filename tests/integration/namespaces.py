"""Programs of a test in private namespaces: the kernel removes what they start, mount or disconnect with them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from activemq_fleet.lab.address_reservation import RESERVATIONS


def in_namespaces(module: str, *arguments: str, timeout: float) -> dict[str, Any]:
    """Run ``python -m module`` in mount, network and process namespaces; return the JSON object of its last line.

    Labs in these namespaces reserve addresses in a separate directory: the reservations of the machine expire
    without a listener, and listeners in a network namespace are not visible outside of it.
    """
    unshare = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    private_reservations = [
        "sh",
        "-c",
        f'mkdir -p {RESERVATIONS} && mount -t tmpfs none {RESERVATIONS} && exec "$@"',
        "sh",
    ]
    command = [*unshare, *private_reservations, sys.executable, "-m", module, *arguments]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    if completed.returncode != 0:
        raise AssertionError(f"{module} with {arguments} failed: {completed.stdout[-3000:]}{completed.stderr[-6000:]}")
    result: dict[str, Any] = json.loads(completed.stdout.splitlines()[-1])
    return result
