# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Masks secrets that are recognized by their shape, or by the command, header or URI around them, without a name.

In each pattern the last group that matches is the secret. No pattern can divide a text between two unbounded
repetitions in more than one way, so that the time grows with the length of the text.
"""

from __future__ import annotations

import re

from .known import KnownSecrets
from .marks import logger_and_thread_start
from .names import is_secret_name, looks_like_generated_password, secret_word_positions

_WORD = r"(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s\"']+)"
_CALL_WORD = r"(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s\"',()]+)"
_OTHER_WORDS = r"[^\n|;]{0,200}?[ \t]"
_ACCOUNT = r"(?!\d+:\d+(?!\S))(?:\"[^\":\n]*:([^\"\n]*)\"|'[^':\n]*:([^'\n]*)'|[^\s\"':]*:([^\s\"']+))"
_AT_SIGN = r"(?:@|%40)"
# Texts that may be the name of a user, and therefore not a secret.
_USER = r"(?-i:[A-Za-z][a-z]{0,16}(?:[._-][A-Za-z]?[a-z]{0,16})?\d{0,4}|\$\{[^@\s]{0,200})"
_ADDRESS = r"(?:localhost\b|(?:\d{1,3}\.){3}\d|[\w.-]{1,253}:\d)"
# Texts after the @ of ``Class@1a2b3c``, ``image@sha256`` and ``package@1.2``, which are not hosts.
_NOT_A_HOST = r"(?:[0-9a-f]{1,8}|sha\d{1,3}|\d[\d.]*)(?![\w.-])"
_NOT_A_USER = (
    r"(?:mail|mailto|e-?mail|from|to|b?cc|reply-to|sender|recipient|sips?|xmpp|jid|acct|contact|author|owner|id|host|queue"
    r"|topic|class|thread|npm|docker|image|file|path|jdbc)"
)
_USER_LABEL = r"(?:user|username|login|account|principal|uid|as|by|for|ssh|scp|at|remote|client)"
_QUOTE = r"(?:\\{0,7}[\"']|&(?:quot|apos|#34|#39);)"
_FIRST_ARGUMENT = (
    r"(?:\"(?:[^\"\\\n]|\\.){0,256}\"|'(?:[^'\\\n]|\\.){0,256}'"
    r"|(?P<quote>\\{1,7}[\"']|&(?:quot|apos|#34|#39);)[^\n]{0,256}?(?P=quote)|[^\s,()\"'&\\]{0,128})"
)
_COMMA = r"\s{0,20},\s{0,20}"

_COMMANDS = (
    ("sshpass mysql mariadb", r"(?-i:-p)[ \t]*"),
    ("redis-cli ldap", r"-[aw][ \t]+"),
    ("zip sqlcmd bcp ipmitool", r"(?-i:-P)[ \t]{0,9}"),
    ("7z rar", r"-h?(?-i:p)"),
    ("smbclient", r"-U[ \t]{0,9}[^\s%]{1,128}%"),
    ("openssl", r"-k[ \t]+"),
)
"""Commands, and the option of each that a password follows."""
_COMMAND_RULES = tuple(
    (names, rf"\b(?:un)?(?:{names.replace(' ', '|')})\w{{0,8}}\b{_OTHER_WORDS}{option}({_WORD})")
    for names, option in _COMMANDS
)
_LINE_RULES = tuple(
    (needles.split(), re.compile(pattern, re.IGNORECASE))
    for needles, pattern in (
        *_COMMAND_RULES,
        ("enc(", r"\b(?-i:ENC)\(([^()\n]+)(?=\))"),
        ("basic bearer negotiate", r"\b(?:Basic|Bearer|Negotiate)[ \t]+((?!(?-i:[a-z]+)(?![\w+/.~=-]))[\w+/.~=-]{8,})"),
        ("eyj", r"(?<![\w-])((?-i:eyJ)[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*){0,3})"),
        ("akia asia", r"(?<![A-Z0-9])(?-i:((?:AKIA|ASIA)[A-Z0-9]{16})(?![A-Za-z0-9]))"),
        (
            "gho_ ghp_ ghr_ ghs_ ghu_ github_pat_ glpat- xox sk- k_live_ aiza hvs. age-secret-key-",
            r"(?<![\w-])(gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeprs]-[\w-]{10,}"
            r"|sk-[\w-]{20,}|[sr]k_live_\w{10,}|AIza[\w-]{35}|hvs\.[\w-]{20,}|AGE-SECRET-KEY-\w+)",
        ),
        ("obf: crypt:", r"\b(?:OBF|CRYPT):([^\s,\"'<>;&)@|]+)"),
        ("md5:", r"\bMD5:([0-9a-f]{16,})"),
        ("{", r"\{(?:S?SHA\d{0,3}|S?MD5|CRYPT|PBKDF2|ARGON2)\}([^\s\"'<>,;@]+)"),
        ("$", r"(\$(?:2[abxy]|[156y]|apr1|argon2\w{0,3}|7)\$[^\s\"'<>:,;@]{12,})"),
        ("identified", rf"\bIDENTIFIED[ \t]+BY[ \t]+(?:PASSWORD[ \t]+)?({_WORD})"),
        ("stats", r"\bstats[ \t]+auth[ \t]+[^\s:]{0,128}:([^\r\n]+)"),
        ("-p", rf"(?<!\S)(?-i:-p)[ \t]+(?![/~.$-]|\d{{1,5}}(?:[\s:/]|\Z))({_WORD})"),
        ("chpasswd", r"\bchpasswd[ \t]{0,9}<<<[ \t]{0,9}[\"']?[\w.-]{1,64}:([^\s\"']+)"),
        (
            "chpasswd",
            r"\b(?:echo|printf)[ \t]+[\"']?[\w.-]{1,64}:([^\s\"'|]+)(?=[\"']?[ \t]{0,9}\|[^\n|]{0,40}?chpasswd)",
        ),
        (
            "sudo",
            rf"\b(?:echo|printf)[ \t]+({_WORD})(?=[ \t]{{0,9}}\|[ \t]{{0,9}}sudo[ \t][^\n|;]{{0,40}}?-\w{{0,3}}S\b)",
        ),
        ("htpasswd", r"\bhtpasswd[ \t]+-\w{0,8}b\w{0,8}[ \t]+\S{1,200}[ \t]+([^\n]{1,400})"),
        ("rabbitmqctl", rf"\brabbitmqctl[ \t]+(?:add_user|change_password)[ \t]+\S{{1,64}}[ \t]+({_WORD})"),
        ("net", rf"\bnet[ \t]+user[ \t]+\S{{1,64}}[ \t]+(?!/)({_WORD})"),
        (
            "securestring",
            rf"\bConvertTo-SecureString(?:[ \t]+-(?:AsPlainText|Force|String)\b){{0,3}}[ \t]+(?![-$(])({_WORD})",
        ),
        (
            "adduser",
            r"\baddUser(?:\([\w., ]{0,200}\))?/[^/\s]{1,200}/([^/\s?#\"'<>]+)"
            rf"|\baddUser(?:[ \t]*\([ \t]*|[ \t]+){_CALL_WORD}(?:[ \t]*,[ \t]*|[ \t]+)(?!java\.)({_CALL_WORD})",
        ),
        ("pass auth", r"\A(?-i:PASS|AUTH)[ \t]+(\S[^\n]*)"),
        ("-u --proxy-user --auth", rf"(?<!\S)(?:-u|--(?:proxy-)?user|--auth)(?:[ \t]+|=){_ACCOUNT}"),
        ("curl", rf"(?<!\S)-[A-Za-z#0-9]{{0,8}}?u[ \t]{{0,9}}{_ACCOUNT}"),
        # In the query of a URI.
        (
            "=",
            r"(?:[?&;]|&amp;|%26|%3f)(?:(?:bearer|auth|signature|x-amz-(?:signature|credential)|sid)(?:=|%3d)"
            r"([^\s&\"'<>#;]{1,4096})|(?:key|code|session)(?:=|%3d)(?P<guess>[^\s&\"'<>#;]{1,4096}))",
        ),
        (
            "jdbc:oracle: sqlplus",
            r"(?:jdbc:oracle:\w{1,20}:|\bsqlplus[ \t]+(?:-\w+[ \t]+)?)[^/@\s\"']{1,128}/([^\s\"'<>`]{0,512})(?=@)",
        ),
        # The password of a URI, up to the last @, because passwords may contain one; no port: 10.0.0.1:47178@61616.
        (
            "//",
            r"//[^/\s:@\"'<>()]{0,256}:(?!/|\d+@\d+\b(?!\.\w)|\d{1,5}(?![^\s/?#,)&;\"'<>\]}|:]))"
            r"((?:(?!//)[^\s\"'<>`])+(?=@)|(?!\s)(?:(?!//)[^\r\n<])+(?=@))",
        ),
        ("%2f%2f", r"%3a%2f%2f[^\s%]{0,256}%3a((?:(?!%2f%2f)[^\s\"'<>])*)%40"),
        # https://TOKEN@host, and user:PASSWORD@host without a scheme; no mail address, object or ssh://user@host.
        (
            "// %2f%2f",
            rf"(?://|%3a%2f%2f)(?!(?=[^@%]{{1,19}}{_AT_SIGN}){_USER}{_AT_SIGN})([^/\s:@%\"'<>()?#]{{1,256}}){_AT_SIGN}(?=[\w\[$])",
        ),
        (
            "@",
            r"(?<![\w/@:.%?&=-])(?=[A-Z][\w.+-]{0,63}:[^\s\"'<>`,;()|&?]{1,128}@)"
            rf"(?!{_NOT_A_USER}:|{_USER_LABEL}:{_USER}@)[\w.+-]{{1,64}}:"
            rf"(?![/@:]|\d+@[\w.:-]*(?![\w.:@-])|{_USER}@(?!{_ADDRESS}))([^\s\"'<>`,;()|&?]{{1,128}})@"
            rf"(?={_ADDRESS}|(?!{_NOT_A_HOST})\w)",
        ),
    )
)
"""Words of which a line must contain one, in lower case, for the pattern to be tried, and the pattern."""

_CALL_WORDS = tuple(map(re.compile, ("auth", "cred", "login", "logon", "connect", "passw", "pw", "user")))
_CALL = re.compile(
    r"\w{0,40}?(?:auth|credentials?|log[io]n|authenticate|authentication|connection|connectionfactory|connect"
    r"|passw(?:or)?d|pw_?set|user_?pass)[ \t]{0,3}(?:=[ \t]{0,3})?\(\s{0,20}"
    rf"{_FIRST_ARGUMENT}(?:{_COMMA}{_QUOTE}[\w+.(:-]{{1,64}}//[^\n\"'&]{{0,256}}{_QUOTE})?"
    rf"{_COMMA}(?P<secret>{_QUOTE}(?![\w+.(:-]{{1,64}}//)(?:[^\n]*{_QUOTE}|[^\n]+))",
    re.IGNORECASE,
)
"""Calls such as ``basicAuth("user", "PASSWORD")``: the second argument, or that after a URI, and the following text."""
_VALUE_BEFORE_NAME = re.compile(
    r"\bvalue\\{0,7}[\"']?\s{0,5}[:=]\s{0,5}\\{0,7}[\"'](?=[^\n]{1,300}?\\{0,7}[\"']\s{0,20},?\s{0,20}"
    r"\\{0,7}[\"']?(?:name|key|id)\\{0,7}[\"']?\s{0,5}[:=]\s{0,5}\\{0,7}[\"'](?P<name>[\w.$-]{1,80}))"
    r"([^\n]{1,300}?)(?=\\{0,7}[\"']\s{0,20},?\s{0,20}\\{0,7}[\"']?(?:name|key|id)\b)",
    re.IGNORECASE,
)

_PRIVATE_KEY_EDGE = re.compile(r"-----(?P<edge>BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_LENGTH = 16384
"""Characters that a private key has at most: one of RSA with 16,384 bits has 12,800."""
# The rest of the header's line; lines of a key: base64 alone, base64 as long as in keys after what a log puts before
# it, a header, or blank; and any line just before the last line of the key.
_KEY_BODY = re.compile(
    r"(?:(?!-----END)[^\n])*(?:\n(?:[ \t\r\"'#>|+*]{0,80}(?:\\{1,7}[nr])?[A-Za-z0-9+/=_-]+|[^\n]{0,200}?[ \t|:>\"']"
    r"(?:[A-Za-z0-9+/=]{40,}|[A-Za-z0-9+/=]{60,}[^\n]{0,400})|[ \t]{0,80}(?:Proc-Type|DEK-Info|Version|Comment|Hash"
    r"|Charset):[^\n]{0,200}|[ \t]{0,80})[ \t\r\"',;+.\\nr]{0,20}(?=\n|\Z))*(?:\n[^\n]*(?=\n[^\n]{0,200}-----END))?"
)
_KEY_LINE_END = re.compile(r"(?:\A|[^A-Za-z0-9+/=])[A-Za-z0-9+/=]{16,}\s*\Z")


def mask_secrets_by_shape(text: str, known: KnownSecrets, before: str = "") -> str:
    """Return a text with the secrets masked that are recognized by their shape, such as tokens and private keys.

    ``before``: text that is located before ``text`` on the same line.
    """

    def mask_match(match: re.Match[str]) -> str:
        groups = match.groupdict()
        if groups.get("name") and not is_secret_name(groups["name"]):
            return match[0]
        if groups.get("guess") and not looks_like_generated_password(groups["guess"]):
            return match[0]
        start, end = match.span(match.lastindex or 0)
        masked = known.mask_secret_in_span(match.string, start, end, before)
        return match.string[match.start() : start] + masked + match.string[end : match.end()]

    if "PRIVATE KEY" in text:
        text = _mask_private_keys(text, known)
    text = _VALUE_BEFORE_NAME.sub(mask_match, text)
    if "(" in text:
        text = _mask_calls(text, known)
    lower_text = text.lower()
    rules = [(needles, pattern) for needles, pattern in _LINE_RULES if any(needle in lower_text for needle in needles)]
    lines = text.split("\n") if rules else [text]
    for number, line in enumerate(lines):
        lower_text = line.lower()
        for needles, pattern in rules:
            if any(needle in lower_text for needle in needles):
                lines[number] = pattern.sub(mask_match, lines[number])
    return "\n".join(lines)


def _mask_calls(text: str, known: KnownSecrets) -> str:
    pieces: list[str] = []
    copied_until = 0
    for position in secret_word_positions(text, _CALL_WORDS):
        call = _CALL.match(text, position) if position >= copied_until else None
        if call:
            start, end = call.start("secret"), logger_and_thread_start(text, *call.span("secret"))
            pieces += [text[copied_until:start], known.mask_secret_in_span(text, start, end)]
            copied_until = end
    return "".join(pieces) + text[copied_until:]


def _mask_private_keys(text: str, known: KnownSecrets) -> str:
    """Return a text with the bodies of PEM private keys masked, also of a key that is only partly in the text."""
    pieces: list[str] = []
    position = 0
    for edge in _PRIVATE_KEY_EDGE.finditer(text):
        start, end = edge.span()
        if start < position:
            continue
        if edge["edge"] == "BEGIN":
            body = _KEY_BODY.match(text, end, end + _KEY_LENGTH)
            start, end = end, body.end() if body else end
        else:  # the text before this one contains the first line of the key
            start, end = _body_start(text, max(position, start - _KEY_LENGTH), start), start
        pieces += [text[position:start], known.mask_secret_in_span(text, start, end)]
        position = end
    return "".join(pieces) + text[position:]


def _body_start(text: str, lowest: int, end: int) -> int:
    """Return the start of a private key's lines before ``end``, the position of the key's last line."""
    start = max(lowest, text.rfind("\n", lowest, end) + 1)
    last_line = start
    while start > lowest:
        previous_start = max(lowest, text.rfind("\n", lowest, start - 1) + 1)
        if not _KEY_LINE_END.search(text[previous_start:start]):
            break
        start = previous_start
    return start if start < last_line or _KEY_LINE_END.search(text[last_line:end]) else end
