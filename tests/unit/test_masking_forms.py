"""The masker removes every form of a secret, keeps other text readable, and does not change masked text."""

from __future__ import annotations

import base64
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable
from functools import partial
from urllib.parse import quote

import pytest

from activemq_fleet.logs.kinds import log_message_kind, log_message_kind_ids
from activemq_fleet.node.masking import (
    LINE_LENGTH,
    UNKNOWN,
    KnownSecret,
    KnownSecrets,
    mask_command_line,
    mask_configuration_file_text,
    mask_text,
)
from tests.situations import further, some_situations
from tests.unit.hostile_texts import CONTEXTS, PIECES, hostile_text
from tests.unit.masking_forms import ANYTHING, FILES, PHRASES, READABLE, WORD, WORDS
from tests.work import QUADRATIC, growth_of_time


def fill_form(form: str, secret: str) -> str:
    return form.replace("{{", "\0").replace("}}", "\1").replace("{}", secret).replace("\0", "{").replace("\1", "}")


def test_table_of_secret_forms_has_more_forms_than_attacker_tried() -> None:
    assert len(ANYTHING) + len(WORDS) > 63
    assert len(FILES) > 31


@pytest.mark.parametrize("form", [*ANYTHING, *WORDS])
def test_every_form_of_secret_in_text_is_masked(form: str) -> None:
    masked = mask_text(fill_form(form, WORD))

    assert "canary" not in masked.lower()
    assert UNKNOWN in masked
    assert mask_text(masked) == masked


@pytest.mark.parametrize("form", ANYTHING)
def test_secret_with_separators_is_masked_to_end_of_line(form: str) -> None:
    for secret in PHRASES:  # 2400 parameters would take ten times the time of the checks
        masked = mask_text(fill_form(form, secret))

        assert "canary" not in masked, secret
        assert mask_text(masked) == masked, secret
        assert "canary" not in mask_configuration_file_text("conf/x.properties", fill_form(form, secret)), secret


@pytest.mark.parametrize(("path", "form"), FILES)
def test_every_form_of_secret_in_file_is_masked(path: str, form: str) -> None:
    text_with_secret = fill_form(form, WORD)

    masked = mask_configuration_file_text(f"conf/{path}", text_with_secret)

    assert "canary" not in masked
    assert UNKNOWN in masked
    assert mask_configuration_file_text(f"conf/{path}", masked) == masked
    if path.endswith(".xml"):
        assert is_well_formed_xml(masked) == is_well_formed_xml(text_with_secret)


QUOTED = [
    form
    for form in WORDS
    if form.count("{}") == 1 and any(f"{q}{{}}{q}" in form for q in "\"'") and not any(c in form for c in "<&\\")
]


@pytest.mark.parametrize(
    "form", [form for form in QUOTED if '\\"{}' not in form and "<" not in form and "&" not in form]
)
@pytest.mark.parametrize(
    "secret", ["canary horse canary", "canary;canary)canary", "canary>canary,canary", "canary:canary"]
)
def test_quoted_secret_is_masked_up_to_closing_quote(form: str, secret: str) -> None:
    assert "canary" not in mask_text(fill_form(form, secret))


@pytest.mark.parametrize("secret", [r"canary\"canary", r"canary\\", r"\"canary\" canary", "canary'canary"])
def test_escaped_quotes_do_not_end_secret(secret: str) -> None:
    outer = json.dumps({"a": json.dumps({"password": secret, "user": "bob"})})
    for text_with_secret in (
        f'{{"password": "{secret}", "user": "bob"}}',
        json.dumps({"password": secret, "user": "bob"}),
        outer,
    ):
        masked = mask_text(text_with_secret)
        assert "canary" not in masked
        assert "bob" in masked


