"""Template variables as Ansible does, fast for many hosts, and without failing at encrypted values.

A value is what ``hostvars[host][name]`` gives, with two differences: it is of plain
Python types, and an encrypted value that cannot be opened is an ``UndecryptedVaultValue`` instead of an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from secrets import token_hex
from typing import Any

from ansible.parsing.vault import EncryptedString
from ansible.utils.vars import transform_to_native_types

from activemq_fleet._ansible_internals import (
    Marker,
    MarkerBehavior,
    RoutingMarkerBehavior,
    TemplateEngine,
    TemplateOptions,
    TruncationMarker,
    VaultExceptionMarker,
    is_possibly_template,
)
from activemq_fleet.settings.encrypted import UndecryptedVaultValue

_PLAIN_TYPES = frozenset({str, int, float, bool, type(None)})


class _EncryptedValues(MarkerBehavior):  # type: ignore[misc]  # Ansible carries no types
    """A handler that puts a placeholder where a Jinja template uses a value that cannot be decrypted."""

    def __init__(self) -> None:
        self._ciphertexts: list[str] = []
        self._token = token_hex(16)  # no inventory contains it
        self._placeholder = re.compile(f"<{self._token}:([0-9]+)>")

    def handle_marker(self, value: Marker) -> str:
        if isinstance(value, TruncationMarker):
            return ""  # the text after the placeholder in a template that is truncated there
        self._ciphertexts.append(str(value._marker_undecryptable_ciphertext))
        return f"<{self._token}:{len(self._ciphertexts) - 1}>"

    def restore_ciphertexts(self, text: str) -> str | UndecryptedVaultValue:
        """Replace the placeholders of encrypted values in a text by their ciphertexts, and return the text.

        Two results are equal if their texts and their ciphertexts are equal.
        """
        if self._token not in text:
            return text
        return UndecryptedVaultValue(self._placeholder.sub(lambda match: self._ciphertexts[int(match[1])], text))


class _Engine(TemplateEngine):  # type: ignore[misc]  # Ansible carries no types
    """Ansible's template engine with compiled templates cached for all hosts: compiling takes most of the time."""

    def __init__(self, loader: Any, encrypted: _EncryptedValues) -> None:
        marker_behavior = RoutingMarkerBehavior({VaultExceptionMarker: encrypted, TruncationMarker: encrypted})
        super().__init__(loader=loader, marker_behavior=marker_behavior)
        self._compiled: dict[tuple[str, TemplateOptions], Any] = {}

    def _compile_template(self, template: str, options: TemplateOptions) -> Any:
        key = str.__str__(template), options
        compiled = self._compiled.get(key)
        if compiled is None:
            compiled = self._compiled[key] = super()._compile_template(template, options)
        return compiled


class TemplateEvaluator:
    """An evaluator of Jinja templates with the variables of one host at a time."""

    def __init__(self, loader: Any) -> None:
        self._encrypted = _EncryptedValues()
        self._engine = _Engine(loader, self._encrypted)
        # Hosts share the values of their groups. The keys are ids, so the values are kept alive.
        self._constants: dict[int, tuple[Any, Any]] = {}

    def switch_to_host(self, variables: dict[str, Any]) -> TemplateEvaluator:
        """Switch the evaluator of Jinja templates to the variables of another host.

        Return the evaluator itself.
        """
        self._engine.available_variables = variables
        return self

    def evaluate_template(self, raw: Any) -> Any:
        """Evaluate a Jinja template, and return its value.

        The value has plain Python types. Raises AnsibleError for a template that fails.
        """
        raw_type = type(raw)
        if raw_type in _PLAIN_TYPES and (raw_type is not str or not is_possibly_template(raw)):
            return raw
        cached = self._constants.get(id(raw))
        if cached is not None:
            return cached[1]
        value = self._to_plain_value(self._engine.template(raw))
        if _is_constant(raw):
            self._constants[id(raw)] = raw, value
        return value

    def _to_plain_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._encrypted.restore_ciphertexts(str.__str__(value))
        if isinstance(value, Mapping):
            return {self._to_plain_value(key): self._to_plain_value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._to_plain_value(item) for item in value]
        return value if type(value) in _PLAIN_TYPES else transform_to_native_types(value, redact=False)


def _is_constant(raw: Any) -> bool:
    """Return whether a value contains no template, so that it is equal for every host that has it."""
    if isinstance(raw, str):
        return not is_possibly_template(raw)
    if isinstance(raw, Mapping):
        return all(_is_constant(key) and _is_constant(value) for key, value in raw.items())
    if isinstance(raw, list | tuple):
        return all(_is_constant(item) for item in raw)
    return type(raw) in _PLAIN_TYPES or isinstance(raw, EncryptedString | int | float)
