"""Recognize failures of Ansible's privilege escalation (``become``), and name their remedy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from activemq_fleet.errors import names_to_text
from activemq_fleet.node.text_lines import split_lines

_PROGRAMS = "sudo|su|doas|dzdo|ksu|pbrun|pfexec|pmrun|sesu|machinectl"
# The errors of Ansible's connection plugins, then those of sudo, su and doas.
_FAILURE = re.compile(
    rf"\b(missing|incorrect) ({_PROGRAMS}) password\b"
    r"|waiting for become success|waiting for privilege escalation prompt"
    r"|\ba password is required\b"
    r"|\ba terminal is required to (read the password|authenticate)\b|\bno tty present and no askpass program\b"
    r"|\b[0-9]+ incorrect password attempts?\b"
    r"|\bis not in the sudoers file\b|\bmay not run sudo\b|\bis not allowed to (execute|run)\b"
    r"|\bsu: (authentication failure|permission denied|must be run from a terminal)"
    r"|\bdoas: (authentication failed|authorization failed|operation not permitted)",
    re.IGNORECASE,
)
_OUTPUTS = ("msg", "module_stderr", "module_stdout")
"""The keys of a failed result of Ansible that can contain the error of sudo."""


def is_become_failure(reason: str) -> bool:
    """Return whether the error of a task shows that Ansible logged in to the host, but could not become another user.

    >>> is_become_failure("Task failed: Missing sudo password"), is_become_failure("No route to host")
    (True, False)
    """
    return _FAILURE.search(reason) is not None


def failed_task_reason(result: Mapping[str, Any]) -> str:
    """Return the reason of a failed task of Ansible on one line: its message, or the error of sudo if one is printed.

    The result is empty if the task has no message.
    """
    texts = [str(result[key]) for key in _OUTPUTS if result.get(key)]
    lines = [" ".join(line.split()) for text in texts for line in split_lines(text)]
    first = " ".join(texts[0].split()).removeprefix("Task failed: ") if texts else ""
    if is_become_failure(first):
        return first
    return next((line for line in lines if is_become_failure(line)), first)


def become_remedy(hosts: Iterable[str]) -> str:
    """Return the remedy for hosts on which ``become`` fails, as an imperative without a period."""
    names = names_to_text(list(hosts))
    return f"permit sudo without a password for the SSH user on {names}, or add --ask-become-pass to ansible-playbook"


def remedies_for_dropped_hosts(dropped: Iterable[str], results: Iterable[Mapping[str, Any]], other_remedy: str) -> str:
    """Return the remedies for hosts that dropped out of an Ansible play as one text of up to two sentences.

    The first one is the remedy for the hosts where ``become`` failed, the other one ``other_remedy`` for the other
    hosts; a remedy without hosts is omitted. ``results`` are the registered results of tasks, each by host, as far as
    they are known. Both remedies are imperatives; each begins with a capital letter in the result, which does not end
    with a period.
    """
    hosts = list(dropped)
    denied_hosts = {
        host
        for results_by_host in results
        for host, result in results_by_host.items()
        if isinstance(result, Mapping) and is_become_failure(failed_task_reason(result))
    }
    denied = [host for host in hosts if host in denied_hosts]
    remedies = [become_remedy(denied)] if denied else []
    if len(denied) < len(hosts):
        remedies.append(other_remedy)
    return ". ".join(f"{remedy[0].upper()}{remedy[1:]}" for remedy in remedies)
