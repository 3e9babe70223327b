# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Finds secrets by their own shape or by the command, header or URI around them, without a name."""

from __future__ import annotations

import re

from .names import looks_generated
from .spans import Spans, is_reference, reference_end

_AUTHORITY = re.compile(r"//(?P<user>[^/\s:@\"'<>()]{0,256}):(?!/)")
_PLAIN_REST = re.compile(r"[^\s\"'<>`]*")
_LONG_REST = re.compile(r"[^\r\n<]*")
_PORT = re.compile(r"\d{1,5}(?![^\s/?#,)&;\"'<>\]}|:])")
# As a broker writes where it is connected: tcp://10.0.0.1:47178@61616.
_TWO_PORTS = re.compile(r"\d+@\d+\b(?!\.)")
_ENCODED_AUTHORITY = re.compile(r"%3a%2f%2f[^\s%]{0,256}%3a(?P<value>(?:(?!%2f%2f)[^\s\"'<>])*)%40", re.IGNORECASE)
# User-info without a colon, as tokens stand in URIs: https://TOKEN@host.
_USER_INFO = re.compile(
    r"(?:(?P<web>\b(?:\w{1,16}\+)?(?:https?|wss?):)?//|%3a%2f%2f)(?P<value>[^/\s:@%\"'<>()?#]{1,256})(?:@|%40)(?=[\w\[$])",
    re.IGNORECASE,
)
_USER_NAME = re.compile(r"[A-Za-z][a-z]{0,16}(?:[._-][A-Za-z]?[a-z]{0,16})?\d{0,4}|\$\{.*")
# user:PASSWORD@host without a scheme. Passwords with blanks or brackets, or of digits alone, are not found.
_BARE_LOGIN = re.compile(
    r"(?<![\w/@:.%?&=-])(?P<user>[A-Za-z][\w.+-]{0,63}):(?![/@:])"
    r"(?P<value>[^\s\"'<>`,;()|&?]{1,128})@(?P<host>[\w.-]{1,253})(?P<port>:\d)?"
)
_HOST = re.compile(r"localhost|[\w-]{1,63}\.[\w.-]{1,253}", re.IGNORECASE)
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_OBJECT = re.compile(r"[0-9a-f]{1,8}|sha\d{1,3}|\d[\d.]*")
_NO_USER = re.compile(
    r"mail|mailto|e-?mail|from|to|b?cc|reply-to|sender|recipient|sips?|xmpp|jid|acct|contact|author|owner|id|host|queue"
    r"|topic|class|thread|npm|docker|image|file|path|jdbc",
    re.IGNORECASE,
)
"""Matches words before a colon that are no user: ``mail:bob@example.org``, ``queue:orders@broker``."""
_USER_LABEL = re.compile(r"user|username|login|account|principal|uid|as|by|for|ssh|scp|at|remote|client", re.IGNORECASE)
"""Matches words before a colon that a user's name follows: ``user:bob@host``."""
_QUERY = re.compile(
    r"(?:[?&;]|&amp;|%26|%3f)(?:(?P<sure>bearer|auth|signature|x-amz-(?:signature|credential)|sid)|key|code|session)"
    r"(?:=|%3d)(?P<value>[^\s&\"'<>#;]{1,4096})",
    re.IGNORECASE,
)
_CALL = re.compile(
    r"(?:auth|credentials?|log[io]n|authenticate|authentication|connection|connectionfactory|connect|passw(?:or)?d"
    r"|pw_?set|user_?pass)[ \t]{0,3}(?:=[ \t]{0,3})?\(\s{0,20}",
    re.IGNORECASE,
)
_ARGUMENT = re.compile(
    r"(?P<quote>\\{1,7}[\"']|&(?:quot|apos|#34|#39);)(?P<inner>[^\n]{0,256}?)(?P=quote)"
    r"|\"(?P<double>(?:[^\"\\\n]|\\.){0,256})\"|'(?P<single>(?:[^'\\\n]|\\.){0,256})'|[^\s,()\"'&\\]{0,128}"
)
_COMMA = re.compile(r"\s{0,20},\s{0,20}")
_ORACLE = re.compile(r"(?:jdbc:oracle:\w{1,20}:|\bsqlplus[ \t]+(?:-\w+[ \t]+)?)[^/@\s\"']{1,128}/", re.IGNORECASE)

