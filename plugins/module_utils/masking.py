# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The one masker: text of a host in, the same text without its secrets out.

It runs on managed hosts, so that no secret leaves them, and as ``activemq_fleet.masking`` in the
library (a link to this file), so that planned and collected files are masked by the same rules and
can be compared. A secret whose variable is known becomes ``@VARIABLE@``, as in planned files; any
other becomes ``@secret@``. References such as ``${activemq.password}`` stay. Masking what is masked
changes nothing. It imports nothing but the standard library of Python 3.9.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from urllib.parse import quote
from xml.sax.saxutils import escape

UNKNOWN = "@secret@"
_MARK = r"@(?:secret|activemq_[^@\s]*)@"
_WORDS = (
    r"passw(?:or)?d|passphrase|pwd|secret|credentials?|api[-_]?key|private[-_]?key"
    r"|(?:access|auth|bearer|refresh)[-_]?token"
)
_REFERENCE = re.compile(rf"\$\{{[^}}:]*\}}|{_MARK}|\*{{3,}}|(?:true|false|null|none|)", re.IGNORECASE)
_BEAN = re.compile(r"#[A-Za-z_][\w.-]*")
# What is called after a password and holds none: a path, a class, a switch.
_HARMLESS = re.compile(
    r"(?:file|path|dir|directory|class|encryptor|encrypter|encoder|required|enabled|type|length|policy|algorithm"
    r"|factory|provider|alias|callback|location|url)$",
    re.IGNORECASE,
)
_QUOTED = r'"[^"\n]*"|\'[^\'\n]*\'|\\"(?:(?!\\").)*\\"'
_PLAIN_VALUE = r"[^\s\"'&<>;,)}\]\\]*"
_IN_TEXT = re.compile(
    rf"(?P<before>(?P<name>(?:{_WORDS})[\w.\[\]-]*)\\?[\"']?\s*(?:=>|=|:)[ \t]*)"
    rf"(?P<value>{_MARK}|\$\{{[^}}\s]*\}}|{_QUOTED}|{_PLAIN_VALUE})",
    re.IGNORECASE,
)
# NAME=VALUE in quotes, as units and shells have it: the value may hold spaces.
_ASSIGNED = re.compile(
    rf"(?P<before>(?P<quote>[\"'])(?!-)(?P<name>[\w.-]*(?:{_WORDS})[\w.-]*)=)(?P<value>[^\"'\n]*)(?=(?P=quote))",
    re.IGNORECASE,
)
_OPTION = re.compile(
    rf"(?P<before>(?<![\w-])--?(?P<name>[\w.-]*(?:{_WORDS}))[ \t]+)(?P<value>[^\s\"'-][^\s\"']*)", re.IGNORECASE
)
_IN_URI = re.compile(r"(?P<before>://[^/\s:@\"'<>()]*:)(?P<value>[^@/\s\"'<>]+)(?=@)")
_ORACLE = re.compile(r"(?P<before>jdbc:oracle:\w+:[^/@\s\"']+/)(?P<value>[^@\s\"']+)(?=@)", re.IGNORECASE)
# As a broker writes where it is connected: tcp://10.0.0.1:47178@61616.
_TWO_PORTS = re.compile(r"\d+@\d+\b(?!\.)")
_ENCRYPTED = re.compile(r"(?P<before>\bENC\()(?P<value>[^)\n]+)(?=\))")
_KEY = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_HINT = re.compile(rf"{_WORDS}|://|ENC\(|PRIVATE KEY|jdbc:oracle", re.IGNORECASE)

_ENTRY = re.compile(
    rf"^(?P<before>[ \t#!]*(?P<name>[\w.@$/-]*(?:{_WORDS})[\w.@$/-]*)(?:[ \t]*[=:][ \t]*|(?<![#!])[ \t]+(?=[^\s=:])))"
    r"(?P<value>(?:[^\n\\]|\\[^\n]|\\\n)*)$",
    re.IGNORECASE | re.MULTILINE,
)
_COMMENTED = r"(?:[#!][ \t]*(?=[\w.@-]+[ \t]*[=:][ \t]*\S+[ \t]*$))?"
_NAME = rf"(?P<before>[ \t]*{_COMMENTED}(?P<name>[^\s#!=:][^=:\n]*?)[ \t]*[=:][ \t]*)"
_ACCOUNT = re.compile(rf"^{_NAME}(?P<value>(?:[^\n\\]|\\[^\n]|\\\n)*)$", re.MULTILINE)
_REALM = re.compile(rf"^{_NAME}(?P<value>[^\n,]*)", re.MULTILINE)
_JMX = re.compile(r"^(?P<before>[# \t]*(?P<name>[^\s#]+)[ \t]+)(?P<value>\S+)(?=[ \t]*$)", re.MULTILINE)
_WHOLE = re.compile(r"^(?P<before>)(?P<name>)(?P<value>[^\n]+)$", re.MULTILINE)
_SECTION = re.compile(r"(?<=\n\[users\])(.*?)(?=\n[ \t]*\[|\Z)", re.DOTALL)

