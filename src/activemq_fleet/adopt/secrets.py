"""Find passwords in existing files and replace each by a reference, so that none is written to the inventory.

An adopted inventory reads each password from a file below ``.secrets`` next to the inventory, to which the operator
writes the current password. No lookup creates such a file, because brokers would reject all clients if the password
were random. Until the file exists, the value is a placeholder that ``site`` rejects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from activemq_fleet.adopt.compared_element import ComparedElement, compared_element_from_lxml
from activemq_fleet.inventory_yaml import escape_jinja_delimiters
from activemq_fleet.node.masking import is_secret_name, mask_configuration_file_text
from activemq_fleet.schema import UnreadableXmlError, parse_xml_root_element
from activemq_fleet.settings.default_credentials import is_default_credential
from activemq_fleet.site_refusals import placeholder_of_missing_password

MASK = "***"
_PASSWORD_NAME = re.compile(r"(?:password|passwd|passphrase|pwd|secret)$", re.IGNORECASE)
# A password inside a text: ``?password=x``, ``//user:x@host``, Oracle's ``:user/x@host``. A reference to a secret is
# not a password. Each alternative begins with fixed characters, so that a search takes linear time.
_PASSWORD_IN_TEXT = re.compile(
    r"(?i)((?:password|passwd|passphrase|pwd|secret|(?:secret|access|api)[._-]?key|(?:auth|access)[._-]?token)"
    r"(?:\s*=\s*|:\s+)(?:RAW\(|[\"'])?)([^&;)\s\"',]+)"
    r"|(//[^/\s:@(]+:)([^@/\s]+)(?=@)(?!(?<==)@\.secrets/)"
    r"|(jdbc:oracle:\w+:[^/\s:@]+/)([^@/\s]+)(?=@)"
)
# A placeholder with a default, ``${name:default}``, contains a password in clear text.
_NOT_CLEAR_TEXT = re.compile(r"\$\{[^}:]*:?\}|ENC\(.*\)|#[^{].*|\*\*\*|true|false|@\.secrets/[^@]*@|")
# An attribute of networkConnector: a separator in the client ids of bridges.
_HARMLESS_TOKENS = frozenset({"clientIdToken"})
_EXPRESSION = re.compile(r"#\{([^{}]*)\}")
_KEYS_IN_EXPRESSION = re.compile(r"\[[^\[\]]*\]")
_NOT_IN_LABEL = re.compile(r"[^A-Za-z0-9._-]+")
# These characters enclose the label of a secret in a text. ``sources`` rejects XML that contains them.
_LABEL_START, _LABEL_END = "\ue000", "\ue001"
_MARKED_LABEL = re.compile(f"{_LABEL_START}([^{_LABEL_END}]*){_LABEL_END}")


@dataclass(frozen=True, slots=True)
class SecretFileReference:
    """A reference to a secret, whose value is in the file ``.secrets/LABEL``."""

    label: str

    @property
    def lookup_expression(self) -> str:
        """The Jinja lookup expression that reads the secret from its file.

        While the file does not exist, the expression evaluates to a placeholder. It has no braces.
        """
        path = f"secrets ~ '/{self.label}'"
        placeholder = placeholder_of_missing_password(self.label)
        return f"lookup('ansible.builtin.file', {path}) if ({path}) is file else '{placeholder}'"


@dataclass(frozen=True, slots=True)
class TextWithSecretLabels:
    """A text in which each password is replaced by the label of its secret.

    The labels are between private-use characters.
    """

    marked: str

    @property
    def labels_of_secrets_in_text(self) -> set[str]:
        """The set of the labels of the secrets that a text contains; a label names the file of a secret."""
        return set(_MARKED_LABEL.findall(self.marked))

    @property
    def text_with_secret_markers(self) -> str:
        """The text in which a marker ``@.secrets/LABEL@``, which names a secret's file, replaces each password.

        It is for rendering and comparing.
        """
        return _MARKED_LABEL.sub(r"@.secrets/\1@", self.marked)

    @property
    def text_as_jinja_template(self) -> str:
        """The text as a Jinja template in which a lookup of a secret's file replaces each password.

        Other Jinja markup is quoted.
        """
        pieces = _MARKED_LABEL.split(self.marked)
        pieces[::2] = map(escape_jinja_delimiters, pieces[::2])
        pieces[1::2] = (f"{{{{ {SecretFileReference(label).lookup_expression} }}}}" for label in pieces[1::2])
        return "".join(pieces)


@dataclass
class LabeledPasswords:
    """The passwords found in the configuration files of existing brokers, by a label that names their purpose.

    Each different value of a name has a separate label.
    """

    _labels: dict[tuple[str, str], str] = field(default_factory=dict)
    _used_labels: set[str] = field(default_factory=set)
    _next_number: dict[str, int] = field(default_factory=dict)
    used: dict[str, str] = field(default_factory=dict)
    """A description of each label's password."""
    accounts_with_default_password: dict[str, str] = field(default_factory=dict)
    """The account of each label whose current password is a default of ActiveMQ or of another product."""

    def secret_file_reference_for(self, name: str, value: str, purpose: str) -> SecretFileReference:
        """Return a reference to the secret file ``.secrets/LABEL``, which replaces a password in the inventory.

        It is the same one for the same name and value. ``purpose``, the password's use, is noted the first time.
        """
        key = name, "" if _is_reference(value) else value
        label = self._labels.get(key)
        if label is None:
            slug = _NOT_IN_LABEL.sub("-", name).strip("-.") or "secret"
            label = slug
            while label in self._used_labels:
                number = self._next_number[slug] = self._next_number.get(slug, 1) + 1
                label = f"{slug}-{number}"
            self._labels[key] = label
            self._used_labels.add(label)
        if is_default_credential(name, value):
            self.accounts_with_default_password[label] = name
            purpose = f"new {purpose}"
        self.used.setdefault(label, purpose)
        return SecretFileReference(label)


