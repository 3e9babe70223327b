"""Files of brokers that are alike but for their names: made once, with places for the names.

In a group most brokers have the same settings and as many links, and what is written of one is what is
written of the next, with other names in it. So the files are made of a broker whose names are
*stamps*, words that nobody has, and taken apart there; another broker's names in the places of
the stamps give its files.

What makes it exact. All that rendering may ask of a broker is either in the key, or a stamp. Stamps
that stand for host names look like them, and only host names that look like stamps come into their
place (``_PLAIN``): whatever holds of the one for an escaper or a pattern holds of the other. Any text may
stand for the other stamps, which are names and URIs of links; each is written so that nothing but one
escape for XML makes of it what is looked for. A stamp that is found otherwise, or that has no place
in a file, raises ShapeError.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from secrets import token_hex
from typing import Any, NamedTuple, TypeAlias

from activemq_fleet.errors import FleetError
from activemq_fleet.likeness import but_for_database
from activemq_fleet.naming import Identity
from activemq_fleet.render.engine import xml
from activemq_fleet.render.holes import ShapeError
from activemq_fleet.settings import Settings
from activemq_fleet.topology.model import Broker, Link

Tree: TypeAlias = "dict[str, bytes]"
Key: TypeAlias = "tuple[Any, ...]"

# No input can hold it: it is new in every process and never leaves it.
_WORD = f"q{token_hex(8)}"
_NEVER = f"{_WORD}never"
_PLAIN = re.compile(r"[A-Za-z0-9]+(?:[.-][A-Za-z0-9]+)*")
_STAMP = re.compile(rf"{_WORD}(?:p([0-9]+)z|t([0-9]+)&lt;--%\\&quot;z)")
_SPECIAL = re.compile('[&<>"\n\r\t]')
_STORES = "/srv/activemq/"
_LABEL, _REST, _PAIR, _PEER, _DATABASE, _BROKER_NAME, _LINKS = range(7)
"""Places of the names of :func:`names_of`; of each link name and URI follow."""

_MOST = 512
_trees: dict[Key, Mold] = {}
_seen: set[Key] = set()
_lately: dict[int, tuple[Broker, Filled]] = {}
"""Of the last call, by the broker's identity, and with the broker, so that no other has it."""


class Filled(NamedTuple):
    """Where files come from: ``names`` put into a ``mold`` gave ``tree``."""

    mold: Mold
    names: Sequence[str]
    tree: Tree


def filled_of(broker: Broker) -> Filled | None:
    """How the files of this very broker were made in the last call, where that was from a mold."""
    known = _lately.get(id(broker))
    return known[1] if known else None


def tree_of(broker: Broker, make: Callable[[Broker], Tree]) -> Tree | None:
    """What ``make`` makes of a broker; None where it has to be asked itself.

    That is for a broker that is the first of its kind, has fragments, a name that is not as names are, or
    is refused by ``make``.
    """
    (tree,) = trees_of((broker,), make)
    return tree


def trees_of(brokers: Sequence[Broker], make: Callable[[Broker], Tree]) -> Iterator[Tree | None]:
    """The same of several: of a kind that is there twice the first is not asked itself either."""
    names = [names_of(broker) for broker in brokers]
    keys = [key_of(broker) if mine else None for broker, mine in zip(brokers, names, strict=True)]
    often = Counter(keys)
    _lately.clear()
    for broker, mine, key in zip(brokers, names, keys, strict=True):
        if mine is None or key is None:
            yield None
            continue
        known = _trees.get(key)
        if known is None and (often[key] > 1 or key in _seen):
            known = _kept(broker, key, make)
        if known is None:
            if len(_seen) >= _MOST:
                _seen.clear()
            _seen.add(key)
            yield None
            continue
        tree = known.with_names(mine)
        _lately[id(broker)] = broker, Filled(known, mine, tree)
        yield tree


def _kept(broker: Broker, key: Key, make: Callable[[Broker], Tree]) -> Mold | None:
    stamped = _stamped(broker)
    try:
        tree = make(stamped)
    except FleetError:  # to be told of the broker itself, by its name
        return None
    if len(_trees) >= _MOST:
        _trees.clear()
    _trees[key] = Mold((stamped, but_for_database(broker.settings)), tree)
    return _trees[key]


