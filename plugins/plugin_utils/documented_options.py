# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the options of an action from the documentation of its module, where they are declared once."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import yaml

_KEYS = ("type", "elements", "choices", "default", "required")


def read_documentation_text(module: str) -> str:
    """Read and return the DOCUMENTATION of one of the collection's Ansible modules.

    Does not import what the module needs on hosts.
    """
    source = Path(__file__).parents[1] / "modules" / f"{module}.py"
    for statement in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "DOCUMENTATION":
            return str(ast.literal_eval(statement.value))
    raise ValueError(f"the module file {source} does not define DOCUMENTATION. Reinstall the collection activemq.fleet")


def argument_spec(documentation: str) -> dict[str, dict[str, Any]]:
    """Return the Ansible argument spec that a module's documentation declares.

    It maps each option to its type, choices, default and so on.
    """
    options = yaml.safe_load(documentation)["options"]
    return {name: {key: option[key] for key in _KEYS if key in option} for name, option in options.items()}
