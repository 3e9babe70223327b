"""Mutations of valid configuration files, as accidents and attackers cause them: parts cut, doubled, inserted."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

from activemq_fleet.lint import rules_of_scope
from activemq_fleet.releases import Release
from tests.rule_examples import complete

RELEASES = ("5.5.1", "5.8.0", "5.18.3", "6.3.1")
_TOKEN = re.compile(rb"<[^<>]*>|[\w.+-]+|[^\w\s]|\s+")
_TAG = re.compile(rb"<[A-Za-z][^<>]*>")
_VALUE = re.compile(rb'"[^"]*"')
INSERTIONS = (
    b"&",
    b"&amp;",
    b"&#0;",
    b"&#xD800;",
    b"&nosuch;",
    b"<",
    b">",
    b"]]>",
    b"<![CDATA[",
    b"<!--",
    b"-->",
    b"<?php ?>",
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xee\x80\x80",
    "é\u2028\U0001f40d".encode(),
    b"\r",
    b"\r\n",
    b"${",
    b"#{T(java.lang.Runtime)}",
    b"((((((((((",
    b"))),,,",
    b"static:(failover:(masterslave:(",
    b"tcp://[::1]:99999999999999999999",
    b"tcp://[",
    b"://",
    b"?=&=&&",
    b"-1",
    b"99999999999999999999999",
    b"1e400",
    b" gb",
    b"\xd9\xa0",
    b"xmlns=''",
    b"xml:base='x'",
    b"x:y='z'",
    b"<broker/>",
    b"<networkConnector/>",
    b"<bean/>",
    b"<import resource='../../etc/passwd'/>",
    b"<locker><lease-database-locker/></locker>",
    b'<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb"><!ENTITY c "&b;&b;&b;&b;">]>',
    b'<!DOCTYPE a SYSTEM "file:///etc/passwd">',
)


def seed_documents() -> list[bytes]:
    """Return the documents of the examples of every file rule."""
    examples = [
        example for rule in rules_of_scope("file") for example in (*rule.failing_examples, *rule.passing_examples)
    ]
    return [
        complete(example.text, Release.of(example.release)) for example in examples if example.file == "activemq.xml"
    ]


def mutate_document(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Return a document after one to six mutations."""
    for _ in range(random.randint(1, 6)):
        data = random.choice(_MUTATIONS)(data, others, random)
    return data[:200_000]


def _cut(data: bytes, _others: Sequence[bytes], random: Random) -> bytes:
    begin, end = sorted(random.randrange(len(data) + 1) for _ in range(2))
    return data[:begin] + data[min(end, begin + random.choice((1, 5, 50, 5000))) :]


def _insert(data: bytes, _others: Sequence[bytes], random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.choice(INSERTIONS) + data[at:]


def _flip(data: bytes, _others: Sequence[bytes], random: Random) -> bytes:
    if not data:
        return data
    at = random.randrange(len(data))
    return data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]


def _replace_value(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Replace the value of one attribute by the value of another one, or by a text of ``INSERTIONS``."""
    values, other_values = list(_VALUE.finditer(data)), _VALUE.findall(random.choice(others))
    if not values:
        return data
    position = random.choice(values)
    new: bytes = random.choice([*other_values, *(b'"' + text + b'"' for text in INSERTIONS)])
    return data[: position.start()] + new + data[position.end() :]


def _insert_element(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Insert a start tag of another document, closed at once."""
    tags = _TAG.findall(random.choice(others))
    places = [match.end() for match in _TAG.finditer(data)]
    if not tags or not places:
        return data
    tag: bytes = random.choice(tags)
    at = random.choice(places)
    return data[:at] + (tag if tag.endswith(b"/>") else tag[:-1] + b"/>") + data[at:]


def _change_token(data: bytes, _others: Sequence[bytes], random: Random) -> bytes:
    """Double, remove or replace one token, by another one of the same document."""
    tokens = _TOKEN.findall(data)
    if not tokens:
        return data
    at = random.randrange(len(tokens))
    new = random.choice(([tokens[at]] * 2, [], [random.choice(tokens)]))
    return b"".join([*tokens[:at], *new, *tokens[at + 1 :]])


def _nest(data: bytes, _others: Sequence[bytes], random: Random) -> bytes:
    depth = random.choice((10, 300, 5000))
    at = data.find(b"<broker")
    return data[:at] + b"<broker>" * depth + b"</broker>" * depth + data[at:] if at >= 0 else data


def _encode(data: bytes, _others: Sequence[bytes], random: Random) -> bytes:
    """Return the same text in another encoding, which the declaration may contradict."""
    text = data.decode("utf-8", "replace")
    name = random.choice(("utf-16", "utf-16-le", "latin-1", "utf-8-sig", "cp037"))
    if random.random() < 0.5:
        text = text.replace("UTF-8", name.upper())
    return text.encode(name, "replace")


_MUTATIONS: tuple[Callable[[bytes, Sequence[bytes], Random], bytes], ...] = (
    *(
        _cut,
        _insert,
        _insert,
        _flip,
        _replace_value,
        _replace_value,
        _insert_element,
        _insert_element,
        _change_token,
        _nest,
        _encode,
    ),
)
