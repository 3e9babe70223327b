"""Parses agent.conf into ``Config``; all problems of the file are reported together, each with its line and key."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from activemq_agent.agent_errors import ConfigError
from activemq_agent.config import KEYS, AgentTlsSettings, Config
from activemq_agent.config_values import KEY, Password
from activemq_agent.connecting import ConnectionSettings
from activemq_agent.ini import IniContent, read_agent_section
from activemq_agent.similar_names import most_similar_name

CREDENTIALS = "CREDENTIALS_DIRECTORY"
"""Variable of systemd's LoadCredential=; the credential is named ``mb.password``."""

_KEY_BY_NAME = {key.name: key for key in KEYS}
_LIST_KEYS = {"mb.urls", "topics", "tls.certificate.names"}
_REQUIRED_KEYS = {
    "mb.password": "mb.username",
    "mb.password.file": "mb.username",
    "tls.certificate": "tls.key",
    "tls.key": "tls.certificate",
}
"""Key -> key without which it has no effect."""
_LARGEST_PASSWORD = 65535  # bytes, MQTT 3.1.1, section 3.1.3.5


def read_config(path: Path, environment: Mapping[str, str] | None = None) -> Config:
    """Read an agent.conf, and return the configuration in it.

    The password is read from its file, or from the systemd credential that ``environment`` names. Raises ConfigError
    with every problem of the file, one line each: ``FILE:LINE: what is wrong: what to do``.
    """
    environment = os.environ if environment is None else environment
    ini = read_agent_section(path)
    problems = _Problems(path, ini)
    texts = {key: text for key, text in ini.values.items() if text.strip() or key == "mb.urls"}
    problems.add_problems(_key_problems(texts))
    texts = {key: text for key, text in texts.items() if key not in problems.keys}
    problems.add_problems(_dependency_problems(texts))
    values, invalid = _parse_values(path, texts)
    problems.add_problems(invalid)
    try:
        values["mb.password"] = _find_password(path, values, environment)
    except ValueError as error:
        problems.add_problems([("mb.password" if "mb.password" in values else "mb.password.file", str(error))])
    policy = ConnectionSettings(**_field_values(values, "policy"))
    if not any(key.startswith("connecting.") for key in problems.keys):
        problems.add_problems(_policy_problems(policy))
    problems.raise_if_any_problem()
    return Config(**_field_values(values), tls=AgentTlsSettings(**_field_values(values, "tls")), policy=policy)


class _Problems:
    """The problems of a configuration file, sorted by line; ``keys`` are the keys that have one."""

    def __init__(self, path: Path, ini: IniContent) -> None:
        self._path = path
        self._ini = ini
        self._numbered_problems: set[tuple[int, str]] = set(ini.problems)
        self.keys: set[str] = set()

    def add_problems(self, reasons: Iterable[tuple[str, str]]) -> None:
        """Add problems with keys of agent.conf, as (key, reason) pairs, to those that a ConfigError will report.

        A key that has a problem already gets no second one.
        """
        for key, reason in reasons:
            if key not in self.keys and not (key == "mb.urls" and not self._ini.lines and self._ini.problems):
                self.keys.add(key)
                self._numbered_problems.add((self._ini.lines.get(key, 0), _reason_with_key(reason, key)))

    def raise_if_any_problem(self) -> None:
        """Raise ConfigError with all problems of agent.conf, if there are any."""
        if self._numbered_problems:
            lines = [
                f"{self._path}:{line}: {text}" if line else f"{self._path}: {text}"
                for line, text in sorted(self._numbered_problems)
            ]
            raise ConfigError(*lines)


def _reason_with_key(reason: str, key: str) -> str:
    """Return the reason of a problem in agent.conf with the name of its key in front, unless the reason contains it."""
    has_key_name = re.search(rf"the key '?{re.escape(key)}(?!\.?\w)", reason)
    return reason if has_key_name else f"{key}: {reason}"