@pytest.mark.parametrize(
    "secret", ["a@canary", "canary@canary", "can/canary", "canary:canary", "canary#?canary", "12345@canary"]
)
@pytest.mark.parametrize(
    "form", ["tcp://user:{}@host:1", "//user:{}@host", "static:(tcp://a:1,tcp://user:{}@host:2,tcp://b:3)"]
)
def test_password_in_uri_ends_at_last_at_sign(form: str, secret: str) -> None:
    masked = mask_text(fill_form(form, secret))

    assert "canary" not in masked
    assert "@host" in masked
    assert mask_text(masked) == masked


@pytest.mark.parametrize("text", READABLE)
def test_text_without_secret_is_readable(text: str) -> None:
    assert mask_text(text) == text


def test_masked_log_record_keeps_logger_and_thread() -> None:
    line = "2026-11-21 05:22:44,001 | WARN  | failed password=a b | org.apache.activemq.Broker | ActiveMQ Transport: x"

    assert mask_text(line) == line.replace("a b", UNKNOWN)


def test_secret_is_masked_in_any_letter_case() -> None:
    for form in ANYTHING:
        for cased_form in (form.upper(), form.title()):
            assert "CANARY" not in mask_text(fill_form(cased_form, WORD)).upper(), cased_form


def is_well_formed_xml(text: str) -> bool:
    try:
        ET.fromstring(text)  # noqa: S314 -- the test wrote this text
    except ET.ParseError:
        return False
    return True


KNOWN = "Can4ry<&>\"pä'ss=/+ \\word"
ESCAPED_FORMS = {
    "plain": KNOWN,
    "xml": "Can4ry&lt;&amp;&gt;&quot;pä'ss=/+ \\word",
    "xml with numbers": "Can4ry&#60;&#38;&#62;&#34;p&#228;&#39;ss=/+ \\word",
    "json": json.dumps(KNOWN)[1:-1],
    "json without ascii escapes": json.dumps(KNOWN, ensure_ascii=False)[1:-1],
    "gson": 'Can4ry\\u003c\\u0026\\u003e\\"pä\\u0027ss\\u003d/+ \\\\word',
    "uri": quote(KNOWN, safe=""),
    "uri in lowercase": re.sub("%..", lambda escape: escape[0].lower(), quote(KNOWN, safe="")),
    "json in json": json.dumps(json.dumps(KNOWN))[3:-3],
    "uri twice": quote(quote(KNOWN, safe=""), safe=""),
    "hex": KNOWN.encode().hex(),
    "HEX": KNOWN.encode().hex().upper(),
    "hex with colons": KNOWN.encode().hex(":"),
}  # fmt: skip


@pytest.mark.parametrize("form", ESCAPED_FORMS)
def test_known_secret_is_masked_in_every_escape(form: str) -> None:
    known = KnownSecrets([KnownSecret(KNOWN.replace("\\", "\\\\"), "activemq_x")])

    assert mask_text(f"it was <{ESCAPED_FORMS[form]}> there", known) == "it was <@activemq_x@> there"


@pytest.mark.parametrize("before", ["", "u", "us", "user:", "a longer user's name:"])
@pytest.mark.parametrize("url_safe", [False, True])
def test_known_secret_is_masked_in_base64_at_any_offset(before: str, url_safe: bool) -> None:
    secret = "Can4ry?~>>??ÿ-word"
    encode = base64.urlsafe_b64encode if url_safe else base64.b64encode
    for after in ("", "x", "xy", "xyz and more"):
        encoded_text = encode(f"{before}{secret}{after}".encode()).decode()

        masked = mask_text(f"sent {encoded_text} there", KnownSecrets([KnownSecret(secret, "activemq_x")]))

        visible = masked.removeprefix("sent ").removesuffix(" there").replace("@activemq_x@", "").replace(UNKNOWN, "")
        assert len(visible) <= len(encoded_text) - len(secret) * 4 // 3
        assert UNKNOWN in masked or "@activemq_x@" in masked


def test_short_known_secret_is_masked_only_as_password() -> None:
    known = KnownSecrets([KnownSecret("admin", "activemq_users[0].password")])

    assert (
        mask_text("tried password=admin, user=admin", known)
        == "tried password=@activemq_users[0].password@, user=admin"
    )