_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_LENGTH = 16384
"""Characters that a private key has at most: one of RSA with 16,384 bits has 12,800."""
# A line of a key's body: base64 alone, base64 as long as in keys after what a log puts before it, a header, or blank.
_KEY_LINE = re.compile(
    r"(?:[\s\"'#>|+*]{0,80}(?:\\{1,7}[nr])?[A-Za-z0-9+/=_-]+|[^\n]{0,200}?[ \t|:>\"'](?:[A-Za-z0-9+/=]{40,}"
    r"|[A-Za-z0-9+/=]{60,}[^\n]{0,400})"
    r"|[ \t]{0,80}(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset):[^\n]{0,200}|(?=[ \t\r]{0,80}(?:\n|\Z)))"
    r"[ \t\r\"',;+.\\nr]{0,20}(?:\n|\Z)"
)
_ESCAPED_KEY = re.compile(r"[A-Za-z0-9+/=\\\r]*")

_WORD = r"(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s\"']+)"
_WORD_IN_CALL = r"(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s\"',()]+)"
_ANY_CASE = "(?i)"
_SHAPES = tuple(
    (needles.split(), re.compile(pattern))
    for needles, pattern in (
        ("enc(", r"\bENC\((?P<value>[^()\n]+)(?=\))"),
        (
            "basic bearer negotiate",
            rf"{_ANY_CASE}\b(?:Basic|Bearer|Negotiate)[ \t]+(?P<value>(?![a-z]+(?![\w+/.~=-]))[\w+/.~=-]{{8,}})",
        ),
        ("eyj", r"(?<![\w-])(?P<value>eyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*){0,3})"),
        ("akia asia", r"(?<![A-Za-z0-9])(?P<value>(?:AKIA|ASIA)[A-Z0-9]{16})(?![A-Za-z0-9])"),
        (
            "gho_ ghp_ ghr_ ghs_ ghu_ github_pat_ glpat- xox sk- k_live_ aiza hvs. age-secret-key-",
            r"(?<![\w-])(?P<value>gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeprs]-[\w-]{10,}"
            r"|sk-[\w-]{20,}|[sr]k_live_\w{10,}|AIza[\w-]{35}|hvs\.[\w-]{20,}|AGE-SECRET-KEY-\w+)",
        ),
        ("obf: crypt:", r"(?i)\b(?:OBF|CRYPT):(?P<value>[^\s,\"'<>;&)@|]+)"),
        ("md5:", r"(?i)\bMD5:(?P<value>[0-9a-fA-F]{16,})"),
        ("{", rf"{_ANY_CASE}\{{(?:S?SHA\d{{0,3}}|S?MD5|CRYPT|PBKDF2|ARGON2)\}}(?P<value>[^\s\"'<>,;@]+)"),
        ("$", r"(?P<value>\$(?:2[abxy]|[156y]|apr1|argon2\w{0,3}|7)\$[^\s\"'<>:,;@]{12,})"),
        ("identified", rf"{_ANY_CASE}\bIDENTIFIED[ \t]+BY[ \t]+(?:PASSWORD[ \t]+)?(?P<value>{_WORD})"),
        ("stats", rf"{_ANY_CASE}\bstats[ \t]+auth[ \t]+[^\s:]{{0,128}}:(?P<value>[^\r\n]+)"),
        ("-p", rf"(?<!\S)-p[ \t]+(?![/~.$-]|\d{{1,5}}(?:[\s:/]|\Z))(?P<value>{_WORD})"),
        (
            "sshpass mysql mariadb",
            rf"\b(?:sshpass|mysql\w{{0,8}}|mariadb\w{{0,8}})\b[^\n|;]{{0,100}}?[ \t]-p[ \t]*(?P<value>{_WORD})",
        ),
        (
            "redis-cli ldap",
            r"\b(?:redis-cli|ldap(?:search|modify|add|whoami|passwd|delete))\b[^\n|;]{0,100}?[ \t]-[aw][ \t]+"
            rf"(?P<value>{_WORD})",
        ),
        (
            "chpasswd",
            r"\bchpasswd[ \t]{0,9}<<<[ \t]{0,9}[\"']?[\w.-]{1,64}:(?P<value>[^\s\"']+)",
        ),
        (
            "chpasswd",
            r"\b(?:echo|printf)[ \t]+[\"']?[\w.-]{1,64}:(?P<value>[^\s\"'|]+)[\"']?[ \t]{0,9}"
            r"\|[ \t]{0,9}(?:sudo[ \t]+)?chpasswd",
        ),
        (
            "sudo",
            rf"\b(?:echo|printf)[ \t]+(?P<value>{_WORD})[ \t]{{0,9}}\|"
            rf"[ \t]{{0,9}}sudo[ \t][^\n|;]{{0,40}}?-\w{{0,3}}S\b",
        ),
        ("htpasswd", r"\bhtpasswd[ \t]+-\w{0,8}b\w{0,8}[ \t]+\S{1,200}[ \t]+(?P<value>[^\n]{1,400})"),
        ("rabbitmqctl", rf"\brabbitmqctl[ \t]+(?:add_user|change_password)[ \t]+\S{{1,64}}[ \t]+(?P<value>{_WORD})"),
        ("net", rf"{_ANY_CASE}\bnet[ \t]+user[ \t]+\S{{1,64}}[ \t]+(?!/)(?P<value>{_WORD})"),
        (
            "securestring",
            rf"{_ANY_CASE}\bConvertTo-SecureString(?:[ \t]+-(?:AsPlainText|Force|String)\b){{0,3}}[ \t]+"
            rf"(?![-$(])(?P<value>{_WORD})",
        ),
        ("zip", rf"\b(?:un)?zip\b[^\n|;]{{0,200}}?[ \t]-P[ \t]{{0,9}}(?P<value>{_WORD})"),
        ("7z rar", rf"\b(?:7z[ar]?|rar)\b[^\n|;]{{0,200}}?[ \t]-h?p(?P<value>{_WORD})"),
        ("adduser", r"\baddUser(?:\([\w., ]{0,200}\))?/[^/\s]{1,200}/(?P<value>[^/\s?#\"'<>]+)"),
        (
            "adduser",
            rf"\baddUser(?:[ \t]*\([ \t]*|[ \t]+){_WORD_IN_CALL}(?:[ \t]*,[ \t]*|[ \t]+)(?!java\.)"
            rf"(?P<value>{_WORD_IN_CALL})",
        ),
        ("openssl", rf"\bopenssl\b[^\n|;]{{0,200}}?[ \t]-k[ \t]+(?P<value>{_WORD})"),
        ("pass auth", r"(?m)^(?:PASS|AUTH)[ \t]+(?P<value>\S[^\r\n]*)"),
    )
)
"""Words of which the lower-case text must hold one for the pattern to be tried, and the pattern."""

