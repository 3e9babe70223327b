"""Values of agent.conf, and the functions that parse them from text; each raises ValueError with the reason."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from activemq_agent.addresses import join_host_port, parse_address_and_tls, parse_listening_address

KEY = "the key of agent.conf"
"""The subject of errors about a value; ``config_parser`` replaces it by the name of the key."""
Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A network endpoint: host, port, and whether it is reached by TLS.

    ``str()`` returns it in the form of agent.conf.
    """

    host: str
    port: int
    tls: bool = False

    @property
    def socket_address(self) -> tuple[str, int]:
        """The address of a network endpoint: the tuple (host, port), as functions of sockets require."""
        return self.host, self.port

    @property
    def host_port_text(self) -> str:
        """The text ``host:port`` of a network endpoint, with brackets around an IPv6 address."""
        return join_host_port(self.host, self.port)

    def __str__(self) -> str:
        return f"ssl://{self.host_port_text}" if self.tls else self.host_port_text


@dataclass(frozen=True, slots=True)
class HostAndExpectedCertificateName:
    """A broker's host, and the name that the TLS certificate of this host must contain.

    It is one entry of ``tls.certificate.names``.
    """

    host: str
    name: str

    def __str__(self) -> str:
        return f"{self.host}={self.name}"


@dataclass(frozen=True, slots=True)
class Password:
    """A password that ``repr()`` does not show."""

    text: str = field(repr=False)


