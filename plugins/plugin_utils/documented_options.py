# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the options of an action from the documentation of its module, where they are declared once."""

from __future__ import annotations

from typing import Any

import yaml

_KEYS = ("type", "elements", "choices", "default", "required")


def argument_spec(documentation: str) -> dict[str, dict[str, Any]]:
    """Return the argument spec that a module's DOCUMENTATION declares: option -> type, choices, default …"""
    options = yaml.safe_load(documentation)["options"]
    return {name: {key: option[key] for key in _KEYS if key in option} for name, option in options.items()}
