"""The operator's fence command: its arguments, and the exit statuses that confirm the fencing."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from activemq_fleet.node.fence.operator_fence_command import ExecutableFenceCommand, read_fence_command

ENVIRONMENT = {"ACTIVEMQ_FENCE_HOST": "o-mq01-b", "ACTIVEMQ_FENCE_PAIR": "o-mq01", "ACTIVEMQ_FENCE_SECRETS": "/x"}


def shell_command(script: str, timeout: float = 20.0) -> ExecutableFenceCommand:
    return ExecutableFenceCommand(["/bin/sh", "-c", script], timeout, ENVIRONMENT)


def test_exit_status_0_of_fence_command_confirms_that_host_is_fenced(tmp_path: Path) -> None:
    script = f'echo "$ACTIVEMQ_FENCE_HOST of $ACTIVEMQ_FENCE_PAIR" > {tmp_path}/fenced'
    assert shell_command(script).run_and_describe_failure(lambda: None) == ""
    assert (tmp_path / "fenced").read_text() == "o-mq01-b of o-mq01\n"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (shell_command("exit 3"), "the fence command /bin/sh (activemq_fence_command) failed with exit status 3"),
        (shell_command("kill -9 $$"), "the fence command /bin/sh (activemq_fence_command) failed with exit status -9"),
        (
            ExecutableFenceCommand(["/no/such/program"], 5, ENVIRONMENT),
            "the fence command /no/such/program (activemq_fence_command) cannot be run (No such file or directory)",
        ),
    ],
)
def test_failure_of_fence_command_names_exit_status_or_system_error(
    command: ExecutableFenceCommand, message: str
) -> None:
    assert command.run_and_describe_failure(lambda: None) == message


def test_fence_command_that_exceeds_timeout_is_killed_with_its_children(tmp_path: Path) -> None:
    calls: list[float] = []
    command = shell_command(f"(sleep 2; touch {tmp_path}/late) & sleep 60", timeout=1)
    problem = command.run_and_describe_failure(lambda: calls.append(time.monotonic()))
    assert (
        problem
        == "the fence command /bin/sh (activemq_fence_command) took longer than its timeout of 1 s, and was killed"
    )
    assert len(calls) >= 2
    time.sleep(1.5)
    assert not (tmp_path / "late").exists()


def test_fence_command_is_read_from_deployed_file(tmp_path: Path) -> None:
    path = tmp_path / "fence-command.json"
    path.write_text(json.dumps({"argv": ["/bin/true"], "timeout": 7, "environment": ENVIRONMENT}))
    assert read_fence_command(str(path)) == ExecutableFenceCommand(["/bin/true"], 7, ENVIRONMENT)
    assert read_fence_command(str(path)).host_to_fence == "o-mq01-b"
