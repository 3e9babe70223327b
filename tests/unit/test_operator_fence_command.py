"""The program that ends the other node's broker: what counts as an answer, and what it is told."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from activemq_fleet.node.fence.operator_fence_command import FenceCommand, read_fence_command

ENVIRONMENT = {"ACTIVEMQ_FENCE_HOST": "o-mq01-b", "ACTIVEMQ_FENCE_PAIR": "o-mq01", "ACTIVEMQ_FENCE_SECRETS": "/x"}


def call(script: str, timeout: float = 20.0) -> FenceCommand:
    return FenceCommand(["/bin/sh", "-c", script], timeout, ENVIRONMENT)


def test_status_0_means_that_the_host_is_fenced_and_it_is_told_which(tmp_path: Path) -> None:
    script = f'echo "$ACTIVEMQ_FENCE_HOST of $ACTIVEMQ_FENCE_PAIR" > {tmp_path}/told'
    assert call(script).run_and_describe_failure(lambda: None) == ""
    assert (tmp_path / "told").read_text() == "o-mq01-b of o-mq01\n"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (call("exit 3"), "the fence command /bin/sh (activemq_fence_command) failed with exit status 3"),
        (call("kill -9 $$"), "the fence command /bin/sh (activemq_fence_command) failed with exit status -9"),
        (
            FenceCommand(["/no/such/program"], 5, ENVIRONMENT),
            "the fence command /no/such/program (activemq_fence_command) cannot be run (No such file or directory)",
        ),
    ],
)
def test_any_other_end_says_why(command: FenceCommand, why: str) -> None:
    assert command.run_and_describe_failure(lambda: None) == why


def test_one_that_takes_too_long_is_killed_with_what_it_started(tmp_path: Path) -> None:
    signs: list[float] = []
    command = call(f"(sleep 2; touch {tmp_path}/late) & sleep 60", timeout=1)
    problem = command.run_and_describe_failure(lambda: signs.append(time.monotonic()))
    assert (
        problem
        == "the fence command /bin/sh (activemq_fence_command) took longer than its timeout of 1 s, and was killed"
    )
    assert len(signs) >= 2
    time.sleep(1.5)
    assert not (tmp_path / "late").exists()


def test_the_call_is_read_from_the_file_that_is_deployed(tmp_path: Path) -> None:
    path = tmp_path / "fence-command.json"
    path.write_text(json.dumps({"argv": ["/bin/true"], "timeout": 7, "environment": ENVIRONMENT}))
    assert read_fence_command(str(path)) == FenceCommand(["/bin/true"], 7, ENVIRONMENT)
    assert read_fence_command(str(path)).host_to_fence == "o-mq01-b"