def _key_problems(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (key, reason) for unknown keys of agent.conf, and for values on several lines that are no lists."""
    for key, text in texts.items():
        if key not in _KEY_BY_NAME:
            yield key, f"the agent does not support the key {key!r} of agent.conf: {_unknown_key_remedy(key)}"
        elif "\n" in text and key not in _LIST_KEYS:
            yield (
                key,
                f"the value of the key {key} of agent.conf has several lines, but this key accepts only one "
                "line: write the value on one line",
            )


def _dependency_problems(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (key, reason) for keys of agent.conf that have no effect without another key."""
    for key, required in _REQUIRED_KEYS.items():
        if key in texts and required not in texts:
            yield key, f"the key {key} of agent.conf has no effect without {required}: set {required}, or remove {key}"
    if "mb.password" in texts and "mb.password.file" in texts:
        yield (
            "mb.password.file",
            "the keys mb.password and mb.password.file of agent.conf are both set, but "
            "the agent uses only one password: remove one of these keys",
        )
    if "ssl://" not in texts.get("mb.urls", "").lower():
        for key in ("tls.ca", "tls.certificate", "tls.key", "tls.certificate.names"):
            if key in texts:
                yield (
                    key,
                    f"the key {key} of agent.conf has no effect, because no entry of mb.urls begins with ssl://: "
                    f"remove {key}, or write ssl:// in mb.urls",
                )
                return


def _unknown_key_remedy(key: str) -> str:
    similar_key = most_similar_name(key.replace("_", ".").replace("-", "."), _KEY_BY_NAME)
    return (
        f"if you mean the key {similar_key}, correct the spelling; otherwise remove this line of agent.conf"
        if similar_key
        else "remove this line of agent.conf, or use a key that `activemq-fleet help agent` lists"
    )


def _parse_values(path: Path, texts: Mapping[str, str]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return key -> value for the keys whose text is valid, and (key, reason) for the others.

    Relative paths count from the file's directory.
    """
    values: dict[str, Any] = {}
    problems: list[tuple[str, str]] = []
    for key, text in texts.items():
        try:
            setting = _KEY_BY_NAME[key].parse(text)
        except ValueError as error:
            problems.append((key, str(error).replace(KEY, f"the key {key} of agent.conf", 1)))
        else:
            values[key] = path.absolute().parent / setting if isinstance(setting, Path) else setting
    if "mb.urls" not in texts:
        problems.append(
            (
                "mb.urls",
                "the key mb.urls of agent.conf is missing, so the agent has no broker: list the MQTT addresses of both "
                "brokers, such as mb.urls = host1:1883,host2:1883",
            )
        )
    return values, problems


def _field_values(values: Mapping[str, Any], part: str = "") -> dict[str, Any]:
    """Return field name -> value for ``Config`` itself (no ``part``) or for its part ``policy`` or ``tls``."""
    return {_KEY_BY_NAME[name].field: value for name, value in values.items() if _KEY_BY_NAME[name].part == part}


def _find_password(path: Path, values: Mapping[str, Any], environment: Mapping[str, str]) -> Password | None:
    """Return the password from the key, a password file, or a systemd credential, in this order; None without one.

    Raises ValueError with the reason if it cannot be used.
    """
    if "mb.password" in values:
        _raise_if_public(path)
        password: Password = values["mb.password"]
        return password
    if "mb.password.file" in values:
        return _read_password(values["mb.password.file"])
    if environment.get(CREDENTIALS):
        credential = Path(environment[CREDENTIALS], "mb.password")
        if credential.exists():
            return _read_password(credential)
    return None


def _read_password(path: Path) -> Password:
    """Return the password on the single line of a file.

    Raises ValueError with the reason if everyone can read or write the file, if it cannot be read, or if it holds
    anything but one line of UTF-8.
    """
    try:
        with path.open("rb") as file:
            _raise_if_public(path, file.fileno())
            content = file.read(_LARGEST_PASSWORD + 2)
        text = content.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise ValueError(
            f"the password file {path} cannot be read ({error.strerror}): correct this path, or let the agent's user "
            "read the file"
        ) from error
    except UnicodeDecodeError:
        raise ValueError(f"the password file {path} is not UTF-8 text: save the file in UTF-8") from None
    if not text or "\n" in text or "\0" in text or len(text.encode()) > _LARGEST_PASSWORD:
        raise ValueError(
            f"the password file {path} is empty, or contains more than one line: write only the password into it, on "
            "one line"
        )
    return Password(text)


def _raise_if_public(path: Path, descriptor: int | None = None) -> None:
    mode = os.stat(path if descriptor is None else descriptor).st_mode
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise ValueError(
            f"the file {path} contains a password, but every user of this host can read or change the file: run chmod "
            f"0640 {path}"
        )


def _policy_problems(policy: ConnectionSettings) -> Iterator[tuple[str, str]]:
    """Yield (key, reason) for ``connecting.*`` numbers that contradict each other."""
    if policy.fast_pause[0] > policy.fast_pause[1]:
        yield (
            "connecting.fast.pause",
            "the first number of the key connecting.fast.pause of agent.conf is larger than the second: write the "
            "shortest pause between two attempts to connect, then the longest, such as 0.5,5",
        )
    if policy.base > policy.cap:
        yield (
            "connecting.base",
            f"the value {policy.base:g} of the key connecting.base of agent.conf is larger than the value "
            f"{policy.cap:g} of connecting.cap: decrease connecting.base, or increase connecting.cap",
        )
    if policy.steady > 1:
        yield (
            "connecting.steady",
            f"the value {policy.steady} of the key connecting.steady of agent.conf is too large: write at most 1",
        )
    if policy.canary_timeout > policy.canary_interval:
        yield (
            "connecting.canary.timeout",
            f"the value {policy.canary_timeout:g} of the key connecting.canary.timeout of agent.conf is larger than "
            f"the value {policy.canary_interval:g} of connecting.canary.interval: decrease "
            "connecting.canary.timeout, or increase connecting.canary.interval",
        )