_ACCOUNT = re.compile(rf"(?<!\S)(?:-u|-U|--user|--proxy-user|--auth)(?:[ \t]+|=)(?P<value>{_WORD})")
# curl's option, joined with its value or with other options; "curl" must stand before it.
_CURL_ACCOUNT = re.compile(rf"(?<!\S)-[A-Za-z#0-9]{{0,8}}?[uU][ \t]{{0,9}}(?P<value>{_WORD})")
_NUMBERS = re.compile(r"\d+:\d+")
_DIGITS = re.compile(r"[\d@]+")


def spans(text: str) -> Spans:
    """Return the (start, end) of every secret that is recognised by its form, such as a token or a URI's password."""
    found: Spans = []
    folded = text.lower()
    for needles, pattern in _SHAPES:
        if any(needle in folded for needle in needles):
            for match in pattern.finditer(text):
                found += _without_quotes(text, *match.span("value"))
    if "-u" in folded or "--auth" in folded or "curl" in folded:
        found += _accounts(text, has_curl="curl" in folded)
    if "@" in text or "%40" in text:
        found += _user_infos(text)
    if "(" in text:
        found += _call_arguments(text)
    for match in _QUERY.finditer(text) if "=" in text or "%3d" in folded else ():
        if (match["sure"] or looks_generated(match["value"])) and not is_reference(match["value"]):
            found.append(match.span("value"))
    if "//" in folded:
        found += _uri_passwords(text)
    if "%2f%2f" in folded:
        found += [match.span("value") for match in _ENCODED_AUTHORITY.finditer(text)]
    if "jdbc:oracle:" in folded or "sqlplus" in folded:
        for match in _ORACLE.finditer(text):
            rest = _PLAIN_REST.match(text, match.end(), match.end() + 512)
            last = text.rfind("@", match.end(), rest.end() if rest else match.end())
            found += _without_quotes(text, match.end(), last)
    return found


def _user_infos(text: str) -> Spans:
    """Return ``https://TOKEN@host`` and ``user:PASSWORD@host``.

    Not ``ssh://user@host``, ``host:61616@…``, mail addresses.
    """
    found: Spans = []
    for match in _USER_INFO.finditer(text):
        value = match["value"]
        is_name = _USER_NAME.fullmatch(value) is not None
        if not is_reference(value) and (looks_generated(value) or len(value) >= 20 or (match["web"] and not is_name)):
            found.append(match.span("value"))
    for match in _BARE_LOGIN.finditer(text):
        user, value, host = match["user"], match["value"], match["host"]
        is_address = bool(match["port"]) or _ADDRESS.fullmatch(host) is not None or host.lower() == "localhost"
        if _NO_USER.fullmatch(user) or _DIGITS.fullmatch(value) or (_OBJECT.fullmatch(host) and not is_address):
            continue
        is_mail = _USER_NAME.fullmatch(value) is not None and not is_address
        is_login = _USER_LABEL.fullmatch(user) is None and not is_mail and (is_address or _HOST.fullmatch(host))
        if (is_login or looks_generated(value)) and not is_reference(value):
            found.append(match.span("value"))
    return found