def names_of(broker: Broker) -> list[str] | None:
    """The names that stand in a broker's files, as they stand there; None where stamps cannot stand for them."""
    host, pair = broker.host, broker.identity.pair
    peer = broker.peer_address[0] if broker.peer_address else "none"
    if (
        host != broker.identity.name
        or broker.settings.xml_fragments
        or not (_PLAIN.fullmatch(host) and _PLAIN.fullmatch(pair) and _PLAIN.fullmatch(peer))
    ):
        return None
    label, _, rest = host.partition(".")
    database = broker.settings.jdbc
    texts = [database.url if database else "", broker.broker_name]
    for link in broker.links:
        texts += link.name, link.uri
    if _SPECIAL.search("\0".join(texts)):
        texts = [xml(text) for text in texts]
    return [label, rest, pair, peer, *texts]


def key_of(broker: Broker) -> Key:
    """Equal for brokers that differ in nothing but what :func:`names_of` has, and what no file says.

    Settings and what follows from them are compared by identity: while they are remembered, no other has it.
    """
    identity, peer, store = broker.identity, broker.peer_address, broker.store_directory
    return (
        id(but_for_database(broker.settings)),
        id(broker.release),
        id(broker.accounts),
        id(broker.connectors),
        id(broker.ports),
        identity.node,
        identity.role,
        identity.group,
        "." in broker.host,
        None if store == _STORES + identity.pair else store,
        peer and peer[1],
        broker.networked,
        broker.permissions,
        tuple(
            [
                (
                    link.kind,
                    link.duplex,
                    link.network_ttl,
                    link.consumer_ttl,
                    link.message_ttl,
                    link.include,
                    link.exclude,
                    link.destination_filter,
                )
                for link in broker.links
            ]
        ),
    )


def _stamped(broker: Broker) -> Broker:
    """The broker with a stamp for every name that a file may hold, and one that none may for each other."""
    label, rest, pair, peer = map(_plain, (_LABEL, _REST, _PAIR, _PEER))
    name = f"{label}.{rest}" if "." in broker.host else label
    identity = Identity(
        name=name,
        group=broker.identity.group,
        number=_NEVER,
        node=broker.identity.node,
        pair=pair,
        role=broker.identity.role,
        domain=_NEVER,
    )
    shared = broker.store_directory == _STORES + broker.identity.pair
    return replace(
        broker,
        settings=_with_stamped_database(broker.settings),
        host=name,
        identity=identity,
        address=_NEVER,
        broker_name=_text(_BROKER_NAME),
        store_directory=_STORES + pair if shared else broker.store_directory,
        peer=broker.peer and _NEVER,
        peer_address=(peer, broker.peer_address[1]) if broker.peer_address else None,
        links=tuple(_stamped_link(link, _LINKS + 2 * number) for number, link in enumerate(broker.links)),
    )


def _with_stamped_database(settings: Settings) -> Settings:
    alike = but_for_database(settings)
    if alike.jdbc is None:
        return alike
    return alike.model_copy(update={"jdbc": alike.jdbc.model_copy(update={"url": _text(_DATABASE)})})


def _stamped_link(link: Link, place: int) -> Link:
    return replace(link, name=_text(place), target=_NEVER, uri=_text(place + 1), addresses=((_NEVER, 1),))


def _plain(place: int) -> str:
    return f"{_WORD}p{place}z"


def _text(place: int) -> str:
    """Comes out as ``_STAMP`` looks for it after one escape for XML, and after no other."""
    return f'{_WORD}t{place}<--%\\"z'


class Mold:
    """The files of a broker with stamps, taken apart. ``kept`` are the objects that the key knows by identity."""

    __slots__ = ("_kept", "_parts", "_tree")

    def __init__(self, kept: object, tree: Mapping[str, bytes]) -> None:
        self._kept = kept
        self._tree = dict(tree)
        parts = ((path, _apart(path, content)) for path, content in tree.items())
        self._parts = [(path, *found) for path, found in parts if found]

    def with_names(self, names: Sequence[str]) -> Tree:
        tree = self._tree.copy()
        for path, text, taken in self._parts:
            tree[path] = (text % taken(names)).encode()
        return tree

    def text_of(self, path: str) -> tuple[str, Callable[[Sequence[str]], Any]] | None:
        """A file as a text to be formatted with ``%``, and what takes the values from the names; None without names."""
        return next(((text, taken) for own, text, taken in self._parts if own == path), None)


def _apart(path: str, content: bytes) -> tuple[str, Callable[[Sequence[str]], Any]] | None:
    """A file as a text with places, and what is to be put there; None where it has none."""
    pieces = _STAMP.split(content.decode())
    literals, plain, texts = pieces[::3], pieces[1::3], pieces[2::3]
    if _WORD in path or any(_WORD in literal for literal in literals):
        raise ShapeError(f"{path}: a name is looked into, changed, or written where none was expected")
    places = [int(one or other) for one, other in zip(plain, texts, strict=True)]
    return ("%s".join(literal.replace("%", "%%") for literal in literals), itemgetter(*places)) if places else None