def is_clear_text_password(name: str, value: str) -> bool:
    """Return whether the value of an attribute is a password in clear text.

    It is no placeholder, no reference, and not encrypted.
    """
    return is_password_name(name) and not _is_reference(value)


def is_password_name(name: str) -> bool:
    """Return whether an attribute's name is that of a password.

    Keys and tokens count as passwords.
    """
    return _PASSWORD_NAME.search(name) is not None or (name not in _HARMLESS_TOKENS and is_secret_name(name))


def _is_reference(value: str) -> bool:
    """Return whether a password attribute refers to a placeholder, bean or encrypted value in place of a password."""
    expression = _EXPRESSION.fullmatch(value.strip())
    if expression:
        # A literal inside brackets is the name of a property.
        return not {"'", '"'} & set(_KEYS_IN_EXPRESSION.sub("", expression[1]))
    return _NOT_CLEAR_TEXT.fullmatch(value) is not None


def attribute_contains_clear_text_password(name: str, value: str) -> bool:
    """Return whether the value of an attribute contains a password in clear text.

    A URI may contain one.
    """
    return with_masked_passwords(ComparedElement("", {name: value})).get(name) != value


def file_contains_clear_text_password(path: str, text: str) -> bool:
    """Return whether a configuration file contains a password in clear text.

    Comments are included. A text that is not XML, although its file is imported as such, counts as one that does.
    """
    try:
        node = compared_element_from_lxml(parse_xml_root_element(text.encode()))
    except (UnreadableXmlError, UnicodeEncodeError):
        return True
    masked = with_masked_passwords(node)
    return masked.equivalence_key != node.equivalence_key or mask_configuration_file_text(f"{path}.xml", text) != text


def with_masked_passwords(node: ComparedElement) -> ComparedElement:
    """Return an XML element with every clear-text password masked by ``***``."""
    return _replace_passwords(node, lambda _node, _name, _value: MASK)


def element_with_secret_labels(element: ComparedElement, secrets: LabeledPasswords) -> ComparedElement:
    """Return a copy of an XML element with labels of secrets in place of clear-text passwords."""

    def label_text(node: ComparedElement, name: str, value: str) -> str:
        owner = node.get("username") or node.get("userName") or node.get("id")
        element_name = node.get("name") or node.get("key")
        element_text = (
            f'<{node.name} name="{element_name}">' if element_name and element_name != name else f"<{node.name}>"
        )
        secret = secrets.secret_file_reference_for(owner or f"{node.name}-{name}", value, f"{name} of {element_text}")
        return f"{_LABEL_START}{secret.label}{_LABEL_END}"

    return _replace_passwords(element, label_text)


