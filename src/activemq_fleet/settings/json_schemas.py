"""Read the JSON Schemas of files with variables, which `make rules` makes of the models of this package."""

from __future__ import annotations

from importlib.resources import files


def read_json_schema_text(yaml_file_kind: str) -> str:
    """Return as text the JSON Schema of Ansible inventory files or of variable files (group_vars and host_vars).

    ``yaml_file_kind`` is ``inventory`` or ``variables``.
    """
    return files(__package__).joinpath(f"{yaml_file_kind}.schema.json").read_text("utf-8")
