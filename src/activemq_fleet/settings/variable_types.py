"""Define the types of variables' values: each validates a value and raises an error with the remedy.

Nothing from a variable may reach a file as anything but text. Spring resolves ``${…}`` and evaluates ``#{…}`` in every
attribute of the broker's XML, Jinja ``{{…}}``: a value that contains one of them is refused at any position. URIs are
put together from parts that are checked here, so that no scheme such as ``vm:`` or ``xbean:`` can be smuggled into one
(CVE-2026-34197, CVE-2026-42588).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    SecretStr,
)
from pydantic_core import core_schema

from activemq_fleet.addresses import join_host_port, parse_address_and_tls, parse_listening_address, validated_host_name
from activemq_fleet.errors import text_required_message
from activemq_fleet.node.process.service_names import WATCHDOG_SUFFIX
from activemq_fleet.releases import example_release
from activemq_fleet.settings.encrypted import UndecryptedVaultValue

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff\ud800-\udfff]")
_LINE_END = re.compile(r"[\r\n\t]")
_EVALUATED = ("${", "#{", "{{", "{%", "{#")
# The directories that the start script hands to the JVM; attributes may refer to them.
_DIRECTORIES = re.compile(r"\$\{activemq\.(?:base|home|data|conf)\}")
_SHOWN = 60
"""The number of characters of a wrong value that an error quotes."""
SETTING_VALUE = "the value of the setting"
"""The subject of errors about a value that they do not quote; ``read_settings`` adds the name of the setting."""
# Where the broker takes a URI, these start another broker or load a file from anywhere.
_LOADED = re.compile(r"\b(?:vm|xbean|broker|properties|peer):", re.IGNORECASE)


def check_set_together(**values: object) -> None:
    """Raise ValueError if only one of two host variables that must be set together is set.

    The variables are given by name.
    """
    names = [name for name, value in values.items() if value is not None]
    missing = [name for name, value in values.items() if value is None]
    if names and missing:
        raise ValueError(f"{names[0]} is set, but {missing[0]} is not: set {missing[0]}, or remove {names[0]}")


def check_literal_text(text: str) -> str:
    """Check that a setting's text has no control character or Spring or Jinja expression, and return the text.

    Raise ValueError if it has.
    """
    if control := _CONTROL.search(text):
        raise ValueError(
            f"the value of the setting contains the control character U+{ord(control[0]):04X}: remove this character"
        )
    for mark in _EVALUATED:
        if mark in text:
            raise ValueError(
                f"the value of the setting contains {mark!r}, which begins a Spring or Jinja expression: write the "
                f"value without {mark!r}"
            )
    return text


def _check_line(text: str) -> str:
    if _LINE_END.search(text):
        raise ValueError(
            "the value of the setting contains a line break or a tab: write the value in one line without tabs"
        )
    return check_literal_text(text)


def _check_filled(text: str) -> str:
    if not text:
        raise ValueError("the value of the setting is empty: write a value, or remove the setting")
    if text != text.strip():
        raise ValueError(
            f"the value {text[:_SHOWN]!r} begins or ends with spaces or line breaks: remove them at both ends"
        )
    return _check_line(text)


def _check_loaded(text: str) -> str:
    match = _LOADED.search(text)
    if match:
        raise ValueError(
            f"the value of the setting contains the URI scheme {match[0]!r}, which can start another broker or load a "
            "file: remove the scheme"
        )
    return text


def _check_directories(text: str) -> str:
    _check_line(_DIRECTORIES.sub("", text))
    return _check_loaded(text)


def check_absolute_path(text: str) -> str:
    """Check that a path is absolute, and return it without a trailing slash.

    Raise ValueError for ``..`` and special characters.
    """
    _check_filled(text)
    if not text.startswith("/"):
        raise ValueError(f"the path {text[:_SHOWN]!r} is not absolute: write an absolute path such as /srv/activemq")
    if ".." in text.split("/"):
        raise ValueError(f"the path {text[:_SHOWN]!r} contains '..': write an absolute path without '..'")
    if special := re.search(r"[\s\"'`$;&|<>*?\\%:,!#{}()\[\]]", text):
        raise ValueError(
            f"the path {text[:_SHOWN]!r} contains {special[0]!r}, which is special in shells, systemd or Java: use "
            "only letters, digits, / . _ and -"
        )
    return text if text == "/" else text.rstrip("/")


def _check_port(text: str) -> str:
    if int(text.rpartition(":")[2]) > 65535:
        raise ValueError(f"the port in {text[:_SHOWN]!r} is above 65535: write a port from 1 to 65535")
    return text


class MatchingTextValidator:
    """A pydantic validator for text that must match a regular expression as a whole.

    The text must also pass :func:`check_literal_text`. ``requirement`` is the end of the error for text that does not
    match: "must be a size such as 512m". The error begins with the text, unless it ``may_be_secret``.
    """

    def __init__(self, regex: str, requirement: str, *, may_be_secret: bool = False) -> None:
        self._compiled = re.compile(regex)
        self._requirement = requirement
        self._may_be_secret = may_be_secret

    def check_matches(self, text: str) -> str:
        """Check that a text matches the validator's regular expression, and return the text unchanged.

        It must match as a whole. Raise ValueError if it does not, and for texts that ``check_literal_text`` rejects.
        """
        if not self._compiled.fullmatch(text):
            shown = "" if self._may_be_secret else f" {text[:_SHOWN]!r}"
            raise ValueError(f"the value{shown} {self._requirement}")
        return check_literal_text(text)

    def check_number_matches_pattern(self, value: Any) -> Any:
        """Check that a number, as text, matches the validator's regular expression, and return the number unchanged.

        Raise ValueError if it does not match. A value that is no number is not checked.
        """
        if isinstance(value, int | float) and not isinstance(value, bool):
            self.check_matches(str(value))
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        matching = core_schema.no_info_after_validator_function(self.check_matches, handler(source))
        return core_schema.no_info_before_validator_function(self.check_number_matches_pattern, matching)

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        described = handler(schema)
        # Editors read patterns as JavaScript does, which has no flags inside an expression.
        regex = self._compiled.pattern.replace("(?a:", "(?:")
        return described if "(?i:" in regex or "pattern" in described else described | {"pattern": f"^(?:{regex})$"}


def matching_text_validator(regex: str, requirement: str, *, may_be_secret: bool = False) -> MatchingTextValidator:
    """Return a pydantic validator of text that must match a regular expression.

    ``requirement`` ends the error for other text.
    """
    return MatchingTextValidator(regex, requirement, may_be_secret=may_be_secret)


def _secret(value: Any) -> SecretStr | UndecryptedVaultValue:
    if isinstance(value, UndecryptedVaultValue):
        return value
    if not isinstance(value, str | SecretStr):
        raise ValueError(text_required_message("the password", value))
    text = value.get_secret_value() if isinstance(value, SecretStr) else str(value)
    if not text:
        raise ValueError("the value of the setting is empty, but must be a password: set a password")
    return SecretStr(_check_line(text))


def _split_words(value: Any) -> Any:
    """Return the words of a comma-separated text as a list.

    Any other value is returned unchanged.
    """
    return [word.strip() for word in value.split(",") if word.strip()] if isinstance(value, str) else value


def _no_float(value: Any) -> Any:
    if isinstance(value, float | int) and not isinstance(value, bool):
        example = example_release(str(value))
        note = " (5.10 as 5.1)" if example.startswith(f"{value}0.") else ""
        raise ValueError(
            f"YAML reads the release {value} as a number{note}: write all three parts of the release, such as {example}"
        )
    return value


def _text_by_release_validator(check: Callable[[str], str]) -> PlainValidator:
    """Return a pydantic validator for one text for all releases, or a mapping from releases to texts.

    ``check`` validates each text.
    """

    def read(value: Any) -> str | dict[str, str]:
        if isinstance(value, str):
            return check(str(value))
        if not isinstance(value, Mapping):
            raise ValueError(
                "the value of the setting is neither text nor a mapping: write one text for all releases, or a mapping "
                "with one text for each release, such as {'5.18.6': TEXT}"
            )
        return {_check_release(key): _check_entry(key, text) for key, text in value.items()}

    def _check_entry(key: Any, text: Any) -> str:
        if not isinstance(text, str):
            raise ValueError(text_required_message(f"the value for release {key}", text))
        try:
            return check(str(text))
        except ValueError as error:
            raise ValueError(f"the value for release {key} is not valid: {error}") from None

    return PlainValidator(read, json_schema_input_type=str | dict[str, str])


def _check_release(key: Any) -> str:
    if not isinstance(key, str):
        raise ValueError(
            f"YAML reads the key {key} as a number: write all three parts of the release, such as "
            f"{example_release(str(key))}"
        )
    if not re.fullmatch(r"\d+\.\d+\.\d+", key, re.ASCII):
        raise ValueError(f"the key {key[:_SHOWN]!r} is not a complete release: write a release such as 5.18.6")
    return str(key)


def _check_sha512(text: str) -> str:
    """Return a text unchanged if it is a hexadecimal SHA-512 checksum, and raise ValueError otherwise."""
    if not re.fullmatch("[0-9a-fA-F]{128}", text):
        raise ValueError(
            f"the value {text[:_SHOWN]!r} is not a SHA-512 checksum: write 128 hexadecimal digits, as in the file "
            ".sha512 of the archive"
        )
    return text


Line = Annotated[str, AfterValidator(_check_line)]
# One path or URL, or one a release.
Archive = Annotated[str | dict[str, str], _text_by_release_validator(_check_line)]
Sha512 = Annotated[str | dict[str, str], _text_by_release_validator(_check_sha512)]
Text = Annotated[str, AfterValidator(_check_filled)]
Attribute = Annotated[str, AfterValidator(_check_directories)]
AbsolutePath = Annotated[str, AfterValidator(check_absolute_path)]
Host = Annotated[str, AfterValidator(_check_filled), AfterValidator(validated_host_name)]
ReleaseText = Annotated[str, BeforeValidator(_no_float), AfterValidator(_check_filled)]
Name = Annotated[
    str,
    matching_text_validator(
        r"[A-Za-z0-9._:-]+",
        "must contain only letters, digits and . _ : -, such as orders-1, because ActiveMQ replaces other characters",
    ),
]
# Of connectors and links: what others called them stays, since durable subscriptions of bridges carry it.
BeanName = Annotated[
    str,
    matching_text_validator(
        r"[A-Za-z0-9](?:[A-Za-z0-9 ._:+>/@()-]*[A-Za-z0-9)])?",
        "must contain only letters, digits, spaces and . _ : + > / @ ( ) -, and begin and end with a letter or digit, "
        "such as hub-1",
    ),
]
# Names of users and groups are used in comma-separated lists and in properties files.
Principal = Annotated[
    str,
    matching_text_validator(
        r"[A-Za-z0-9._@-]+", "must contain only letters, digits and . _ @ -, such as orders.app", may_be_secret=True
    ),
]
Scheme = Annotated[
    str,
    matching_text_validator(
        r"[A-Za-z][A-Za-z0-9+.-]*", "must be a URI scheme without a colon, such as nio or mqtt+nio"
    ),
]
Instance = Annotated[
    str,
    matching_text_validator(
        r"[a-z][a-z0-9-]*",
        "must contain only lowercase letters, digits and -, and begin with a letter, such as activemq-2",
    ),
    matching_text_validator(
        rf".*(?<!{WATCHDOG_SUFFIX})",
        f"must not end with {WATCHDOG_SUFFIX}, which is the suffix of the watchdog's service unit: choose another name",
    ),
]
# YAML reads a bare ``off`` as false.
Watchdog = Annotated[
    Literal["off", "warn", "kill"],
    BeforeValidator(
        lambda mode: "off" if mode is False else mode, json_schema_input_type=Literal["off", "warn", "kill", False]
    ),
]
UnixName = Annotated[
    str, matching_text_validator(r"[a-z_][a-z0-9_-]{0,31}", "must be a Unix user name such as activemq")
]
JavaClass = Annotated[
    str,
    matching_text_validator(
        r"(?a:[A-Za-z_]\w*(\.[A-Za-z_]\w*)+)", "must be the name of a Java class such as org.example.Filter"
    ),
]
Heap = Annotated[str, matching_text_validator(r"[1-9][0-9]*[kKmMgG]", "must be a size such as 512m or 4g")]
MemoryMax = Annotated[
    str, matching_text_validator(r"[1-9][0-9]*[kKmMgG]|infinity", "must be a size such as 2g, or infinity for no limit")
]
Limit = Annotated[
    str, matching_text_validator(r"[1-9][0-9]* ?(?i:b|kb|mb|gb|k|m|g)", "must be a size such as 358 mb or 20 gb")
]
Destination = Annotated[
    str,
    matching_text_validator(
        r"[^\s\"'<&,?\x00-\x1f${}#]+",
        "must be the name of one destination, such as orders.new, or a wildcard such as orders.>",
    ),
]
Multicast = Annotated[
    str,
    matching_text_validator(
        r"(?:22[4-9]|23[0-9])(?:\.(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])){3}:[1-9][0-9]{0,4}",
        "must be a multicast address and port such as 224.1.2.3:6255",
    ),
    AfterValidator(_check_port),
]
NetworkInterface = Annotated[
    str, matching_text_validator(r"[A-Za-z0-9._-]{1,15}", "must be the name of a network interface such as eth0")
]
JavaOption = Annotated[
    str,
    matching_text_validator(
        r"-[^\s\"'`$\\;&|<>%\x00-\x1f]+",
        "must be one Java option that begins with - and contains no space or quote, such as -Xss1m",
        may_be_secret=True,
    ),
]
UriOption = Annotated[
    str,
    matching_text_validator(
        r"[A-Za-z0-9._:/,*@+-]*",
        "must contain only letters, digits and . _ : / , * @ + -, because it becomes part of a URI",
        may_be_secret=True,
    ),
    AfterValidator(_check_loaded),
]
AgentKey = Annotated[
    str,
    matching_text_validator(
        r"[a-z]+(\.[a-z]+)*",
        "must be a key of agent.conf such as connecting.cap, with only lowercase letters and dots",
    ),
]
OptionName = Annotated[
    str, matching_text_validator(r"[A-Za-z][A-Za-z0-9.]*", "must be the name of a URI option such as keepAlive")
]
Port = Annotated[int, Field(ge=1, le=65535)]
Secret = Annotated[SecretStr | UndecryptedVaultValue, PlainValidator(_secret, json_schema_input_type=str)]
Words = BeforeValidator(_split_words, json_schema_input_type=str | list[str])
"""Makes a list of a text of words with commas between them."""
Principals = Annotated[tuple[Principal, ...], Words]


def repeated_names(names: Sequence[str]) -> list[str]:
    """Return the names that a list, such as a list of user names, contains more than once, sorted."""
    return sorted({name for name in names if names.count(name) > 1})


# Values of XML elements.
Count = Annotated[int, Field(ge=0, le=(1 << 31) - 1)]
PositiveCount = Annotated[int, Field(ge=1, le=(1 << 31) - 1)]
OrUnlimited = Annotated[int, Field(ge=-1, le=(1 << 31) - 1)]
"""A number of things; -1 is no limit."""
Milliseconds = Annotated[int, Field(ge=0, le=31_536_000_000)]
Percent = Annotated[int, Field(ge=1, le=100)]
Factor = Annotated[float, Field(gt=0, le=1000)]
Size = Limit
Word = Annotated[str, matching_text_validator(r"[A-Za-z][A-Za-z0-9_.-]*", "must be one word that begins with a letter")]
NamePart = Annotated[
    str,
    matching_text_validator(
        r"[^\s\"'<&,?>\x00-\x1f${}#]*",
        "must be a part of a destination's name, without spaces, quotes and the characters < > & , ? $ { } #",
    ),
]


def option_text(value: Any) -> Any:
    """Return a number or boolean as the text of a URI option or XML attribute.

    Other values are returned unchanged.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else value


