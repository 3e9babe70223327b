"""agent.conf -> Config, with every problem of the file told at once, each with its line and key."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from activemq_agent.config import KEYS, Config, words
from activemq_agent.errors import ConfigError
from activemq_agent.ini import Ini, read_ini

CREDENTIALS = "CREDENTIALS_DIRECTORY"
"""Variable of systemd's LoadCredential=; the credential is named ``mb.password``."""

_BY_NAME = {entry.name: entry for entry in KEYS}
_PATHS = {entry.path: entry.name for entry in KEYS}
_FILES = {
    "mb.password.file", "state.directory", "socket", "tls.ca", "tls.certificate", "tls.key", "handlers",
}  # fmt: skip
_LISTS = {"mb.urls", "topics", "tls.names"}
_TOGETHER = (
    ("mb.password", ("mb.username",)),
    ("mb.password.file", ("mb.username",)),
    ("tls.certificate", ("tls.key",)),
    ("tls.key", ("tls.certificate",)),
)
_LARGEST_PASSWORD = 65535  # bytes, MQTT 3.1.1, section 3.1.3.5


def read_config(path: Path, environment: Mapping[str, str] | None = None) -> Config:
    """The configuration in a file. Raises ConfigError, one problem a line: ``FILE:LINE: KEY: what to do``."""
    environment = os.environ if environment is None else environment
    ini = read_ini(path)
    found = _Problems(path, ini)
    values = {key: text for key, text in ini.values.items() if text.strip() or key == "mb.urls"}
    for key in [key for key in values if key not in _BY_NAME]:
        found.add(key, f"is not known{_suggestion(key)}")
        del values[key]
    for key in [key for key, text in values.items() if "\n" in text and key not in _LISTS]:
        found.add(key, "goes on over several lines: write it on one")
        del values[key]
    for key, needed in _TOGETHER:
        if key in values and not any(other in values for other in needed):
            found.add(key, f"needs {' or '.join(needed)} too")
    content = _nested(path, values)
    _add_password(path, values, content, environment, found)
    _check_tls(values, found)
    try:
        config = Config.model_validate(content)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            if detail["type"] != "default_factory_not_called":  # what it is made from was told already
                found.add(*_said(detail))
        config = None
    if config is not None:
        _check_policy(config, found)
    found.raise_any()
    assert config is not None  # noqa: S101 -- a problem was raised otherwise
    return config


class _Problems:
    """Collects what is wrong, in the order of lines."""

    def __init__(self, path: Path, ini: Ini) -> None:
        self._path = path
        self._ini = ini
        self._all: set[tuple[int, str]] = set(ini.problems)
        self._keys: set[str] = set()

    def add(self, key: str, reason: str) -> None:
        """The first problem of a key counts."""
        if key not in self._keys and not (key == "mb.urls" and not self._ini.lines and self._ini.problems):
            self._keys.add(key)
            self._all.add((self._ini.lines.get(key, 0), f"{key}: {reason}"))

    def raise_any(self) -> None:
        if self._all:
            lines = [
                f"{self._path}:{line}: {text}" if line else f"{self._path}: {text}" for line, text in sorted(self._all)
            ]
            raise ConfigError(*lines)


def _suggestion(key: str) -> str:
    near = difflib.get_close_matches(key.replace("_", ".").replace("-", "."), _BY_NAME, n=1, cutoff=0.7)
    return f": did you mean {near[0]}?" if near else ": the keys are in the agent's manual"


def _nested(path: Path, values: Mapping[str, str]) -> dict[str, Any]:
    """Keys and texts -> what ``Config`` is made of."""
    content: dict[str, Any] = {}
    for key, text in values.items():
        value: Any = path.absolute().parent / text if key in _FILES else text
        if key == "connecting.fast.pause":
            value = words(text)
        inner = content
        *outer, last = _BY_NAME[key].path
        for name in outer:
            inner = inner.setdefault(name, {})
        inner[last] = value
    return content


def _add_password(
    path: Path, values: Mapping[str, str], content: dict[str, Any], environment: Mapping[str, str], found: _Problems
) -> None:
    """The password comes from the key, a file, or a credential of systemd, in this order."""
    try:
        if "mb.password" in values:
            if "mb.password.file" in values:
                found.add("mb.password.file", "stands beside mb.password: keep one of them")
            _refuse_open(path)
        elif "mb.password.file" in values:
            content["password"] = read_secret(content["password_file"])
        elif environment.get(CREDENTIALS):
            credential = Path(environment[CREDENTIALS], "mb.password")
            if credential.exists():
                content["password"] = read_secret(credential)
    except ValueError as error:
        found.add("mb.password" if "mb.password" in values else "mb.password.file", str(error))


def read_secret(path: Path) -> str:
    """The one line of a file that nobody else may read. Raises ValueError with the reason."""
    try:
        with path.open("rb") as file:
            _refuse_open(path, file.fileno())
            content = file.read(_LARGEST_PASSWORD + 2)
        text = content.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is not UTF-8 text") from None
    if not text or "\n" in text or "\0" in text or len(text.encode()) > _LARGEST_PASSWORD:
        raise ValueError(f"{path}: must hold the password on one line, and nothing else")
    return text


def _refuse_open(path: Path, descriptor: int | None = None) -> None:
    mode = os.stat(path if descriptor is None else descriptor).st_mode
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise ValueError(f"{path} holds a password and can be read by everyone: chmod 0640 {path}")


def _check_tls(values: Mapping[str, str], found: _Problems) -> None:
    if "ssl://" in values.get("mb.urls", "").lower():
        return
    for key in ("tls.ca", "tls.certificate", "tls.key", "tls.names"):
        if key in values:
            found.add(key, "does nothing: no entry of mb.urls begins with ssl://")
            return


def _check_policy(config: Config, found: _Problems) -> None:
    """Numbers of connecting that the machine could not work with."""
    policy, in_range = config.policy, True
    for entry in KEYS:
        if entry.path[0] != "policy":
            continue
        value = getattr(policy, entry.path[1])
        if not all(0 < one <= 86_400 for one in (value if isinstance(value, tuple) else (value,))):
            in_range = False
            found.add(entry.name, "must be above 0 and at most 86400")
    if not in_range:
        return
    if policy.fast_pause[0] > policy.fast_pause[1]:
        found.add("connecting.fast.pause", "the shortest pause comes first")
    if policy.base > policy.cap:
        found.add("connecting.base", "must not be above connecting.cap")
    if policy.steady > 1:
        found.add("connecting.steady", "must be at most 1")
    if policy.canary_timeout > policy.canary_interval:
        found.add("connecting.canary.timeout", "must not be above connecting.canary.interval")


_REASONS = {
    "missing": "is missing: list the brokers, mb.urls = host:1883,host:1883",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "finite_number": "must be a number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "is too large",
    "int_from_float": "must be a whole number",
    "bool_parsing": "must be true or false",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "string_too_long": "must have at most {max_length} characters",
    "value_error": "{error}",
}


def _said(detail: ErrorDetails) -> tuple[str, str]:
    """pydantic's finding in our words: key, reason."""
    path = tuple(str(part) for part in detail["loc"])
    key = next((name for known, name in _PATHS.items() if path[: len(known)] == known), ".".join(path))
    if key == "connecting.fast.pause":
        return key, "must be two numbers: the shortest pause, the longest"
    reason = _REASONS.get(detail["type"])
    if reason is None:
        return key, detail["msg"]
    return key, reason.format(**detail.get("ctx", {}))
