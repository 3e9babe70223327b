"""Store the addresses, software and variables of a lab in its directory, so that commands can read them there."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from activemq_fleet.errors import InputError
from activemq_fleet.lab.lab_paths import LabPaths, write_lab_file
from activemq_fleet.topology import Fleet, build_fleet

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class InstalledRelease:
    """An ActiveMQ release that is installed in the directory ``home`` for a lab.

    ``whole``: a full distribution with web console, AMQP, WebSocket.
    """

    home: str
    whole: bool


@dataclass(frozen=True)
class LabState:
    """The stored state of a lab (brokers on loopback addresses): addresses, releases, groups and host variables.

    It holds secrets. ``block`` is the number of its block of addresses, ``seed`` the text that its own secrets are
    derived from, ``java`` the path of java. ``addresses`` are by host, ``software`` by release. ``hosts`` are the
    variables of each host with the overlay on top. ``sources`` are the inventories that the lab was made from, empty
    where that is unknown; ``jdbc_driver`` is the path of PostgreSQL's driver, empty without a shared-jdbc pair;
    ``exporter`` that of the metrics exporter, empty without metrics. ``directory`` is that of the lab when it was
    prepared, empty where that is unknown.
    """

    block: int
    seed: str = field(repr=False)
    java: str
    addresses: dict[str, str]
    software: dict[str, InstalledRelease]
    groups: dict[str, list[str]]
    hosts: dict[str, dict[str, Any]] = field(repr=False)
    sources: list[str] = field(default_factory=list)
    jdbc_driver: str = ""
    exporter: str = ""
    directory: str = ""

    def fleet(self) -> Fleet:
        """Return the fleet (brokers, pairs and links) of a lab from its stored variables.

        It has the brokers' own host names, which only their JVMs can resolve.
        """
        return build_fleet(self.hosts, self.groups)

    def save(self, lab_paths: LabPaths) -> None:
        """Save the state of a lab in the lab's state file, readable by its owner alone.

        The file is JSON.
        """
        write_lab_file(lab_paths.state, lab_json_text({"format": _FORMAT, **asdict(self)}))


def lab_json_text(value: Any) -> str:
    """Return a value, such as the state of a lab, as indented JSON text.

    Values and keys that JSON does not have, such as the dates of YAML, become text.
    """
    return json.dumps(_with_json_keys(value), indent=1, default=str) + "\n"


def _with_json_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key if isinstance(key, str | int | float | None) else str(key): _with_json_keys(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_with_json_keys(item) for item in value]
    return value


def require_lab_state(lab_paths: LabPaths) -> LabState:
    """Return the stored state of a lab, and raise InputError if there is none.

    A state of another version, or of a lab whose directory was moved or copied, is an error, too.
    """
    state = load_lab_state(lab_paths)
    if state is None:
        raise InputError(
            f"the directory {lab_paths.directory} contains no lab: start one with `lab up`, or set -i to the inventory "
            "or --dir to the directory of a lab"
        )
    return state


class DamagedLabStateError(InputError):
    """An error for a file with the state of a lab that is damaged, or that another version wrote."""


def load_lab_state(lab_paths: LabPaths) -> LabState | None:
    """Load the stored state of a lab; return None if there is none.

    Raises InputError for a file that cannot be read, and for a lab whose directory was moved or copied, because its
    files contain the earlier path. Raises DamagedLabStateError for a damaged file.
    """
    state = load_lab_state_of_any_directory(lab_paths)
    directory = lab_paths.directory
    if state and state.directory not in ("", str(directory)):
        raise InputError(
            f"the directory {directory} was moved or copied from {state.directory}, and the files of the lab contain "
            "the earlier path. Stop the brokers that still run with "
            f"`{_lab_command('down', state.directory)}`. Then run `lab up` with the inventory and --dir "
            f"{shlex.quote(str(directory))}, which writes the files again"
        )
    return state


def load_lab_state_of_any_directory(lab_paths: LabPaths) -> LabState | None:
    """Load the stored state of a lab, even if its directory was moved or copied; return None if there is none.

    Raises InputError for a file that cannot be read, and DamagedLabStateError for a damaged file.
    """
    try:
        known = json.loads(lab_paths.state.read_bytes())
        if known.pop("format") != _FORMAT:
            raise ValueError
        known["software"] = {release: InstalledRelease(**software) for release, software in known["software"].items()}
        return LabState(**known)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(
            f"the file {lab_paths.state} of the lab cannot be read ({error.strerror}): correct its permissions"
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise DamagedLabStateError(
            f"the file {lab_paths.state} of the lab is damaged, or another version of activemq-fleet wrote it: stop "
            f"the lab with `{_lab_command('down', str(lab_paths.directory))}`, and run `lab up` with the inventory, "
            "which writes the file again"
        ) from None


def _lab_command(subcommand: str, directory: str) -> str:
    return shlex.join(["activemq-fleet", "lab", subcommand, "--dir", directory])
