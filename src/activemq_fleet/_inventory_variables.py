"""Separate the variables of an inventory from those that hosts and tasks add while a play runs.

In Ansible, the facts of a host take precedence over its inventory variables, ``host_vars`` included. A module on a host
can return any fact, so a fact must not configure anything: root on one managed host could configure the fleet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any

from ansible.plugins.loader import cache_loader
from ansible.vars.hostvars import HostVars

from activemq_fleet.naming import PREFIX

_PLAYBOOK_RESULT_PREFIX = f"__{PREFIX}"
"""The prefix of the names that the playbooks register. A fact with such a name would replace a result."""
_FACT_VARIABLES = ("ansible_facts", "ansible_local")


class InventoryFirstVariableManager:
    """An Ansible variable manager in which inventory variables take precedence over facts, set_fact and include_vars.

    Its ``hostvars`` use it as well, so that templates get the same values. A variable that the inventory
    does not have keeps the value of the play: a template may refer to ``ansible_facts`` and to registered results.
    """

    def __init__(self, hostvars: Any) -> None:
        self._inventory, self._play_variables = hostvars._inventory, hostvars._variable_manager
        self._inventory_variables = copy(self._play_variables)
        self._inventory_variables._fact_cache = cache_loader.get("ansible.builtin.memory")
        self._inventory_variables._nonpersistent_fact_cache, self._inventory_variables._vars_cache = {}, {}
        self.hostvars = HostVars(self._inventory, self, hostvars._loader)

    def get_vars(self, host: Any, include_hostvars: bool = False, stage: str = "task") -> dict[str, Any]:
        """Return the variables of a host, in which inventory variables take precedence over facts and set_fact.

        Their templates are not evaluated. The signature is Ansible's.
        """
        variables: dict[str, Any] = self._inventory_variables.get_vars(host=host, include_hostvars=False, stage=stage)
        if self._cached_facts(host.name) or any(cache.get(host.name) for cache in self._task_caches()):
            play_variables = self._play_variables.get_vars(host=host, include_hostvars=False, stage=stage)
            variables = {
                **play_variables,
                **{name: value for name, value in variables.items() if name not in _FACT_VARIABLES},
            }
        return variables | {"hostvars": self.hostvars}

    def errors_by_host_for_variables_set_at_runtime(self) -> dict[str, list[str]]:
        """Return, by host, an error for each variable ``activemq_…`` that facts or tasks set at runtime.

        Only the inventory may set these variables. The errors are lines of text.
        Hosts without such variables are omitted.
        """
        problems = {host: list(self._runtime_variable_problems(host)) for host in self._inventory.hosts}
        return {host: lines for host, lines in problems.items() if lines}

    def _runtime_variable_problems(self, host: str) -> Iterator[str]:
        for name in self._cached_facts(host):
            if str(name).startswith((PREFIX, _PLAYBOOK_RESULT_PREFIX)):
                yield (
                    f"{name} is a fact of the host, but only the inventory, group_vars, host_vars and extra variables "
                    f"(-e) may set it. A module or a task with set_fact returned this fact: remove {name} there, and "
                    "run ansible-playbook once with --flush-cache"
                )
        for name in sorted({str(name) for cache in self._task_caches() for name in cache.get(host) or ()}):
            if name.startswith(PREFIX):
                yield (
                    f"a task sets {name} with set_fact, register or include_vars, but only the inventory, group_vars, "
                    f"host_vars and extra variables (-e) may set it: set {name} in the inventory, or use another "
                    "variable name in the task"
                )

    def _cached_facts(self, host: str) -> Mapping[Any, Any]:
        try:
            return self._play_variables._fact_cache.get(host) or {}
        except KeyError:
            return {}

    def _task_caches(self) -> tuple[Mapping[str, Any], ...]:
        return self._play_variables._nonpersistent_fact_cache, self._play_variables._vars_cache