def _replace_passwords(
    node: ComparedElement, replacement_of: Callable[[ComparedElement, str, str], str], *, below_secret: bool = False
) -> ComparedElement:
    """Return an XML element with each clear-text password replaced by ``replacement_of(element, name, value)``."""
    is_secret = below_secret or any(is_password_name(node.get(name)) for name in ("name", "key"))

    def replace_in_attribute(name: str, value: str) -> str:
        local_name = name.rpartition("}")[2]
        if is_clear_text_password(local_name, value) or (
            is_secret and local_name == "value" and not _is_reference(value)
        ):
            return replacement_of(node, local_name if local_name != "value" else node.get("name") or "value", value)
        return _replace_in_text(value, node, replacement_of)

    def replace_in_plain_text(text: str) -> str:
        if is_secret and not _is_reference(text.strip()):
            return replacement_of(node, node.get("key") or "text", text.strip())
        return _replace_in_text(text, node, replacement_of)

    secret_children = {id(child) for child in _secret_arguments(node)}
    children = [
        _replace_passwords(child, replacement_of, below_secret=is_secret or id(child) in secret_children)
        for child in node.children
    ]
    return replace(
        node,
        attributes={name: replace_in_attribute(name, value) for name, value in node.attributes.items()},
        text=replace_in_plain_text(node.text),
        children=tuple(replace(child, tail=replace_in_plain_text(child.tail)) for child in children),
    )


def _secret_arguments(node: ComparedElement) -> Iterator[ComparedElement]:
    """Yield the children of an XML element that the preceding children identify as passwords.

    These are the arguments of a bean that calls a method such as ``setPassword``, and in a list the value after the
    name of a password, as in the arguments of ``System.setProperty``.
    """
    methods = [child.get("value") for child in node.children if child.get("name") in ("targetMethod", "staticMethod")]
    if any(is_password_name(method.rpartition(".")[2].removeprefix("set")) for method in methods):
        yield from (child for child in node.children if child.get("name") == "arguments")
    for name, value in pairwise(node.children):
        if name.name == value.name == "value" and is_password_name(name.text.strip()):
            yield value


def _replace_in_text(
    text: str, node: ComparedElement, replacement_of: Callable[[ComparedElement, str, str], str]
) -> str:
    """Return a text whose passwords inside URIs, ``?password=x`` and ``//user:x@host``, are replaced."""
    if not any(separator in text for separator in ("=", "@", ": ")):
        return text

    def replace_password(match: re.Match[str]) -> str:
        prefix, value = next(pair for pair in zip(match.groups()[::2], match.groups()[1::2], strict=True) if pair[0])
        return match[0] if _is_reference(value) else prefix + replacement_of(node, "uri-password", value)

    return _PASSWORD_IN_TEXT.sub(replace_password, text)


def with_secret_references(name: str, value: Any, secrets: LabeledPasswords) -> Any:
    """Return a variable's value in which references to files ``.secrets/LABEL`` replace clear-text passwords.

    Values at any depth are replaced.
    """
    if isinstance(value, dict):
        return {key: with_secret_references(str(key), item, secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [with_secret_references(name, item, secrets) for item in value]
    if not isinstance(value, str):
        return value
    if is_clear_text_password(name, value):
        return secrets.secret_file_reference_for(name, value, f"{name} of a variable")

    def label_text(_node: ComparedElement, kind: str, password: str) -> str:
        reference = secrets.secret_file_reference_for(kind, password, f"password inside {name}")
        return f"{_LABEL_START}{reference.label}{_LABEL_END}"

    marked = _replace_in_text(value, ComparedElement("", {}), label_text)
    return value if marked == value else TextWithSecretLabels(marked)


def replace_secret_references_with_placeholders(value: Any) -> Any:
    """Return a variable's value with each reference to a secret, such as a password, replaced by a placeholder.

    The fleet model accepts these placeholders.
    """
    if isinstance(value, SecretFileReference):
        return f"secret-{value.label}"
    if isinstance(value, TextWithSecretLabels):
        return value.text_with_secret_markers
    if isinstance(value, dict):
        return {name: replace_secret_references_with_placeholders(item) for name, item in value.items()}
    return [replace_secret_references_with_placeholders(item) for item in value] if isinstance(value, list) else value
