"""Read the JSON Schemas of files with variables, which `make rules` makes of the models of this package."""

from __future__ import annotations

from importlib.resources import files


def read_json_schema_text(kind: str) -> str:
    """Return the JSON Schema of a kind of YAML files, as text.

    ``kind`` is ``variables`` (for files in group_vars and host_vars) or ``inventory``.
    """
    return files(__package__).joinpath(f"{kind}.schema.json").read_text("utf-8")