def test_words_of_command_line_are_masked_completely() -> None:
    words = ["sshpass", "-p", "can ary", "curl", "-u", "bob:can ary", "--token", "-canary", "-Dpw=can ary", "x=y"]

    assert mask_command_line(words) == [
        "sshpass", "-p", UNKNOWN, "curl", "-u", f"bob:{UNKNOWN}", "--token", UNKNOWN, f"-Dpw={UNKNOWN}", "x=y",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        ["/usr/bin/mysql", "-u", "root", "-pcanary"],
        ["sshpass", "-pcanary", "ssh", "host"],
        ["7z", "a", "-pcanary", "out.7z"],
        ["zip", "-P", "canary", "out.zip"],
        ["sqlcmd", "-U", "sa", "-P", "canary horse"],
        ["curl", "-sSubob:canary", "http://host/"],
    ],
)
def test_options_of_command_show_no_password(words: list[str]) -> None:
    masked = mask_command_line(words)

    assert "canary" not in " ".join(masked)
    assert len(masked) == len(words)


def growth_of_masking(path: str, make: Callable[[int], str], size: int) -> float:
    return growth_of_time(lambda text: mask_configuration_file_text(path, text), make, size)


def pieces_with_nonlinear_time(
    pieces: Iterable[tuple[str, tuple[str, str]]], path: str, size: int
) -> list[tuple[str, float]]:
    """Return the pieces, and the growth, for which the time of the masker grows more than linearly with the text."""
    growths = [(piece, growth_of_masking(path, partial(hostile_text, piece, around), size)) for piece, around in pieces]
    return [(piece, factor) for piece, factor in growths if factor > QUADRATIC]


def test_masking_time_of_long_line_of_repeated_piece_grows_linearly() -> None:
    pieces = ("password", " ", '"', "'", "<", "&", "\\", "://", "AAAA", '"password":{', "x=y ", "[")

    assert pieces_with_nonlinear_time([(piece, CONTEXTS[0]) for piece in pieces], "conf/setenv", 60_000) == []
    assert (
        growth_of_masking("conf/activemq.xml", lambda blanks: '<property name="password"' + " " * blanks, 240)
        < QUADRATIC
    )


@some_situations(2)
@pytest.mark.parametrize(
    "path",
    [
        "conf/activemq.xml",
        "conf/x.properties",
        *further(
            "conf/setenv", "conf/x.yml", "users.properties", "a.password", "jetty-realm.properties", "jmx.password"
        ),
    ],
)
def test_masking_time_of_any_repeated_piece_grows_linearly(path: str) -> None:
    offset = len(path)
    pieces = [(piece, CONTEXTS[(offset + index) % len(CONTEXTS)]) for index, piece in enumerate(PIECES)]

    assert pieces_with_nonlinear_time([*pieces, *((piece, ("", "")) for piece in PIECES)], path, 600) == []


GROUP = re.compile(r"\(\?P<\w+>(?:[^()\\\[]|\\.|\[[^\]]*\]|\((?:[^()\\\[]|\\.|\[[^\]]*\])*\))*\)")
NAMES = (
    "orders-mq01",
    "tcp://10.0.0.1:47178@61616",
    "ID:orders-mq01-41523-1716-0:1:1",
    "5.18.3",
    "bob",
    "/srv/amq",
    "4",
)


