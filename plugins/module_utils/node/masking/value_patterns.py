# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The patterns by which ``values.py`` tells a secret's value from other text, and finds where the value ends."""

from __future__ import annotations

import re

_BLANKS = r"(?:[ \t\r\v\f\u00a0\u200b\u2060\ufeff]|\x1b\[[\d;]{0,8}m)*"
SEPARATED = re.compile(
    rf"(?P<close>\[[\"'][^\"'\]\n]{{1,64}}[\"']\](?=[ \t]{{0,9}}=)"
    rf"|\\{{0,15}}[\"'`]\]?|&(?:quot|apos);|&#(?:34|39);|%22|\\{{1,7}}u0022|\"?\])?{_BLANKS}"
    rf"(?:(?<=[ \t])(?:is|was){_BLANKS}(?=[:=]))?"
    r"(?:(?P<separator>[?+!~^*.|:]{0,2}=+>?|::?|[-=]?>{2}|->|\\{0,7}[：＝∶﹕꞉→⇒➔⟶=:]"
    r"|%(?:25){0,3}3[da]|\\{1,7}u003[da]|&#(?:61|58|x3[da]);|&gt;|\n\s{0,100}[:=](?=\s)"
    r"|(?:,\s{0,100}|\n[ \t]{0,100})\\{0,15}[\"']?value\\{0,15}[\"']?[ \t]{0,9}[:=]"
    r"|</[\w:.-]{1,64}>\s{0,100}<[\w:.-]{1,64}>"
    rf"|,(?=\s{{0,100}}\\{{0,15}}[\"'])|\(|(?=\[)){_BLANKS}"
    r"|(?P<blank>(?<=[\s\"'])))",
    re.IGNORECASE,
)
NEXT_LINE = re.compile(r"\s*(?=[\"\[{])")
BLOCK = re.compile(r"[|>][+-]?\d?[+-]?[ \t]*(?:#[^\n]*)?\r?(?=\n|\Z)")
SCHEME = re.compile(r"(?:Basic|Bearer|Digest|Negotiate|NTLM|Token|ApiKey|Key|AWS4-HMAC-SHA256)[ \t]+", re.IGNORECASE)
# A call in Java's stack traces and signatures shows no value.
SIGNATURE = re.compile(
    r"\)|s\)|[\w$./-]*\.(?:java|kt|scala|groovy):\d+|Native Method|Unknown Source|[a-z]\w*\.[\w.$\[\], ]+\)"
)
NEXT_OPTION = re.compile(r"[ \t]+(?=--?[A-Za-z])|[ \t]+;(?=[ \t]|\Z)")
NEXT_PARAMETER = re.compile(r"&(?:amp;|#38;)?(?=[\w.-]{1,64}=)")
RECORD_TAIL = re.compile(r"[A-Za-z_$][\w$-]*(?:\.[\w$-]+)+")
PROSE = re.compile(
    r"(?:is|was|were|are|be|been|has|have|had|must|may|can|cannot|could|should|shall|will|would|not|no|or|and|nor|for|of"
    r"|in|on|at|to|by|from|with|as|but|if|when|than|that|this|which|who|does|did|do|authentication|property|attribute"
    r"|option|parameter|field|file|set|unset|missing|required|expired?|invalid|incorrect|wrong|empty|changed|rejected"
    r"|accepted|protected|updated|reset|failed|failure|mismatch|based|hash(?:es|ed)?|manager|policy|check|prompt|value"
    r"|provided|given|needed|found|used|only|encoder|encryption|encrypted|database|store|handling|support)"
    r"(?=[.,;:!?)\]}>'\"]*(?:\s|\Z))",
    re.IGNORECASE,
)
NO_VALUE = re.compile(
    r"(?:[a-z]{2,20}(?:ed|ing|ly)|(?i:ok|okay|correct|valid|good|bad|weak|strong|too|also|still|now|already|always|never|being|null|none|nil|true|false"
    r"|yes|optional|hidden|redacted|unknown|different|same|identical|equal|blank|short|long|old|new|due|just|the|a|an"
    r"|denied|refused|disabled|enabled|locked|access|permission|connection|login|user|error|please|see|likely|about|it|its"
    r"|there|unable|could|cannot|kept|taken|known|hidden|written|shown|sent|read|stored|left|wrongly|visible))(?=[.,;:!?)\]}>'\"]*(?:\s|\Z))"
    r"|[\w.$]{0,200}(?:Exception|Error)\b|[a-z][\w+]{1,15}://|[/|)]"
)
"""Matches words that are no password though they follow a password's name and words that say whose it is."""

