"""Failures of Ansible's privilege escalation, and their remedy."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.become_failures import failed_task_reason, is_become_failure, remedies_for_dropped_hosts


@pytest.mark.parametrize(
    "reason",
    [
        "Missing sudo password",
        "Task failed: Incorrect sudo password",
        "Incorrect su password",
        "Missing doas password",
        "sudo: a password is required",
        "Sorry, a password is required to run sudo",
        "sudo: a terminal is required to read the password; either use the -S option",
        "sudo: no tty present and no askpass program specified",
        "sudo: 3 incorrect password attempts",
        "ops is not in the sudoers file.  This incident will be reported.",
        "Sorry, user ops may not run sudo on web2.",
        "Sorry, user ops is not allowed to execute '/bin/sh' as root on web2.",
        "su: Authentication failure",
        "doas: Operation not permitted",
        "Timeout (12s) waiting for privilege escalation prompt: ",
        "Premature end of stream waiting for become success. >>> Standard Error sudo: a password is required",
    ],
)
def test_error_of_sudo_su_or_doas_is_become_failure(reason: str) -> None:
    assert is_become_failure(reason)


@pytest.mark.parametrize(
    "reason",
    [
        "Failed to connect to the host via ssh: ops@web2: Permission denied (publickey,password).",
        "Invalid/incorrect password: Permission denied, please try again.",
        "No route to host",
        "the password of the store is missing",
    ],
)
def test_other_error_of_ansible_is_no_become_failure(reason: str) -> None:
    assert not is_become_failure(reason)


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({"msg": "Task failed: Missing sudo password"}, "Missing sudo password"),
        (
            {"msg": "MODULE FAILURE\nSee stderr", "module_stderr": "banner\nops is not in the sudoers file.\n"},
            "ops is not in the sudoers file.",
        ),
        ({"msg": "no space left\n on device", "module_stderr": "x"}, "no space left on device"),
        ({}, ""),
    ],
)
def test_reason_of_failed_task_is_message_or_error_of_sudo(result: dict[str, Any], reason: str) -> None:
    assert failed_task_reason(result) == reason


def test_remedy_for_dropped_hosts_names_sudo_only_for_hosts_without_sudo() -> None:
    results: list[dict[str, dict[str, Any]]] = [
        {"b": {"msg": "Missing sudo password"}},
        {"c": {"msg": "No route to host"}, "a": {"skipped": True}},
    ]

    assert remedies_for_dropped_hosts(["b", "c"], results, "correct the error above") == (
        "Permit sudo without a password for the SSH user on b, or add --ask-become-pass to ansible-playbook. Correct "
        "the error above"
    )
    assert remedies_for_dropped_hosts(["c"], results, "correct the error above") == "Correct the error above"
