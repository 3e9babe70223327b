"""Read what a project sets for ``activemq-fleet check`` in ``activemq-fleet.toml`` or ``pyproject.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from activemq_fleet import InputError
from activemq_fleet.node.text_lines import split_lines
from activemq_fleet.similar_names import most_similar_name

FILE = "activemq-fleet.toml"
_PYPROJECT, _TABLE = "pyproject.toml", "activemq-fleet"
_KEYS = ("select", "ignore", "baseline", "releases")
_TOML_LINE = re.compile(r"at line (\d+)")
_VALUE_FORMS = {
    "select": 'a list of rule IDs or of their first letters: ["N", "L003"]',
    "ignore": 'a list of rule IDs or of their first letters: ["N", "L003"]',
    "baseline": "the path of a file",
    "releases": 'a table from file name patterns to releases: {"conf/*.xml" = "5.18.3"}',
}


@dataclass(frozen=True, slots=True)
class CheckConfiguration:
    """The settings of the command ``check`` from a configuration file of a project, such as pyproject.toml.

    An option of the command line replaces the setting of its name. ``releases`` are pairs of a pattern of file names
    and the release that reads those files.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    baseline: Path | None = None
    releases: tuple[tuple[str, str], ...] = ()
    path: Path | None = None
    """The file of the settings; None without one."""

    def setting_file_and_line(self, key: str) -> str:
        """Return the position of a setting in the configuration file of ``check``, as ``FILE:LINE``.

        Raises ValueError without a file.
        """
        if self.path is None:
            raise ValueError(f"no file contains {key}")
        return _position_of_setting(self.path, key)


def read_nearest_configuration(directory: Path) -> CheckConfiguration:
    """Return the settings of ``check`` from the nearest configuration file, in a directory or above it.

    The defaults are returned where there is none. In one directory ``activemq-fleet.toml`` wins over the table
    ``[tool.activemq-fleet]`` of ``pyproject.toml``. Raises InputError for a file that cannot be read, and for unknown
    keys and wrong values.
    """
    for candidate in (directory, *directory.parents):
        if (candidate / FILE).is_file():
            return _read_configuration(candidate / FILE)
        if (candidate / _PYPROJECT).is_file() and _read_settings_table(candidate / _PYPROJECT) is not None:
            return _read_configuration(candidate / _PYPROJECT)
    return CheckConfiguration()


def _read_configuration(path: Path) -> CheckConfiguration:
    """Read a configuration file of ``check``.

    Returns its settings. Raises InputError for one that cannot be read or used.
    """
    table = _read_settings_table(path)
    if table is None:
        raise InputError(f"{path}: the file has no table [tool.{_TABLE}] with settings of `check`: add this table")
    for key in table:
        if key not in _KEYS:
            suggestion = most_similar_name(key, _KEYS)
            hint = f"did you mean {suggestion}?" if suggestion else f"remove it, or use one of {', '.join(_KEYS)}"
            raise InputError(f"{_position_of_setting(path, key)}: {key} is not a setting of activemq-fleet: {hint}")
        if not _has_valid_form(key, table[key]):
            value_text = str(table[key])[:60]
            raise InputError(
                f"{_position_of_setting(path, key)}: the setting `{key}` must be {_VALUE_FORMS[key]}, not {value_text}"
            )
    return CheckConfiguration(
        tuple(table.get("select", ())),
        tuple(table.get("ignore", ())),
        path.parent / table["baseline"] if "baseline" in table else None,
        tuple(table.get("releases", {}).items()),
        path,
    )


def _read_settings_table(path: Path) -> Mapping[str, Any] | None:
    """Return the settings of ``check`` in a configuration file; None for a pyproject.toml without them."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"{path}: the file cannot be read ({error.strerror}): allow this account to read it, or add --no-config"
        ) from None
    except UnicodeError as error:
        raise InputError(f"{path}: the file is not UTF-8 text ({error}): save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        match = _TOML_LINE.search(str(error))
        line = match[1] if match else len(split_lines(path.read_text(encoding="utf-8")))
        raise InputError(f"{path}:{line}: the file is not valid TOML ({error}): correct this line") from None
    except RecursionError:
        raise InputError(
            f"{path}: a value of the file is nested too deeply: remove it. No setting of `check` has nested lists"
        ) from None
    if path.name != _PYPROJECT:
        return content
    tools = content.get("tool")
    table = tools.get(_TABLE) if isinstance(tools, dict) else None
    if table is not None and not isinstance(table, dict):
        raise InputError(
            f"{_position_of_setting(path, _TABLE)}: tool.{_TABLE} must be a table: write the settings below "
            f"[tool.{_TABLE}]"
        )
    return table


def _position_of_setting(path: Path, key: str) -> str:
    """Return the position ``FILE:LINE`` of a setting in a configuration file.

    In pyproject.toml, the key is below its table. Without the key, the position is the file.
    """
    names_key = re.compile(rf"""\s*(?:\[[^#]*)?["']?{re.escape(key)}["']?\s*[]=.]""")
    is_below = path.name != _PYPROJECT or key == _TABLE
    for number, line in enumerate(split_lines(path.read_text(encoding="utf-8")), 1):
        is_below = is_below or _TABLE in line
        if is_below and names_key.match(line):
            return f"{path}:{number}"
    return str(path)


def _has_valid_form(key: str, value: object) -> bool:
    match key:
        case "select" | "ignore":
            return isinstance(value, list) and all(isinstance(word, str) for word in value)
        case "baseline":
            return isinstance(value, str) and bool(value)
        case _:
            return isinstance(value, dict) and all(isinstance(release, str) for release in value.values())
