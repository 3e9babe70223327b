"""The documentation of each module names the types, defaults and choices of its argument_spec."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml

MODULES = Path(__file__).resolve().parents[2] / "plugins" / "modules"
MODULES_ON_HOSTS = sorted(path.stem for path in MODULES.glob("*.py") if "run_module(" in path.read_text())
"""Modules with an argument_spec. The other modules only document action plugins."""
DEFAULTS = {"type": "str", "default": None, "choices": None, "required": False}


@pytest.mark.parametrize("name", MODULES_ON_HOSTS)
def test_documented_options_equal_options_of_argument_spec(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(f"ansible_collections.activemq.fleet.plugins.modules.{name}")
    captured: list[dict[str, dict[str, Any]]] = []
    monkeypatch.setattr(module, "run_module", lambda spec, *_arguments, **_options: captured.append(spec))
    module.main()
    (spec,) = captured
    documentation = yaml.safe_load(module.DOCUMENTATION)
    documented = documentation.get("options", {})

    assert documented.keys() <= spec.keys()
    if "extends_documentation_fragment" not in documentation:
        assert documented.keys() == spec.keys()
    for option, documented_option in documented.items():
        for key, default in DEFAULTS.items():
            assert documented_option.get(key, default) == spec[option].get(key, default), f"{key} of {option}"
