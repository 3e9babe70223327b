# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Masks the secrets in texts of a host.

The package runs on managed hosts, so that no secret leaves them, and as ``activemq_fleet.node.masking`` in the
library (a link to this directory), so that planned and collected files are masked by the same rules and
can be compared. A secret whose variable is known becomes ``@VARIABLE@``, as in planned files; any
other becomes ``@secret@``. References such as ``${activemq.password}`` stay. Masking a masked text
again changes nothing. The time is proportional to the length of the text. The package imports only the standard
library of Python 3.9.

A text passes through the stages one after the other: known secrets (``known``), XML and tables (``documents``),
values that follow a secret's name (``named``), secrets that are recognized by their shape (``shapes``), and lines of
files (``documents``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from fnmatch import fnmatch

from .documents import mask_lines, mask_markup, mask_password_columns_of_tables, syntax_of_file
from .known import NO_SECRETS, KnownSecret, KnownSecrets, secrets_from_masked_text
from .marks import CUT_NOTE, IS_CUT, UNKNOWN, is_secret_free_value
from .named import mask_values_of_secret_names
from .names import is_secret_name
from .shapes import mask_secrets_by_shape

__all__ = [
    "NO_SECRETS",
    "UNKNOWN",
    "KnownSecret",
    "KnownSecrets",
    "is_secret_name",
    "mask_and_shorten",
    "mask_command_line",
    "mask_configuration_file_text",
    "mask_json_value",
    "mask_text",
    "reason_to_omit_from_evidence",
    "secrets_from_masked_text",
]

LINE_LENGTH = 65536
"""Number of characters after which lines of logs and journals are cut."""

_MAX_GROWTH = 16
"""A line that was cut already may be this many times ``LINE_LENGTH`` long, because masking made it longer."""
_MAX_ROUNDS = 6
_MAX_SHORTENED = 4096
"""Number of characters of a text that are masked before it is shortened."""
_OPTION = re.compile(r"--?(?P<name>[\w.-]{1,200})")
_KEYSTORE_FILES = (
    "*.jks",
    "*.jceks",
    "*.ks",
    "*.ts",
    "*.keystore",
    "*.truststore",
    "*.p12",
    "*.pfx",
    "*.pkcs12",
    "*.bks",
)
_KEY_FILES = ("*.key", "*.pem", "*.der", "id_rsa*", "id_ed25519*", "id_ecdsa*")
_KEYSTORE_BEGINS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce", b"\x30\x82", b"\x30\x80")


def mask_configuration_file_text(path: str, text: str, known: KnownSecrets = NO_SECRETS) -> str:
    """Return the text of a configuration file with its secrets masked.

    They are replaced by marks such as ``@secret@``.
    """
    return _mask_until_stable(text, known, syntax_of_file(path))


def mask_text(text: str, known: KnownSecrets = NO_SECRETS) -> str:
    """Return a text, such as a log, with its secrets masked.

    The text is not a configuration file; marks replace the secrets. Lines above ``LINE_LENGTH`` characters are cut,
    with a note of how many characters were left out.
    """
    if len(text) > LINE_LENGTH:
        text = "\n".join(_cut_line(line) if len(line) > LINE_LENGTH else line for line in text.split("\n"))
    return _mask_until_stable(text, known, "text")


def mask_and_shorten(text: str, length: int) -> str:
    """Return at most ``length`` characters of a text, such as a log message, with its secrets masked.

    ``length`` is at most 1,000. The text is masked before it is shortened, because what follows a secret may show that
    it is one, such as the ``@`` after the password of a URI.
    """
    return mask_text(text[:_MAX_SHORTENED])[:length]


def _cut_line(line: str) -> str:
    if len(line) <= LINE_LENGTH * _MAX_GROWTH and IS_CUT.search(line, len(line) - 80):
        return line
    return line[:LINE_LENGTH] + CUT_NOTE.format(len(line) - LINE_LENGTH)


def mask_command_line(words: Sequence[str], known: KnownSecrets = NO_SECRETS) -> list[str]:
    """Return the words of a command line with their secrets masked.

    They are replaced by marks such as ``@secret@``.
    """
    masked: list[str] = []
    for number, word in enumerate(words):
        name, equals, value = word.partition("=")
        option = _OPTION.fullmatch(words[number - 1]) if number else None
        if option and is_secret_name(option["name"]) and not option["name"].startswith(("ask", "no-", "prompt")):
            masked.append(_mask_value(word, "", known))
        elif equals and is_secret_name(name.lstrip("-")):
            masked.append(f"{name}={_mask_value(value, f'{name}=', known)}")
        elif option and option["name"] in ("u", "U", "p", "P", "a", "w", "k", "user", "proxy-user"):
            masked.append(_mask_after_text(f"{words[0]} {option[0]} ", word, known))
        elif number and word.startswith("-"):
            masked.append(_mask_after_text(f"{words[0]} ", word, known))
        else:
            masked.append(mask_text(word, known))
    return masked


def _mask_after_text(before: str, word: str, known: KnownSecrets) -> str:
    """Return one word of a command line, masked with regard to the text ``before`` it."""
    masked = mask_text(before + word.replace(" ", "\0"), known).replace("\0", " ")
    return masked[len(before) :] if masked.startswith(before) else UNKNOWN


def mask_json_value(data: object, known: KnownSecrets = NO_SECRETS) -> object:
    """Return a JSON value with its secrets masked.

    Those are secrets in its texts, and all values of keys such as ``password``.
    """
    if isinstance(data, str):
        return mask_text(data, known)
    if isinstance(data, dict):
        return {
            key: _mask_value(value, "", known)
            if isinstance(value, str) and is_secret_name(str(key))
            else mask_json_value(value, known)
            for key, value in data.items()
        }
    if isinstance(data, (list, tuple)):
        return [mask_json_value(value, known) for value in data]
    return data


def reason_to_omit_from_evidence(path: str, content: bytes) -> str:
    """Return the reason why a configuration file is omitted from the collected evidence; empty for other files.

    It is a key store, for instance, or not a text.
    """
    name = os.path.basename(path).lower()
    if any(fnmatch(name, pattern) for pattern in _KEYSTORE_FILES):
        return "the file is a keystore"
    if any(fnmatch(name, pattern) for pattern in _KEY_FILES):
        return "the file is a private key or a certificate"
    if content.startswith(_KEYSTORE_BEGINS):
        return "the file is a keystore or a certificate"
    try:
        return "the file is not text" if "\0" in content.decode() else ""
    except UnicodeDecodeError:
        return "the file is not text"


def _mask_value(value: str, before: str, known: KnownSecrets) -> str:
    return value if is_secret_free_value(value) else known.mark_for_secret(value, before)


def _mask_until_stable(text: str, known: KnownSecrets, kind: str) -> str:
    """Return the text, masked repeatedly until masking changes nothing: a mark may expose a secret next to it.

    A line that still changes after ``_MAX_ROUNDS`` rounds is masked completely.
    """
    before = text
    for _index in range(_MAX_ROUNDS):
        before, text = text, _mask_once(text, known, kind)
        if text == before:
            return text
    lines, lines_before = text.split("\n"), before.split("\n")
    if len(lines) != len(lines_before):
        return text
    return "\n".join(
        masked_line if masked_line == line_before else UNKNOWN for masked_line, line_before in zip(lines, lines_before)
    )


def _mask_once(text: str, known: KnownSecrets, kind: str) -> str:
    def mask_any(part: str, before: str = "") -> str:
        return mask_secrets_by_shape(mask_values_of_secret_names(part, known, kind, before), known, before)

    text = known.mask_known_secrets(text)
    if kind == "shiro":
        text = mask_lines(text, known, kind)  # first, because a value that is continued may hide the line ``[users]``
    if kind == "xml":
        return mask_markup(text, known, mask_any)
    if "<" in text:
        text = mask_markup(text, known, lambda part, _before: part)
    return mask_lines(mask_any(mask_password_columns_of_tables(text, known)), known, kind)