OptionText = BeforeValidator(option_text, json_schema_input_type=str | int | bool)
"""Makes text of a number or boolean, as URI options and XML attributes have it."""


def _check_dialled(text: str) -> str:
    parse_address_and_tls(text)
    return text


Dialled = Annotated[str, OptionText, AfterValidator(_check_filled), AfterValidator(_check_dialled)]
"""``host:port``, or ``ssl://host:port``."""
HostAndPort = Annotated[
    str, OptionText, AfterValidator(_check_filled),
    AfterValidator(lambda text: join_host_port(*parse_listening_address(text))),
]  # fmt: skip


_DESTINATION_REQUIREMENT = (
    "must be the name of a queue, queue://NAME or topic://NAME, without spaces, quotes and the characters "
    "< & , ? $ { } #"
)


def _check_destination_pattern(text: str) -> str:
    kind, separator, name = text.partition("://")
    if not separator:
        kind, name = "queue", text
    if kind not in ("queue", "topic") or not name:
        raise ValueError(f"the destination {text[:_SHOWN]!r} {_DESTINATION_REQUIREMENT}")
    return f"{kind}://{name}"


DestinationPattern = Annotated[
    str,
    matching_text_validator(
        # With "/": it is the dot of an MQTT topic (release.mqtt_swaps_dots).
        r"(?:(?:queue|topic)://)?[^\s\"'<&,?\x00-\x1f${}#]+",
        _DESTINATION_REQUIREMENT,
    ),
    AfterValidator(_check_destination_pattern),
]


