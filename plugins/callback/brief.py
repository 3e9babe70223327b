# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""``activemq.fleet.brief``: prints the messages of this collection's playbooks, what they changed, and what failed."""

from __future__ import annotations

DOCUMENTATION = r"""
name: brief
type: stdout
short_description: Print results, changes and failures of operations, without tasks that only read
version_added: 0.2.0
author: The activemq.fleet authors (!UNKNOWN)
description:
  - Prints a line for each play that has hosts, for each change, and for each failure. The messages of C(debug) and
    C(assert) are printed unchanged. Tasks that change nothing, and skipped hosts, are not shown.
  - An upgrade of a pair prints about fifty lines, in contrast to five hundred with the callback C(default).
  - The callback can be used with any playbook. With C(-v) or more it prints the name of every task.
requirements:
  - Set this callback as the callback for stdout, with C(stdout_callback = activemq.fleet.brief) in ansible.cfg or with
    the environment variable E(ANSIBLE_STDOUT_CALLBACK).
"""

EXAMPLES = r"""
# ANSIBLE_STDOUT_CALLBACK=activemq.fleet.brief ansible-playbook -i inventory activemq.fleet.upgrade
"""

from collections.abc import Mapping
from typing import Any

from ansible import constants
from ansible.plugins.callback import CallbackBase
from ansible_collections.activemq.fleet.plugins.plugin_utils.library import import_module_of_node_package

escape_unprintable = import_module_of_node_package("printable").escape_unprintable
split_lines = import_module_of_node_package("text_lines").split_lines

_PRINTED_ACTIONS = ("ansible.builtin.debug", "debug", "ansible.builtin.assert", "assert")
_SUCCESS_MESSAGE = "All assertions passed"


class CallbackModule(CallbackBase):
    """The Ansible callback plugin ``brief``, which prints short output of a playbook.

    It prints each message, change and failure once, without the default headings.
    """

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "activemq.fleet.brief"

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._play = ""

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Handle the start of a play: store its name, which is printed before the play's first message.

        A play without messages is not printed.
        """
        self._play = play.get_name().strip()

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        if self._display.verbosity:
            self._print_line(f"  task: {_task_name(task)}")

    def v2_runner_on_ok(self, result: Any) -> None:
        self._handle_warnings_and_exception(result)
        if not result.task.loop:  # each item of a loop was printed separately
            self._print_outcome(result)

    def v2_runner_item_on_ok(self, result: Any) -> None:
        self._handle_warnings_and_exception(result)
        self._print_outcome(result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        if not ignore_errors and not _has_failed_items(result.result):
            self._print_failure(result)

    def v2_runner_item_on_failed(self, result: Any) -> None:
        self._print_failure(result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._print_line(
            f"  UNREACHABLE {_host_text(result)}: {_failure_message(result.result)}", constants.COLOR_UNREACHABLE
        )

    def v2_on_file_diff(self, result: Any) -> None:
        """Print the differences of changed files for ``--diff``, as Ansible's default callback does."""
        task_results = [result.result, *(result.result.get("results") or ())] if result.task.loop else [result.result]
        for task_result in task_results:
            if isinstance(task_result, Mapping) and task_result.get("changed") and (diff := task_result.get("diff")):
                self._display.display(self._get_diff(diff))

    def v2_playbook_on_no_hosts_matched(self) -> None:
        """Handle a play that matches no hosts: print nothing."""

    def v2_playbook_on_no_hosts_remaining(self) -> None:
        self._print_line("  the play has no hosts left", constants.COLOR_ERROR)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        for host in sorted(stats.processed):
            host_summary = stats.summarize(host)
            has_failed = host_summary["failures"] or host_summary["unreachable"]
            counts = ", ".join(
                f"{host_summary[key]} {word}"
                for key, word in (
                    ("ok", "ok"),
                    ("changed", "changed"),
                    ("failures", "failed"),
                    ("unreachable", "unreachable"),
                )
                if host_summary[key]
            )
            self._display.display(
                f"{host}: {counts}", color=constants.COLOR_ERROR if has_failed else constants.COLOR_OK
            )

    def _print_outcome(self, result: Any) -> None:
        action = result.task.action
        if action in _PRINTED_ACTIONS:
            for line in _message_lines(result.result):
                self._print_line(f"  {line}")
        elif result.result.get("changed"):
            self._print_line(f"  changed {_host_text(result)}: {_task_name(result.task)}", constants.COLOR_CHANGED)

    def _print_failure(self, result: Any) -> None:
        self._handle_warnings(result.result)
        first_line, *other_lines = split_lines(_failure_message(result.result)) or [""]
        self._print_line(
            f"  FAILED {_host_text(result)}: {_task_name(result.task)}: {first_line}", constants.COLOR_ERROR
        )
        for line in other_lines:
            self._print_line(f"    {line}", constants.COLOR_ERROR)

    def _print_line(self, line: str, color: str | None = None) -> None:
        if self._play:
            self._display.display(self._play)
            self._play = ""
        self._display.display(escape_unprintable(line), color=color)


def _task_name(task: Any) -> str:
    """Return the name of a task without the name of its role."""
    return str(task.name or task.action).strip()


def _host_text(result: Any) -> str:
    """Return the host's name of a task result, with the host to which the task was delegated."""
    delegated = result.result.get("_ansible_delegated_vars") or {}
    delegated_host = delegated.get("ansible_delegated_host")
    name = str(result.host.get_name())
    return name if delegated_host in (None, name) else f"{name} on {delegated_host}"


def _message_lines(result: Mapping[str, Any]) -> list[str]:
    message = result.get("msg", "")
    if isinstance(message, (list, tuple)):
        return [str(line) for line in message]
    return [] if message == _SUCCESS_MESSAGE else split_lines(str(message))


def _has_failed_items(result: Mapping[str, Any]) -> bool:
    """Return whether items of a task's loop failed; each of them was printed already."""
    return any(isinstance(item, Mapping) and item.get("failed") for item in result.get("results") or ())


def _failure_message(result: Mapping[str, Any]) -> str:
    message = (
        result.get("msg") or result.get("exception") or result.get("stderr") or "the task failed without a message"
    )
    return "\n".join(map(str, message)) if isinstance(message, (list, tuple)) else str(message)