def _call_arguments(text: str) -> Spans:
    """Return the quoted arguments after the first of ``basicAuth("user", "PASSWORD")`` and the like, except URIs."""
    found: Spans = []
    for call in _CALL.finditer(text):
        at = call.end()
        for number in range(8):
            argument = _ARGUMENT.match(text, at)
            if argument is None:
                break
            group = next((name for name in ("inner", "double", "single") if argument[name] is not None), "")
            if number and group and "://" not in argument[group] and not is_reference(argument[group]):
                found.append(argument.span(group))
            comma = _COMMA.match(text, argument.end())
            if comma is None:
                break
            at = comma.end()
    return found


def _accounts(text: str, *, has_curl: bool) -> Spans:
    """Return the passwords of ``-u user:PASSWORD``, as curl and others take it."""
    found: Spans = []
    matches = list(_ACCOUNT.finditer(text))
    if has_curl:
        matches += [m for m in _CURL_ACCOUNT.finditer(text) if _is_after_curl(text, m.start())]
    for match in matches:
        colon = match["value"].find(":")
        if colon >= 0 and not _NUMBERS.fullmatch(match["value"]):
            quoted = match["value"][0] in "\"'"
            found += _without_quotes(text, match.start("value") + colon + 1, match.end("value") - quoted)
    return found


def _is_after_curl(text: str, position: int) -> bool:
    """Return whether curl's name stands before ``position`` on its line."""
    low = max(0, position - 1000)
    return text.rfind("curl", max(low, text.rfind("\n", low, position)), position) >= 0


def _without_quotes(text: str, start: int, end: int) -> Spans:
    if end - start > 1 and text[start] in "\"'" and text[end - 1] == text[start]:
        start, end = start + 1, end - 1
    return [] if is_reference(text[start:end]) else [(start, end)]


def _uri_passwords(text: str) -> Spans:
    """Return the passwords of ``//user:PASSWORD@host``, up to the URI's last @, because passwords hold some too."""
    found: Spans = []
    position, end = 0, len(text)
    while True:
        match = _AUTHORITY.search(text, position, end)
        if match is None:
            return found
        at = position = match.end()
        if _TWO_PORTS.match(text, at, end) or _PORT.match(text, at, end):
            continue
        following = text.find("//", at, end)
        stop = end if following < 0 else following
        last = -1
        for rest in (_PLAIN_REST, _LONG_REST):
            limit = rest.match(text, at, stop)
            last = text.rfind("@", at, limit.end() if limit else stop)
            if last >= 0 or text[at : at + 1].isspace():
                break
        if last > at and reference_end(text, at, last) != last:
            found.append((at, last))
        position = max(at, last)


def private_keys(text: str) -> Spans:
    """Return the (start, end) of the bodies of PEM private keys in a text, also of a key that is only partly in it."""
    if "PRIVATE KEY" not in text:
        return []
    found: Spans = []
    position, end = 0, len(text)
    while True:
        begin = _KEY_BEGIN.search(text, position, end)
        close = _KEY_END.search(text, position, begin.start() if begin else end)
        if close:  # the chunk before this one holds its beginning
            found.append((_body_before(text, position, close.start()), close.start()))
        if begin is None:
            return found
        position = begin.end()
        closed = _KEY_END.search(text, position, min(end, position + _KEY_LENGTH))
        limit = closed.start() if closed else min(end, position + _KEY_LENGTH)
        stop = _body_end(text, position, limit, is_closed=closed is not None)
        if closed and stop < closed.start():
            closed = None
        if not is_reference(text[position:stop]):
            found.append((position, stop))
        position = closed.end() if closed else stop


def _body_end(text: str, position: int, end: int, *, is_closed: bool) -> int:
    """Return the end of the lines that look like a key's; with ``is_closed`` the last line may look like any."""
    at = position
    while at < end:
        line_end = text.find("\n", at, end)
        if is_closed and (line_end < 0 or text.find("\n", line_end + 1, end) < 0):
            return end
        line = _KEY_LINE.match(text, at, end)
        if line is None:
            escaped = _ESCAPED_KEY.match(text, at, end) if at == position else None
            return escaped.end() if escaped else at
        at = line.end()
    return end


def _body_before(text: str, start: int, end: int) -> int:
    """Return the beginning of the lines of a key's body that end at ``end``."""
    low = max(start, end - _KEY_LENGTH)
    while end > low:
        line = text.rfind("\n", low, end - 1) + 1 or low
        words = text[line:end].split()
        if not words or len(words[-1]) < 16 or not _BASE64.fullmatch(words[-1]):
            return end
        end = line
    return low


_BASE64 = re.compile(r"[A-Za-z0-9+/=]+")