def _check_filter(text: str) -> str:
    levels = text.split("/")
    for position, level in enumerate(levels):
        if ("#" in level and (level != "#" or position != len(levels) - 1)) or ("+" in level and level != "+"):
            raise ValueError(
                f"{text[:_SHOWN]!r} is not an MQTT topic filter: use + only as a complete level (a/+/b), and # only "
                "as the complete last level (a/#)"
            )
    return text


MqttFilter = Annotated[
    str,
    matching_text_validator(
        r"[^\s,;\"'${}\x00-\x1f]+",
        "must be an MQTT topic filter such as a/+/b or a/#, without spaces, quotes and the characters , ; $ { }",
    ),
    AfterValidator(_check_filter),
]


def check_path_below_broker_directory(path: str) -> str:
    """Check that a path is relative and stays below the broker's directory, and return it.

    Raise ValueError if it does not.
    """
    if path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError(
            f"the path {path[:_SHOWN]!r} is not below the broker's directory, which has conf/ and data/: write a path "
            "relative to this directory, such as conf/extra.xml, without '.' and '..'"
        )
    if path.startswith(".fleet-"):
        raise ValueError(
            f"the path {path[:_SHOWN]!r} begins with .fleet-, which is reserved for the playbooks: choose another name"
        )
    check_absolute_path("/" + path)
    return path


def _check_import(text: str) -> str:
    if ".." in text.split("/"):
        raise ValueError(
            f"the path {text[:_SHOWN]!r} contains '..', but activemq.xml can import only files in its own directory: "
            "move the file there, and write its name"
        )
    if "jetty" in text:
        raise ValueError(
            f"the file {text[:_SHOWN]!r} belongs to the web console: remove this entry, and switch the console on or "
            "off with activemq_console"
        )
    return text


Import = Annotated[
    str,
    matching_text_validator(
        r"(?:classpath:)?[A-Za-z0-9_][A-Za-z0-9._/-]*\.xml",
        "must be the name of a file in the directory of activemq.xml, such as camel.xml",
    ),
    AfterValidator(_check_import),
]


def check_encodable(text: str) -> str:
    """Check that a text can be encoded as UTF-8, and return it unchanged.

    Raise ValueError if it cannot.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            "the value of the setting contains half of a character (an unpaired UTF-16 surrogate), which UTF-8 cannot "
            "represent: remove this character"
        ) from None
    return text