def ordinary_lines(count: int) -> list[str]:
    """Return lines like those in logs of brokers, made from the message kinds of the library."""
    shapes = [GROUP.sub("\0", log_message_kind(id_).regex.pattern).strip("^$") for id_ in log_message_kind_ids()]
    shapes = [
        re.sub(r"\\([^a-zA-Z0-9])", r"\1", re.sub(r"\\[wSd][+*]?|\[[^\]]*\][+*]?", "\0", shape)) for shape in shapes
    ]
    lines = []
    for number in range(count):
        message = shapes[number % len(shapes)].replace("\0", NAMES[number // len(shapes) % len(NAMES)])
        time = f"2026-11-21 05:22:4{number % 10},{number % 1000:03}"
        lines.append(f"{time} | WARN  | {message} | org.apache.activemq.broker.X | main-{number}")
    return lines


def test_at_most_one_percent_of_ordinary_log_lines_is_masked() -> None:
    lines = ordinary_lines(10_000)

    masked = mask_text("\n".join(lines)).split("\n")

    assert sum(masked_line != line for masked_line, line in zip(masked, lines, strict=True)) <= 100


@pytest.mark.parametrize("path", ["", "conf/setenv", "conf/x.yml", "conf/x.properties", "users.properties"])
def test_masking_twice_file_with_every_form_equals_masking_once(path: str) -> None:
    forms = [fill_form(form, WORD) for form in [*ANYTHING, *WORDS, *(form for _, form in FILES)]]
    text_with_secrets = "\n".join(
        [line for pair in zip(forms, ordinary_lines(len(forms)), strict=True) for line in pair]
    )

    masked = mask_configuration_file_text(path, text_with_secrets) if path else mask_text(text_with_secrets)

    assert (mask_configuration_file_text(path, masked) if path else mask_text(masked)) == masked


RECORDS = "".join(
    f"2026-11-21 05:22:44,00{n} | INFO  | started {n} | org.apache.activemq.Broker | main\n" for n in range(9)
)
KEY_LINES = "MIICdgIBADANBgkqhkiG9w0BAQEFAASCAmAwggJcAgEAAoGBAMcanarycanarycA\n" * 3 + "canary==\n"


@pytest.mark.parametrize("end", ["", "-----END PRIVATE KEY-----\n"])
def test_header_of_private_key_hides_no_log_record(end: str) -> None:
    masked = mask_text(f"-----BEGIN PRIVATE KEY-----\n{RECORDS}{end}{RECORDS}")

    assert masked == f"-----BEGIN PRIVATE KEY-----\n{RECORDS}{end}{RECORDS}"


@pytest.mark.parametrize("before", ["", "  ", "Nov 22 05:22:44 host app[1]: ", "# "])
def test_private_key_is_masked_after_log_prefixes(before: str) -> None:
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_LINES}-----END RSA PRIVATE KEY-----\n"
    log = "".join(f"{before}{line}\n" for line in key.splitlines())

    masked = mask_text(f"{log}{RECORDS}")

    assert "canary" not in masked
    assert masked.endswith(RECORDS)


def test_overlong_line_is_cut_with_count_of_omitted_characters() -> None:
    log = f"first\n{'x' * (LINE_LENGTH + 10)}\nlast password=canary"

    masked = mask_text(log)

    assert (
        masked == f"first\n{'x' * LINE_LENGTH} [10 more characters of this line were left out]\nlast password={UNKNOWN}"
    )
    assert mask_text(masked) == masked


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("jetty-realm.properties", '-u a:"value":"a","name":"password","value":"a","name":"password",'),
        ("activemq.json", "jdbc:oracle:thin:a/b@c.da:b@c.da:b" * 100),
    ],
)
def test_line_with_endlessly_repeated_forms_does_not_change_other_lines(path: str, line: str) -> None:
    masked = mask_configuration_file_text(path, f"first\n{line}\nlast")

    assert masked.startswith("first\n")
    assert masked.endswith("\nlast")
    assert mask_configuration_file_text(path, masked) == masked


def test_heading_with_word_password_in_log_hides_no_record() -> None:
    """In logs of releases with log4j 1, a client's name can fill a separate line."""
    records = [f"2026-11-21 05:22:4{number},001 | INFO  | text {number} | org.x | main" for number in range(3)]
    log = "\n".join(["user | password | x | y | z", *records, ""])

    assert mask_text(log) == log


def test_line_after_backslash_in_log_is_readable() -> None:
    log = "2026-11-21 05:22:44,001 | WARN  | password=x\\\n2026-11-21 05:22:45,001 | INFO  | text | org.x | main\n"

    assert "| INFO  | text | org.x | main" in mask_text(log)
