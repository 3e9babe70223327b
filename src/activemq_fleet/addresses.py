"""Parse and write host names and ``host:port`` lists; imports nothing of the project, as the agent uses it too."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from functools import lru_cache

_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?")
_MAX_PORT = 65535
_WILDCARD_HOSTS = frozenset({"", "0.0.0.0", "::", "0:0:0:0:0:0:0:0"})  # noqa: S104 -- searched for, not bound to
_LOCALHOST = frozenset({"localhost", "127.0.0.1"})

Address = tuple[str, int]


class InvalidHostNameError(ValueError):
    """An error for an invalid host name, to which no client can connect.

    ``problem`` is the text without the instruction.
    """

    def __init__(self, problem: str, fix: str) -> None:
        """Make an error whose text is the problem and the instruction."""
        super().__init__(f"{problem}: {fix}")
        self.problem = problem


def validated_host_name(text: str) -> str:
    """Return a text if it is a valid host name or IP address, else raise InvalidHostNameError.

    An IPv6 address has no brackets. The check is stricter than DNS where java.net.URI is: it finds no host in a name
    with an underscore, or in one whose last label begins with a digit (source: the grammar in the class documentation
    of java.net.URI), and the broker then opens no connection.
    """
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    # Only a text that contains a colon or ends with a digit can be an address. Most texts are names, which are not
    # parsed as addresses. An address with a zone (%) is not accepted, because a zone has no meaning on other hosts.
    if "%" not in bare and (":" in bare or bare[-1:].isdigit()):
        try:
            return str(ipaddress.ip_address(bare))
        except ValueError:
            pass
    if not bare:
        raise InvalidHostNameError("the host name is empty", "write a host name or an IP address")
    if len(bare) > 253:
        raise InvalidHostNameError(
            f"the host name {bare[:40]!r}… has {len(bare)} characters, but at most 253 are valid",
            "use an IP address or a shorter host name",
        )
    if "_" in bare:
        raise InvalidHostNameError(
            f"the host name {bare!r} contains an underscore, which Java does not support",
            "use an IP address, or a host name without underscores",
        )
    labels = bare.split(".")
    invalid_label = next((label for label in labels if len(label) > 63 or not _LABEL.fullmatch(label)), None)
    if invalid_label is not None:
        raise InvalidHostNameError(
            f"the host name {bare!r} is not valid"
            + (f" because of its part {invalid_label!r}" if invalid_label != bare else ""),
            "between dots, use 1 to 63 letters, digits and hyphens, without a hyphen at the beginning or end",
        )
    if not labels[-1][0].isalpha():
        raise InvalidHostNameError(
            f"the last label {labels[-1]!r} of the host name {bare!r} begins with a digit, which Java does not support",
            "use an IP address, or a host name whose last label begins with a letter",
        )
    return bare


def host_name_without_domain(host: str) -> str:
    """Return a host name without its domain: its first label. An IP address has no domain, and is returned whole."""
    label, dot, _ = host.partition(".")
    if dot and host[-1].isdigit():
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return label
        return host
    return label


def is_wildcard_bind_address(host: str) -> bool:
    """Return whether the address of a listener is a wildcard, which means all network interfaces."""
    return host in _WILDCARD_HOSTS


def bind_addresses_overlap(host: str, other: str) -> bool:
    """Return whether two listeners have an address in common. Names other than ``localhost`` are not resolved."""
    return (
        host.lower() == other.lower()
        or is_wildcard_bind_address(host)
        or is_wildcard_bind_address(other)
        or {host.lower(), other.lower()} == _LOCALHOST
    )


@lru_cache(maxsize=1 << 12)
def is_loopback(host: str) -> bool:
    """Return whether a host is ``localhost`` or a loopback address."""
    if host.lower() in ("localhost", "localhost.localdomain"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def may_be_same_host(name: str, other: str) -> bool:
    """Return whether two host names may be names of the same host.

    They are equal in any case, or one is the other without its domain.
    """
    name_without_dot, other_without_dot = name.lower().rstrip("."), other.lower().rstrip(".")
    if name_without_dot == other_without_dot:
        return bool(name_without_dot)
    short, long = sorted((name_without_dot, other_without_dot), key=len)
    return bool(short) and ":" not in short and not short.isdigit() and long.startswith(f"{short}.")


def join_host_port(host: str, port: int) -> str:
    """Return ``host:port`` as text, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_host_port(text: str) -> Address:
    """Parse ``host:port`` or ``[IPv6]:port``, and return (host, port).

    Spaces around the text are allowed.

    Raises ValueError with the reason.
    """
    stripped = text.strip()
    host, separator, port = stripped.rpartition(":")
    if not separator or not host or (":" in host and not host.startswith("[")):
        raise ValueError(
            f"the address {stripped!r} has no valid host and port: write HOST:PORT, and an IPv6 address in brackets, "
            "such as [::1]:1883"
        )
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= _MAX_PORT):
        raise ValueError(
            f"the port in the address {stripped!r} is not valid: write a number from 1 to {_MAX_PORT}, such as 1883"
        )
    return validated_host_name(host), int(port)


def parse_listening_address(text: str) -> Address:
    """Parse the address on which a server is to listen, and return (host, port).

    A port alone means 127.0.0.1. Raises ValueError.
    """
    port = text.strip().removeprefix(":")
    return parse_host_port(f"127.0.0.1:{port}" if port.isdecimal() else text)


def parse_address_and_tls(text: str) -> tuple[Address, bool]:
    """Parse ``host:port`` or ``ssl://host:port``, and return ``((host, port), tls)``; ``tls`` is a bool.

    Raises ValueError with the reason.
    """
    scheme, separator, rest = text.strip().partition("://")
    if not separator:
        return parse_host_port(text), False
    if scheme.lower() != "ssl":
        raise ValueError(
            f"the address {text.strip()!r} has the scheme {scheme}://, which is not supported: write "
            "HOST:PORT without TLS, or ssl://HOST:PORT with TLS"
        )
    return parse_host_port(rest.removesuffix("/")), True


def format_mb_urls_value_of_agent_conf(addresses: Iterable[Address], *, tls: bool = False) -> str:
    """Format broker addresses as the value of ``mb.urls`` in agent.conf.

    The form is ``h:1883,h:1883``, or ``ssl://h:8883`` with TLS.
    """
    return ",".join(f"{'ssl://' if tls else ''}{join_host_port(host, port)}" for host, port in addresses)