def _split_list(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _raise_for_duplicate(values: tuple[Any, ...]) -> None:
    duplicate = next((value for number, value in enumerate(values) if value in values[:number]), None)
    if duplicate is not None:
        raise ValueError(f"the list in {KEY} contains the entry {duplicate} twice: remove one of these entries")


def parse_brokers(text: str) -> tuple[Endpoint, ...]:
    """Parse a comma-separated list of brokers in agent.conf, and return their endpoints.

    The list has at least one ``host:port`` or ``ssl://host:port``.
    """
    brokers = tuple(Endpoint(*address, tls) for address, tls in map(parse_address_and_tls, _split_list(text)))
    if not brokers:
        raise ValueError(
            "the list of brokers in the key mb.urls of agent.conf is empty: name at least one broker, such "
            "as mb.urls = host1:1883,host2:1883"
        )
    _raise_for_duplicate(brokers)
    return brokers


def parse_listening_endpoint(text: str) -> Endpoint:
    """Parse the endpoint on which a server of the agent is to listen, and return it.

    A port alone means 127.0.0.1. Raises ValueError.
    """
    return Endpoint(*parse_listening_address(text))


def parse_hosts_and_certificate_names(text: str) -> tuple[HostAndExpectedCertificateName, ...]:
    """Parse comma-separated ``HOST=NAME`` pairs of agent.conf, and return each host with its TLS certificate's name.

    Raises ValueError for any other text.
    """
    pairs = [entry.partition("=") for entry in _split_list(text)]
    if not all(host and name for host, _, name in pairs):
        raise ValueError(
            f"the value {text!r} of the key tls.certificate.names of agent.conf is not a list of certificate "
            "names: write "
            "HOST=NAME,HOST=NAME, where NAME is a name in the certificate of HOST"
        )
    return tuple(HostAndExpectedCertificateName(host, name) for host, _, name in pairs)


def _check_topic_filter(text: str) -> None:
    """Raise ValueError with the reason if a text is not an MQTT topic filter (MQTT 3.1.1, section 4.7)."""
    levels = text.split("/")
    if not text or len(text.encode()) > 65535 or not text.isprintable():
        raise ValueError(
            f"the entry {text[:80]!r} in {KEY} is not an MQTT topic filter: use 1 to 65535 "
            "bytes of printable "
            "characters"
        )
    if any("#" in level and (level != "#" or number < len(levels) - 1) for number, level in enumerate(levels)):
        raise ValueError(
            f"the entry {text!r} in {KEY} is not an MQTT topic filter: use # only as the "
            "complete last level, such "
            "as orders/#"
        )
    if any("+" in level and level != "+" for level in levels):
        raise ValueError(
            f"the entry {text!r} in {KEY} is not an MQTT topic filter: use + only as a "
            "complete level, such as "
            "orders/+/new"
        )


def parse_topic_filters(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of MQTT topic filters, and return them.

    Raises ValueError for an invalid or repeated topic filter.
    """
    filters = _split_list(text)
    for topic_filter in filters:
        _check_topic_filter(topic_filter)
    _raise_for_duplicate(filters)
    return filters


def parse_client_or_agent_name(text: str) -> str:
    """Parse a client id or an agent's name in agent.conf, and return it.

    Raises ValueError with the reason for other texts.
    """
    if len(text) > 200:
        raise ValueError(
            f"the name in {KEY}, which begins with {text[:40]!r}, has {len(text)} characters: use at most 200"
        )
    if not text.isprintable() or not text.isascii() or any(c in text for c in " /+#\"'"):
        raise ValueError(f"the value {text!r} of {KEY} is not a valid name: use only ASCII letters, digits and . _ : -")
    return text


def parse_boolean(text: str) -> bool:
    """Parse a word such as ``yes``, ``on`` or ``0``, and return the boolean that it means.

    Raises ValueError for other words.
    """
    word = text.lower()
    if word in ("true", "t", "yes", "y", "on", "1"):
        return True
    if word in ("false", "f", "no", "n", "off", "0"):
        return False
    raise ValueError(f"the value {text!r} of {KEY} is not permitted: write true or false")


def choice_parser(*words: str) -> Callable[[str], str]:
    """Return a parser of a choice: it accepts only certain words as the value of a key in agent.conf.

    The parser raises ValueError, which lists ``words``, for other texts.
    """

    def parse(text: str) -> str:
        if text not in words:
            *others, last = map(repr, words)
            raise ValueError(f"the value {text!r} of {KEY} is not permitted: write {', '.join(others)} or {last}")
        return text

    return parse


def _parse_finite_number(text: str) -> float:
    try:
        number = float(text) if text.isascii() else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"the value {text!r} of {KEY} is not a number: write a number, such as 30")
    return number


def _parse_integer(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+(_[0-9]+)*(\.0+)?", text):
        raise ValueError(
            f"the value {text!r} of {KEY} is not a whole number: write a number without a fraction, such as 30"
        )
    if len(text) > 100:
        raise ValueError(
            f"the number in {KEY}, which begins with {text[:40]}, has more than 100 digits: write a smaller number"
        )
    return int(text.partition(".")[0])


def number_parser(most: int, *, above: int | None = None) -> Callable[[str], float]:
    """Return a parser of numbers in agent.conf, up to ``most``.

    The least number is 0, or above ``above``. The parser raises ValueError with the reason.
    """

    def parse(text: str) -> float:
        number = _parse_finite_number(text)
        if above is not None and number <= above:
            raise ValueError(f"the value {text!r} of {KEY} is too small: write a number above {above}")
        return _check_range(number, 0, most)

    return parse


def integer_parser(least: int, most: int) -> Callable[[str], int]:
    """Return a parser of integers in agent.conf, from ``least`` to ``most``.

    The parser raises ValueError with the reason.
    """
    return lambda text: _check_range(_parse_integer(text), least, most)


def _check_range(number: Number, least: int, most: int) -> Number:
    if number < least:
        raise ValueError(f"the value {number} of {KEY} is too small: write at least {least}")
    if number > most:
        raise ValueError(f"the value {number} of {KEY} is too large: write at most {most}")
    return number


def duration_parser(default: Any) -> Callable[[str], Any]:
    """Return a function that parses the text of a duration in agent.conf, and returns the duration in seconds.

    Durations are above 0 and at most 86400. ``default`` is the key's default value: if it is a pair, the function
    parses a pair of durations, and if it is an integer, an integer. The function raises ValueError with the reason.
    """

    def parse(text: str) -> Any:
        if isinstance(default, tuple):
            try:
                shortest, longest = map(_parse_finite_number, _split_list(text))
            except ValueError:
                raise ValueError(
                    f"the value {text!r} of the key connecting.fast.pause of agent.conf is not a pair of "
                    "numbers: write the "
                    "shortest and the longest "
                    "pause between two attempts to connect, in seconds, such as 0.5,5"
                ) from None
            duration: Any = shortest, longest
        else:
            duration = _parse_integer(text) if isinstance(default, int) else _parse_finite_number(text)
        if not all(0 < seconds <= 86_400 for seconds in (duration if isinstance(duration, tuple) else (duration,))):
            raise ValueError(
                f"the value {text!r} of {KEY} is not permitted: write a number of seconds above 0 and at most 86400"
            )
        return duration

    return parse
