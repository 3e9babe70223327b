# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Calls the operator's program that makes sure that the other node's broker is dead (``activemq_fence_command``)."""
# pylint: disable=ansible-bad-function # The package also runs without Ansible, which has no run_command there.

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_STEP = 0.5
"""Seconds between two calls of ``sign_of_life`` while the program runs."""


@dataclass(frozen=True)
class ExecutableFenceCommand:
    """The operator's fence command, the program that makes sure that the peer's broker is dead.

    ``timeout`` is in seconds. ``environment`` is added to the caller's: ACTIVEMQ_FENCE_HOST, the host to fence by its
    inventory name, ACTIVEMQ_FENCE_PAIR, and ACTIVEMQ_FENCE_SECRETS, the path of a file with a line NAME=VALUE for each
    secret.
    """

    argv: Sequence[str]
    timeout: float
    environment: Mapping[str, str]

    @property
    def host_to_fence(self) -> str:
        """The inventory name of the host to fence, whose broker the fence command must terminate."""
        return self.environment["ACTIVEMQ_FENCE_HOST"]

    def run_and_describe_failure(self, sign_of_life: Callable[[], object]) -> str:
        """Run the operator's fence command, and return a clause with the reason for its failure; "" on success.

        Calls ``sign_of_life`` twice per second meanwhile, so that systemd does not restart the waiting guard. Exit
        status 0 means that the host's broker is dead and cannot write any more. A command that exceeds its timeout is
        killed with all its child processes.
        """
        try:
            process = subprocess.Popen(
                list(self.argv),
                stdin=subprocess.DEVNULL,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
        except OSError as error:
            return f"the fence command {self.argv[0]} (activemq_fence_command) cannot be run ({error.strerror})"
        deadline = time.monotonic() + self.timeout
        while time.monotonic() < deadline:
            sign_of_life()
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(_STEP)
                return (
                    ""
                    if status == 0
                    else f"the fence command {self.argv[0]} (activemq_fence_command) failed with exit status {status}"
                )
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return (
            f"the fence command {self.argv[0]} (activemq_fence_command) took longer than its timeout of "
            f"{self.timeout:g} s, and was killed"
        )


def read_fence_command(path: str) -> ExecutableFenceCommand:
    """Read the fence command of an operator, which terminates the peer's broker, from a JSON file.

    The file is deployed with the broker's configuration. Raises OSError, ValueError.
    """
    with open(path, "rb") as file:
        content = json.loads(file.read())
    return ExecutableFenceCommand(content["argv"], content["timeout"], content["environment"])
