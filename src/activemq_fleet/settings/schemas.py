"""Read the JSON Schemas of files with variables, which `make rules` makes of the models of this package."""

from __future__ import annotations

from importlib.resources import files


def read_json_schema(kind: str) -> str:
    """Return the text of a JSON Schema of this project.

    ``kind`` is ``variables`` (group_vars, host_vars) or ``inventory``.
    """
    return files(__package__).joinpath(f"{kind}.schema.json").read_text("utf-8")
