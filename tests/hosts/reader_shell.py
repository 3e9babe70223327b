"""A shell that runs the commands of a documentation page like a reader, against machines of a rack."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.hosts.machines import Rack


class ReaderShell:
    """Runs commands in a directory of the controller, whose ssh resolves the host names of the machines.

    ``variables`` are the environment variables of the reader; ``addresses`` maps each host name to its address in the
    rack's network.
    """

    def __init__(self, variables: Mapping[str, str], rack: Rack, addresses: Mapping[str, str], directory: Path) -> None:
        with (rack.state / "ssh_config").open("a") as file:
            file.writelines(f"Host {host}\n    HostName {address}\n" for host, address in addresses.items())
        programs = directory / "bin"
        programs.mkdir()
        for name in ("ssh", "scp", "sftp"):
            # The path excludes this directory, because the wrapper calls the system program of the same name.
            (programs / name).write_text(f'#!/bin/sh\nPATH=/usr/bin:/bin exec {rack.state / name} "$@"\n')
            (programs / name).chmod(0o755)
        self.directory = directory
        self.variables = {**variables, "PATH": f"{programs}:{variables['PATH']}"}

    def __call__(self, command: str) -> str:
        """Return the output of ``command`` with its errors; AssertionError if it fails."""
        completed = subprocess.run(
            ["bash", "-ec", command],
            cwd=self.directory,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        print(completed.stdout)
        assert completed.returncode == 0, command
        return completed.stdout
