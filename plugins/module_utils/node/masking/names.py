# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Recognizes names of secrets (passwords, keys, tokens), whatever surrounds the word."""

from __future__ import annotations

import re
from functools import lru_cache

_WORDS = tuple(
    re.compile(word)
    for word in (
        "pass", "pw", "pswd", "psk", "secret", "cred", "kennwort", "contrase", "wachtwoord", "token", "key", "auth",
        "cookie", "session", "sig", "pin", "otp", "jwt", "pat",
    )
)  # fmt: skip
_STRONG = re.compile(
    r"pass[-_.]?(?:w(?:or)?[dt]|wrd|w(?![a-z])|phrases?|codes?|key(?!stroke))|pswd|pword|pwd|kennwort|contrase(?:n|ñ)a"
    r"|wachtwoord|secret(?!ar)|credentials?|cookie|(?:j|php)?session[-_]?id|authorization$|amz-(?:signature|credential)$|masterauth|_auth$"
    r"|(?:api|private|access|account|shared|secret|master|encryption|decryption|encrypt|decrypt|signing|session|aes"
    r"|hmac|auth|storage|crypto?|cipher|subscription|deploy|app|application|consumer|license|webhook|symmetric"
    r")[-_.]?key(?!s?tore|[-_.]?(?:store|file|path))"
    r"|(?:access|auth|bearer|refresh|session|id|api|[cx]srf|security|sas|oauth|jwt|vault|deploy|private|personal|login"
    r"|user|service|account|registry)[-_.]?token",
    re.IGNORECASE,
)
_LAST_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_WEAK = frozenset({"pass", "passes", "pw", "psk", "token", "pin", "otp", "pat", "sig", "cred", "creds", "jwt"})
_JOINED = re.compile(r"(?<!by)(?<!com)(?<!encom)(?<!tres)(?<!sur)(?<!under)(?<!over)(?<!im)(?:pass|pw)$", re.IGNORECASE)
# What is called after a password and holds none: a path, a class, a switch, a number.
_HARMLESS = re.compile(
    r"(?:file|path|dir|directory|class|encryptor|encrypter|encoder|required|enabled|disabled|type|length|policy"
    r"|algorithm|factory|provider|alias|callback|location|url|exception|error|count|ttl|timeout|expir\w{1,8}|plugin"
    r"|filter|handler|manager|module|authenticator|validator|strength|retries|attempts|age)s?$"
    r"|\.(?:properties|xml|conf|cfg|ini|ya?ml|json|txt|log|jks|ks|ts|p12|pem|crt|service|sh|java|jar|d)$",
    re.IGNORECASE,
)
_ENGLISH = re.compile(
    r"pass(?:es|words?|wd|phrases?|codes?)?|pwd|secrets?|credentials?|creds?|tokens?|cookies?|pin|otp|sig|pat|authorization",
    re.IGNORECASE,
)
_GENERATED = re.compile(r"\d[^\W\d_]|\d[^\s]{0,64}?[!#$%^*+=~?]|[!#$%^*+=~?][^\s]{0,64}?\d|[a-z][A-Z][^\s]{0,64}?\d")
_NOT_GENERATED = re.compile(r"[/~.<]|[\w+.-]{1,32}://|\d{4}-\d\d-\d\d|\d{1,2}:\d\d|ID:|(?:\d{1,3}\.){3}\d")


def secret_word_positions(text: str, words: tuple[re.Pattern[str], ...] = _WORDS) -> list[int]:
    """Return the sorted positions of secret words, such as ``password``, in a text.

    Names of secrets contain such words. The letter case does not matter. ``is_secret_name`` decides on the whole name.
    """
    folded = text.replace("\u0130", "i").lower()  # of all characters only this one has a longer small form
    return sorted({match.start() for word in words for match in word.finditer(folded)})


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Return whether a name is that of a secret, such as ``keyStorePassword``.

    ``passwordFile`` is not.
    """
    name = name.rstrip(".-[]0123456789")
    if _HARMLESS.search(name):
        return False
    if _STRONG.search(name) or _JOINED.search(name):
        return True
    words = _LAST_WORD.findall(name)
    return bool(words) and words[-1].lower() in _WEAK


def is_english_word(secret_name: str) -> bool:
    """Return whether the name of a secret, such as ``password``, is an English word.

    Prose may contain it, too.
    """
    return _ENGLISH.fullmatch(secret_name.strip(".-_[]")) is not None


def looks_like_generated_password(word: str) -> bool:
    """Return whether a word resembles a generated password, such as ``hT5x9Qa2``.

    A path, URI or time does not.
    """
    return len(word) >= 8 and _NOT_GENERATED.match(word) is None and _GENERATED.search(word[:256]) is not None
