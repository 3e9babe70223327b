# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Recognizes names of secrets (passwords, keys, tokens), whatever surrounds the word."""

from __future__ import annotations

import re
from functools import lru_cache

_SECRET_WORDS = tuple(
    re.compile(word)
    for word in (
        "pass", "pw", "pswd", "psk", "secret", "cred", "kennwort", "contrase", "wachtwoord", "token", "key", "auth",
        "cookie", "session", "sig", "pin", "otp", "jwt", "pat",
    )
)  # fmt: skip
_SECRET_NAME = re.compile(
    r"pass[-_.]?(?:w(?:or)?[dt]|wrd|w(?![a-z])|phrases?|codes?|key(?!stroke))|pswd|pword|pwd|kennwort|contrase(?:n|ñ)a"
    r"|wachtwoord|secret(?!ar)|credentials?|cookie|(?:j|php)?session[-_]?id|authorization$|amz-(?:signature|credential)$|masterauth|_auth$"
    r"|(?:api|private|access|account|shared|secret|master|encryption|decryption|encrypt|decrypt|signing|session|aes"
    r"|hmac|auth|storage|crypto?|cipher|subscription|deploy|app|application|consumer|license|webhook|symmetric"
    r")[-_.]?key(?!s?tore|[-_.]?(?:store|file|path))"
    r"|(?:access|auth|bearer|refresh|session|id|api|[cx]srf|security|sas|oauth|jwt|vault|deploy|private|personal|login"
    r"|user|service|account|registry)[-_.]?token",
    re.IGNORECASE,
)
_NAME_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_LAST_WORDS = frozenset(
    {"pass", "passes", "pw", "psk", "token", "pin", "otp", "pat", "sig", "cred", "creds", "jwt"}
)
_SECRET_SUFFIX = re.compile(
    r"(?<!by)(?<!com)(?<!encom)(?<!tres)(?<!sur)(?<!under)(?<!over)(?<!im)(?:pass|pw)$", re.IGNORECASE
)
# Names that contain a secret's name, but have no secret value: a path, a class, a switch, a number.
_HARMLESS_NAME = re.compile(
    r"(?:file|path|dir|directory|class|encryptor|encrypter|encoder|required|enabled|disabled|type|length|policy"
    r"|algorithm|factory|provider|alias|callback|location|url|exception|error|count|ttl|timeout|expir\w{1,8}|plugin"
    r"|filter|handler|manager|module|authenticator|validator|strength|retries|attempts|age)s?$"
    r"|\.(?:properties|xml|conf|cfg|ini|ya?ml|json|txt|log|jks|ks|ts|p12|pem|crt|service|sh|java|jar|d)$",
    re.IGNORECASE,
)
_ENGLISH_WORD = re.compile(
    r"pass(?:es|words?|wd|phrases?|codes?)?|pwd|secrets?|credentials?|creds?|tokens?|cookies?|pin|otp|sig|pat|authorization",
    re.IGNORECASE,
)
_GENERATED = re.compile(r"\d[^\W\d_]|\d[^\s]{0,64}?[!#$%^*+=~?]|[!#$%^*+=~?][^\s]{0,64}?\d|[a-z][A-Z][^\s]{0,64}?\d")
_NOT_GENERATED = re.compile(r"[/~.<]|[\w+.-]{1,32}://|\d{4}-\d\d-\d\d|\d{1,2}:\d\d|ID:|(?:\d{1,3}\.){3}\d")


def secret_word_positions(text: str, words: tuple[re.Pattern[str], ...] = _SECRET_WORDS) -> list[int]:
    """Return the sorted offsets in a text at which words such as ``password`` begin.

    Names of secrets contain such words. The letter case does not matter. ``is_secret_name`` decides on the whole name.
    """
    lower_text = text.replace("\u0130", "i").lower()  # the only character whose lower-case form is longer
    return sorted({match.start() for word in words for match in word.finditer(lower_text)})


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Return whether a name is that of a secret, such as ``keyStorePassword``.

    ``passwordFile`` is not.
    """
    name = name.rstrip(".-[]0123456789")
    if _HARMLESS_NAME.search(name):
        return False
    if _SECRET_NAME.search(name) or _SECRET_SUFFIX.search(name):
        return True
    words = _NAME_WORD.findall(name)
    return bool(words) and words[-1].lower() in _SECRET_LAST_WORDS


def is_english_word(secret_name: str) -> bool:
    """Return whether the name of a secret, such as ``password``, is an English word.

    Prose may contain it, too.
    """
    return _ENGLISH_WORD.fullmatch(secret_name.strip(".-_[]")) is not None


def looks_like_generated_password(word: str) -> bool:
    """Return whether a word resembles a generated password, such as ``hT5x9Qa2``.

    A path, URI or time does not.
    """
    return len(word) >= 8 and _NOT_GENERATED.match(word) is None and _GENERATED.search(word[:256]) is not None
