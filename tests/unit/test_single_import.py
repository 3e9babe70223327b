"""The package node, of which Ansible's plugins and the library share one copy in a process of the controller."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
KINDS = ("action", "callback", "filter", "inventory", "plugin_utils", "test")
NAMES = sorted(f"{path.parent.name}.{path.stem}" for kind in KINDS for path in (PLUGINS / kind).glob("*.py"))
IMPORT = """
import importlib, json, os, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(json.dumps([[name, os.path.realpath(module.__file__)] for name, module in sys.modules.items()
                  if getattr(module, "__file__", None)]))
"""


def test_plugins_and_library_load_no_file_under_two_names() -> None:
    sources = [(PLUGINS / f"{name.replace('.', '/')}.py").read_text() for name in NAMES]
    modules = {
        f"activemq_fleet.{module}"
        for text in sources
        for module in re.findall(r'import_library_module\("([\w.]+)"\)', text)
    }
    plugins = [f"ansible_collections.activemq.fleet.plugins.{name}" for name in NAMES]
    command = [sys.executable, "-c", IMPORT, *plugins, "activemq_fleet.cli.status", *sorted(modules)]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    names: dict[str, set[str]] = {}
    for module, path in json.loads(completed.stdout):
        # The agent is a separate distribution, whose wheel contains copies of single files of the library.
        if not module.startswith("activemq_agent.") and path.startswith((f"{PLUGINS}/", f"{PLUGINS.parent / 'src'}/")):
            names.setdefault(path, set()).add(module)
    assert str(PLUGINS / "module_utils/node/printable.py") in names
    assert str(PLUGINS / "action/compile.py") in names
    assert {path: modules_of_file for path, modules_of_file in names.items() if len(modules_of_file) > 1} == {}
