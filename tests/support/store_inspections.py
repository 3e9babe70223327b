"""The command ``activemq-fleet store inspect``, as tests run it."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from activemq_fleet.cli.store import store_command


def inspect_store(store: Path, *options: str) -> tuple[int, str]:
    """Return the exit code and the output of ``store inspect``."""
    invocation = CliRunner().invoke(store_command, ["inspect", str(store), *options], standalone_mode=False)
    if invocation.exception:
        raise invocation.exception
    return invocation.return_value, invocation.output