_TAG = re.compile(r"<[A-Za-z](?:[^<>\"']|\"[^\"<]*\"|'[^'<]*')*>")
_NAMED = re.compile(rf"\b(?:name|key)\s*=\s*[\"'](?P<name>[^\"']*(?:{_WORDS})[^\"']*)[\"']", re.IGNORECASE)
_VALUE = re.compile(r"(?P<before>\svalue\s*=\s*)(?P<value>\"[^\"]*\"|'[^']*')")
_INSIDE = re.compile(r"(?P<before>\s*(?:<value[^<>]*>)?\s*(?:<!\[CDATA\[)?\s*)(?P<value>[^<\]]*[^<\]\s])")
_NAMED_TAG = re.compile(rf"<(?P<name>[\w:.-]*(?:{_WORDS})[\w.-]*)(?=[\s>])", re.IGNORECASE)

_KEYSTORES = ("*.jks", "*.jceks", "*.ks", "*.ts", "*.keystore", "*.truststore", "*.p12", "*.pfx", "*.pkcs12", "*.bks")
_KEYS = ("*.key", "*.pem", "*.der", "id_rsa*", "id_ed25519*", "id_ecdsa*")
_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce", b"\x30\x82", b"\x30\x80")


@dataclass(frozen=True)
class Secret:
    """A value, the variable that it is of, and the text that stood before it on its line."""

    value: str = field(repr=False)
    variable: str
    before: str = ""


class Known:
    """The secrets whose variables are known. Values are as they stand in files, escapes included."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._by_value: dict[str, list[Secret]] = {}
        for secret in secrets:
            if secret.value:
                self._by_value.setdefault(secret.value, []).append(secret)
        forms = {form: value for value in self._by_value for form in _forms(value) if is_distinct(form)}
        self._forms = forms
        longest = sorted(forms, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, longest))) if longest else None

    def name(self, value: str, before: str = "") -> str:
        """``@VARIABLE@``, or ``@secret@`` for a value that is not known."""
        found = self._by_value.get(value)
        if not found:
            return UNKNOWN
        same = [secret for secret in found if secret.before.strip() == before.strip()]
        return f"@{(same or found)[0].variable}@"

    def replace(self, text: str) -> str:
        """The text without any of them, wherever it stands. Values as short as words are left."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self.name(self._forms[match[0]]), text)

    @property
    def indistinct(self) -> int:
        """How many are so short or plain that they are masked only where a secret is expected."""
        return sum(not is_distinct(value) for value in self._by_value)


NOBODY = Known()


def is_distinct(value: str) -> bool:
    """True for a value that no text holds by chance, so that it can be looked for everywhere."""
    if value.isalpha() and (value.islower() or value.isupper() or value.istitle()):
        return len(value) >= 16
    return len(value) >= (12 if value.isdigit() else 6)


def mask(path: str, text: str, known: Known = NOBODY) -> str:
    """The text of the configuration file ``path``, without its secrets."""
    kind = _kind(path)
    text = _hide_key(text)
    if kind == "xml":
        text = _mask_xml(text, known)
    elif kind == "shiro":
        text = _SECTION.sub(lambda section: _sub(_REALM, section[1], known), text)
    elif kind in _LINES:
        text = _sub(_LINES[kind], text, known, account=kind == "credentials", always=kind in _ALWAYS)
    return mask_text(text, known, beans=kind == "xml")


def mask_text(text: str, known: Known = NOBODY, beans: bool = False) -> str:
    """Any other text: logs, journals, units. The number of lines stays, but for private keys."""
    if _HINT.search(text):
        text = _hide_key(text)
        for pattern in (_ASSIGNED, _IN_TEXT, _OPTION):
            text = _sub(pattern, text, known, beans=beans)
        for pattern in (_IN_URI, _ORACLE, _ENCRYPTED):
            text = _sub(pattern, text, known)
    return known.replace(text)


def mask_words(words: Sequence[str], known: Known = NOBODY) -> list[str]:
    """A command line. Each word ends where it ends, whatever it holds."""
    found = []
    for number, word in enumerate(words):
        name, equals, value = word.partition("=")
        is_value = number > 0 and _OPTION.fullmatch(f"{words[number - 1]} x") is not None
        if is_value and not word.startswith("-"):
            found.append(_shown(word, "", known))
        elif equals and re.search(_WORDS, name, re.IGNORECASE) and not _HARMLESS.search(name):
            found.append(f"{name}={_shown(value, f'{name}=', known)}")
        else:
            found.append(mask_text(word, known))
    return found