# Blanks are bounded: each run of them could be divided between the parts in as many ways as it is long.
WHOSE = re.compile(
    r"(?:[ \t]{1,8}|[ \t]{0,8}\()(?:for|of|from|by)[ \t]{1,8}"
    r"(?!(?:the[ \t]{1,16})?(?:user|user-?name|account|login|host|client|broker|ur[il]|id)[ \t]{0,16}[:=])"
    r"[^\r\n:=<>{}|,;]{1,128}?\)?"
    r"(?:[ \t]{0,16}[:=][ \t]{0,16}|[ \t]{1,16}(?:is|was|(?:set|changed|reset)[ \t]{1,16}to)[ \t]{0,16}[:=]?[ \t]{1,16}"
    r"|[ \t]{1,16}(?=[\"'`]))"
    r"|[ \t]{0,16}\([^()\r\n]{1,64}\)[ \t]{0,16}[:=][ \t]{0,16}"
    r"|[ \t]{1,16}(?:is|was)(?:[ \t]{1,16}now)?[ \t]{1,16}"
    r"|[ \t]{1,16}(?:(?:is|was|has been)[ \t]{1,16})?(?:(?:set|changed|reset|updated|modified)[ \t]{1,16})?"
    r"to[ \t]{1,16}",
    re.IGNORECASE,
)
JUDGED = re.compile(
    r"[ \t]{1,16}(?:(?:is|was)[ \t]{1,16})?"
    r"(?:incorrect|invalid|wrong|rejected|refused|mismatch|expired|failed|bad|set|changed)"
    r"[ \t]{0,16}[:=][ \t]{0,16}"
    r"|[ \t]{1,16}(?:[-–—|,;][ \t]{1,16})?|[ \t]{0,16}[;,/~#$][ \t]{0,16}",
    re.IGNORECASE,
)
MEMBER = re.compile(
    r"\\{0,7}[\"']?\s{0,20},\s{0,20}\\{0,7}[\"'](?P<key>[\w.-]{1,40})\\{0,7}[\"'](?P<separator>\s{0,5}:\s{0,5})"
    r"(?P<value>\\{0,7}[\"'][^\"'\\\n]{0,80}|[\w.-]{1,40})?"
)
MEMBER_BEFORE = re.compile(
    r"value\\{0,7}[\"']\s{0,5}:\s{0,5}\\{0,7}[\"'](?P<value>[^\n]{1,300}?)\\{0,7}[\"']\s{0,20},\s{0,20}"
    r"\\{0,7}[\"'](?:name|key|id)\\{0,7}[\"']\s{0,5}:\s{0,5}\\{0,7}[\"']\Z"
)
WORD = re.compile(r"[^\s\"'`<>(){}\[\],;]{8,256}")
PAIRS = {"(": ")", "{": "}", "<": ">"}
KEY_WORD = re.compile(r"[ \t_-]{1,3}(?:key|phrase|word|code)s?(?![\w.-])", re.IGNORECASE)
BEFORE_KEY = re.compile(
    r"(?<![\w.-])(?:api|private|access|account|shared|secret|master|encryption|signing)[ \t]\Z", re.IGNORECASE
)
CONTINUED = re.compile(r"[ \t]*\r?\n(?P<indent>[ \t]*)(?P<value>[^\r\n]+)")
KEY_OF_LINE = re.compile(r"[#;!<\[}\]/]|[\w.$@-]{1,200}[ \t]*[=:{]|\S+[ \t]+\S")
NAME_REST = re.compile(r"(?:[\w.$-]|\[\d{1,4}\]){1,88}")
TOKEN = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|[\[\]{}]|[^\s\[\]{},:\"']+", re.DOTALL)
KEY_END = re.compile(r"\s{0,100}:")
BRACKET = re.compile(r"\](?=[\s,;)}\]|.'\"]|\Z)")
