# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a function as an Ansible module: parameters in, the result or one line of failure out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from xml.etree.ElementTree import ParseError

from ansible.module_utils.basic import AnsibleModule

from .install.configuration_archive import InstallError


def run_module(
    argument_spec: Mapping[str, Mapping[str, Any]],
    act: Callable[[dict[str, Any], bool], Mapping[str, Any]],
    failure: str = "{error}",
    **restrictions: Any,
) -> None:
    """Run an Ansible module: call ``act(parameters, check_mode)`` and exit with its result, or fail with its error.

    ``changed`` is False unless the result says otherwise.

    For an InstallError, OSError or ParseError (of XML) the module fails with ``failure``, in which ``{error}`` and the
    names of parameters are filled in. ``restrictions`` are further arguments of AnsibleModule.
    """
    module = AnsibleModule(argument_spec=argument_spec, **{"supports_check_mode": True, **restrictions})
    try:
        result = act(module.params, module.check_mode)
    except (InstallError, OSError, ParseError) as error:
        module.fail_json(msg=failure.format(error=error, **module.params))
    module.exit_json(**{"changed": False, **result})
