"""Import every module of the code of managed hosts, with the Python that runs this file, 3.9 or later.

    python3.9 -I -S scripts/import_node_code.py

With -I and -S, only the standard library can be imported.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plugins" / "module_utils"))
package = importlib.import_module("node")
names = [module.name for module in pkgutil.walk_packages(package.__path__, "node.")]
for name in names:
    # Only the module process of Ansible can import run_module, which the tests of the modules run.
    if not name.endswith("__main__") and name != "node.run_module":
        importlib.import_module(name)
print(len(names), "modules")