def mask_data(data: object, known: Known = NOBODY) -> object:
    """A value of JSON, whose texts are masked."""
    if isinstance(data, str):
        return mask_text(data, known)
    if isinstance(data, dict):
        return {key: mask_data(value, known) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [mask_data(value, known) for value in data]
    return data


def why_left_out(path: str, content: bytes) -> str:
    """Why a file of a configuration is not shown at all; empty for one that is."""
    name = os.path.basename(path).lower()
    if any(fnmatch(name, pattern) for pattern in _KEYSTORES):
        return "a key store"
    if any(fnmatch(name, pattern) for pattern in _KEYS):
        return "a key"
    if content.startswith(_MAGIC):
        return "a key store or certificate"
    try:
        return "no text" if "\0" in content.decode() else ""
    except UnicodeDecodeError:
        return "no text"


def learn(masked: str, content: str) -> list[Secret]:
    """The secrets of a file, from its text with ``@VARIABLE@`` and the text that was deployed.

    Only lines that are alike but for the secrets say anything.
    """
    found = []
    for shown, real in zip(masked.split("\n"), content.split("\n")):  # noqa: B905 -- strict= is of Python 3.10
        pieces = re.split(rf"({_MARK})", shown)
        if len(pieces) == 1:
            continue
        pattern = "".join("(.*)" if number % 2 else re.escape(piece) for number, piece in enumerate(pieces))
        match = re.fullmatch(pattern, real)
        if match:
            variables = [piece.strip("@") for piece in pieces[1::2]]
            found += [
                Secret(value, variable, before)
                for value, variable, before in zip(match.groups(), variables, pieces[::2])  # noqa: B905
                if value
            ]
    return found


_ALWAYS = ("whole", "jmx", "users", "realm")
_LINES = {
    "properties": _ENTRY,
    "credentials": _ACCOUNT,
    "users": _ACCOUNT,
    "realm": _REALM,
    "jmx": _JMX,
    "whole": _WHOLE,
}
_USERS = re.compile(r"(?:.*[-_.])?users?(?:[-_.].*)?\.properties")
_NAMES = re.compile(r"(?:user(?:name)?|name|realm|role|group)s?$", re.IGNORECASE)


def _kind(path: str) -> str:
    """How secrets stand in a file, by its name."""
    name = os.path.basename(path).lower()
    if "realm" in name and name.endswith(".properties"):
        return "realm"
    if _USERS.fullmatch(name):
        return "users"
    if name.startswith("credentials"):
        return "credentials"
    if fnmatch(name, "*jmx*.password") or name in ("jmxremote.password", "management.password"):
        return "jmx"
    if name.endswith((".password", ".passwd", ".secret", ".pwd", ".htpasswd")):
        return "whole"
    if name == "shiro.ini":
        return "shiro"
    if name.endswith((".xml", ".xsd", ".xslt", ".html")):
        return "xml"
    return "properties" if name.endswith((".properties", ".conf", ".cfg", ".ini", ".env", ".yml", ".yaml")) else "text"


def _sub(
    pattern: re.Pattern[str],
    text: str,
    known: Known,
    *,
    beans: bool = False,
    account: bool = False,
    always: bool = False,
) -> str:
    """Every value that the pattern finds, hidden. ``always``: whatever its name, and no word is a switch."""

    def hide(match: re.Match[str]) -> str:
        groups, value = match.groupdict(), match["value"]
        name = groups.get("name") or ""
        if not always and name and (_HARMLESS.search(name) or (account and _NAMES.search(name))):
            return match[0]
        if pattern is _IN_URI and _TWO_PORTS.match(text, match.start("value")):
            return match[0]
        quote_ = _quote(value)
        inner = value[len(quote_) : len(value) - len(quote_)]
        if beans and _BEAN.fullmatch(inner):
            return match[0]
        return f"{match['before']}{quote_}{_shown(inner, match['before'], known, always)}{quote_}"

    return pattern.sub(hide, text)


def _quote(value: str) -> str:
    for mark in ('\\"', '"', "'"):
        if len(value) >= 2 * len(mark) and value.startswith(mark) and value.endswith(mark):
            return mark
    return ""


def _shown(value: str, before: str, known: Known, always: bool = False) -> str:
    if not value or re.fullmatch(_MARK, value):
        return value
    if not always and _REFERENCE.fullmatch(value.strip()):
        return value
    return known.name(value, before)


def _hide_key(text: str) -> str:
    return _KEY.sub(rf"\1{UNKNOWN}\2", text) if "PRIVATE KEY" in text else text


def _mask_xml(text: str, known: Known) -> str:
    """What is secret by the name beside it: ``<property name="password" value=…>``, ``<password>…``."""
    pieces, end = [], 0
    for tag in _TAG.finditer(text):
        if tag.start() < end:
            continue
        named = _NAMED.search(tag[0]) or _NAMED_TAG.match(tag[0])
        if not named or _HARMLESS.search(named["name"]):
            continue
        pieces += [text[end : tag.start()], _sub(_VALUE, tag[0], known, beans=True)]
        end = tag.end()
        inside = None if tag[0].endswith("/>") else _INSIDE.match(text, end)
        if inside:
            pieces.append(inside["before"] + _shown(inside["value"], named[0], known))
            end = inside.end()
    return "".join([*pieces, text[end:]])


def _forms(value: str) -> set[str]:
    """A value as other files may have it: with the escapes of properties taken off, of XML, JSON and URIs."""
    plain = re.sub(r"\\(.)", r"\1", value)
    forms = {value, plain}
    return forms | {escape(plain, {'"': "&quot;"}), quote(plain, safe=""), json.dumps(plain)[1:-1]}
