"""Propose the naming convention that reads a list of host names as pairs.

The candidates are derived from the differences between names. The best candidate is the one with which the most names
are nodes of complete pairs.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from activemq_fleet.errors import InputError
from activemq_fleet.naming import (
    DEFAULT_MASTER_NODE,
    DEFAULT_PATTERN,
    PARITY_VARIABLE,
    PATTERN_VARIABLE,
    Identity,
    Naming,
)

_CHARACTER_RUNS = re.compile(r"[A-Za-z]+|[0-9]+|[^A-Za-z0-9]+")
_TRAILING_ROLE = re.compile(r"([A-Za-z]+)(primary|secondary|master|slave|standby|backup)", re.IGNORECASE)
_SOFTWARE = re.compile(r"(?:activemq|amq|mq|broker|jms|esb)$", re.IGNORECASE)
_SOFTWARE_WORD = re.compile(r"mq|broker|jms|esb", re.IGNORECASE)
_MASTER_WORDS = ("primary", "master", "active", "main", "live", "prod", "left")
_NODE_WORDS = re.compile(
    "primary|secondary|master|slave|active|passive|main|standby|backup|spare|live|dr|prod|left|right|blue|green|"
    "first|second|odd|even|hot|cold|one|two|east|west|north|south"
)
"""Words that mark the nodes of a pair. Other words probably name a location or the purpose of a broker."""
_SEPARATORS = "-_"
_MAXIMUM_MARKS = 8
_LABEL_END = r"(?:\.|$)"
# Patterns for single brokers: the first label of each name, or the complete name, such as an IP address, is the pair.
_ANY_NAME_PATTERNS = (f"^(?P<pair>(?P<group>[^.]*[^.0-9][^.]*)){_LABEL_END}", "^(?P<pair>(?P<group>.+))$")
_MAXIMUM_FILES = 4


@dataclass(frozen=True)
class NamingConventionProposal:
    """A proposed naming convention for hosts of brokers: a pattern that parses their names into pairs.

    It has the identities of the hosts that form complete pairs by this convention. ``rival`` is a different convention
    that matches equally many names but forms other pairs; None without one.
    """

    naming: Naming
    identities: tuple[Identity, ...]
    rival: Naming | None = None

    @property
    def pairs(self) -> frozenset[frozenset[str]]:
        """The pairs that the proposed naming convention forms, each a set of host names."""
        members: dict[str, set[str]] = defaultdict(set)
        for identity in self.identities:
            members[identity.pair].add(identity.name)
        return frozenset(map(frozenset, members.values()))

    def variables(self) -> dict[str, str]:
        """Return the inventory variables that set the proposed naming convention.

        Those that keep their default are left out.
        """
        naming = self.naming
        variables = {PATTERN_VARIABLE: naming.pattern} if naming.pattern != DEFAULT_PATTERN else {}
        if naming.parity:
            variables[PARITY_VARIABLE] = naming.parity
        elif "node" in naming.stated:
            variables["activemq_node"] = naming.stated["node"]
        elif naming.preferred_node_mark != DEFAULT_MASTER_NODE:
            variables["activemq_master_node"] = naming.preferred_node_mark
        return variables

    def adopt_command_line(self) -> str:
        """Return the command line of ``activemq-fleet adopt`` for the hosts, with the proposed naming convention.

        It has FILE for each path.
        """
        hosts = [identity.name for identity in self.identities]
        files = (
            {host: f"FILE{number}" for number, host in enumerate(hosts, 1)} if len(hosts) > 1 else {hosts[0]: "FILE"}
        )
        return adopt_command_line(files if len(files) <= _MAXIMUM_FILES else {}, self.naming)


def adopt_command_line(files: Mapping[str, str], naming: Naming, options: Sequence[str] = ()) -> str:
    """Return the command line of ``activemq-fleet adopt`` for files and a naming convention.

    ``files`` maps hosts to the paths of their activemq.xml; if it is empty, the command adopts a directory and contains
    the placeholder DIRECTORY. ``options`` are its options other than those of the naming convention; without them the
    command contains ``--release RELEASE``, also a placeholder.
    """
    words = ["activemq-fleet", "adopt", *(f"{host}={path}" for host, path in files.items())]
    words += [] if files else ["DIRECTORY"]
    if naming.pattern != DEFAULT_PATTERN:
        words += ["--naming-pattern", naming.pattern]
    if naming.parity:
        words += ["--naming-parity", naming.parity]
    elif "node" in naming.stated:
        words += ["--node", naming.stated["node"]]
    return shlex.join([*words, *(options or ("--release", "RELEASE", "-o", "inventory"))])


@dataclass(frozen=True)
class _Label:
    """The first label of a host name as runs of letters, digits and other characters; ``mark``: which run marks nodes.

    Of that run the first ``fixed`` characters do not belong to the mark.
    """

    runs: tuple[str, ...]
    mark: int | None = None
    fixed: int = 0

    @property
    def index_of_pair_number_in_runs(self) -> int | None:
        """The index in ``runs``, the pieces of a host name, of the piece that is the pair's number; None without one.

        ``runs`` splits a label of a host name into digits, letters and other characters.
        The number is the last run of digits that does not distinguish the two nodes of a pair.
        """
        return next(
            (index for index in reversed(range(len(self.runs))) if self.runs[index].isdigit() and index != self.mark),
            None,
        )


def propose_naming(names: Iterable[str]) -> NamingConventionProposal | None:
    """Propose a naming convention for brokers, from their host names.

    Return the convention by which the most names form complete pairs, or None if no convention forms a pair.
    """
    unique_names = list(dict.fromkeys(names))
    best: NamingConventionProposal | None = None
    for naming in _candidate_conventions(unique_names):
        proposal = NamingConventionProposal(naming, _identities_in_pairs(naming, unique_names))
        if _count_parsed_names(proposal) > (_count_parsed_names(best) if best else (0, 0)):
            best = proposal
        elif best and best.rival is None and _count_parsed_names(proposal) == _count_parsed_names(best):
            best = best if proposal.pairs == best.pairs else replace(best, rival=naming)
    return best


def _count_parsed_names(proposal: NamingConventionProposal) -> tuple[int, int]:
    """Return how many names a proposal parses: the number of names with a word such as ``mq``, and the total number.

    Hosts whose names lack such a word may not be brokers.
    """
    parsed_hosts = [identity.short_host_name for identity in proposal.identities]
    return sum(1 for host in parsed_hosts if _SOFTWARE_WORD.search(host)), len(parsed_hosts)


def propose_single_broker_naming(
    names: Sequence[str], pair_proposal: NamingConventionProposal | None, *, are_brokers: bool = False
) -> NamingConventionProposal | None:
    """Propose a naming convention for brokers without a peer, from their host names.

    Return the convention that matches the most names. Each of them is node a of its pair. Returns None if
    ``pair_proposal``, the proposal of pairs, matches as many names and does not depend on odd and even numbers.
    ``are_brokers``: all names are names of brokers, so a convention that matches any name is allowed.
    """
    numbered = [label for name in names if (label := _split_label(name)).index_of_pair_number_in_runs is not None]
    inner_patterns = [
        pattern.removeprefix("^").removesuffix(_LABEL_END) for pattern in _most_suggested_patterns(numbered, ())
    ]
    patterns = [f"^(?P<pair>{inner}){_LABEL_END}" for inner in inner_patterns]
    best: NamingConventionProposal | None = None
    for pattern in (*patterns, *(_ANY_NAME_PATTERNS if are_brokers else ())):
        naming = Naming(pattern, stated={"node": DEFAULT_MASTER_NODE})
        identities = [
            identity for name in names if naming.matches_pattern(name) and (identity := naming.identify_broker(name))
        ]
        pair_names = {identity.pair for identity in identities}
        if len(pair_names) == len(identities) > (len(best.identities) if best else int(not are_brokers)):
            best = NamingConventionProposal(naming, tuple(identities))
    is_pair_proposal_sufficient = (
        pair_proposal
        and not pair_proposal.naming.parity
        and len(pair_proposal.identities) >= len(best.identities if best else ())
    )
    return None if is_pair_proposal_sufficient else best


def _split_label(name: str) -> _Label:
    """Return the runs of a name's first label; a role at the end of letters is a separate run, as in ``amqmaster``."""
    runs = _CHARACTER_RUNS.findall(name.partition(".")[0])
    split_runs = ((match[1], match[2]) if (match := _TRAILING_ROLE.fullmatch(run)) else (run,) for run in runs)
    return _Label(tuple(part for parts in split_runs for part in parts))


def _identities_in_pairs(naming: Naming, names: Sequence[str]) -> tuple[Identity, ...]:
    pairs: dict[str, list[Identity]] = defaultdict(list)
    for name in names:
        try:
            identity = naming.identify_broker(name)
        except InputError:
            continue
        if identity:
            pairs[identity.pair].append(identity)
    complete_pairs = [pair for pair in pairs.values() if sorted(member.role for member in pair) == ["master", "slave"]]
    order = {name: position for position, name in enumerate(names)}
    return tuple(sorted((member for pair in complete_pairs for member in pair), key=lambda member: order[member.name]))


def _candidate_conventions(names: Sequence[str]) -> Iterator[Naming]:
    """Yield conventions in order of preference; the order decides where several match the same number of names."""
    yield Naming()
    labels = [_split_label(name) for name in names]
    positioned_marks = _node_marks(labels)
    usual_marks = [(position, marks) for position, marks in positioned_marks if _are_usual_marks(position, marks)]
    yield from _conventions_with_node_marks(labels, usual_marks)
    numbered = (
        []
        if _has_name_extending_another(names)
        else [label for label in labels if label.index_of_pair_number_in_runs is not None]
    )
    for pattern in _most_suggested_patterns(numbered, ()):
        yield Naming(pattern, parity="odd-even")
        yield Naming(pattern, parity="even-odd")
    yield from _conventions_with_node_marks(labels, [mark for mark in positioned_marks if mark not in usual_marks])


def _has_name_extending_another(names: Iterable[str]) -> bool:
    """Return whether a name is another name with a suffix, such as ``mq01-dr``. Numbers then do not mark nodes."""
    labels = {name.partition(".")[0] for name in names}
    return any(
        label[:index] in labels for label in labels for index, character in enumerate(label) if character in _SEPARATORS
    )


def _conventions_with_node_marks(
    labels: Sequence[_Label], positioned_marks: Iterable[tuple[int, tuple[str, str]]]
) -> Iterator[Naming]:
    for position, marks in positioned_marks:
        marked = [marked_label for label in labels if (marked_label := _mark_label(label, position, marks))]
        for pattern in _most_suggested_patterns(marked, marks):
            yield Naming(pattern, marks[0])


def _are_usual_marks(position: int, marks: tuple[str, str]) -> bool:
    """Return whether two marks probably mark nodes and not places: letters, known words, or digits at the end."""
    if marks[0].isdigit():
        return position == -1
    return all(len(mark) == 1 or _NODE_WORDS.fullmatch(mark.lower()) for mark in marks)


def _node_marks(labels: Iterable[_Label]) -> list[tuple[int, tuple[str, str]]]:
    """Return the two marks in which pairs of names differ, master first, with the run's position from the end.

    The most frequent marks come first, and of equally frequent marks those nearest to the end. The last number of a
    name is no mark, because odd and even numbers already distinguish the nodes.
    """
    runs_by_context: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for label in labels:
        for index, run in enumerate(label.runs):
            if run.isalnum() and (run.isalpha() or _can_be_node_mark(label, index)):
                runs_by_context[*label.runs[:index], "", *label.runs[index + 1 :], str(index - len(label.runs))].append(
                    run
                )
    counted: Counter[tuple[int, tuple[str, str]]] = Counter()
    for key, runs in runs_by_context.items():
        if len(runs) == 2 and runs[0] != runs[1]:
            counted[int(key[-1]), _master_mark_first(*runs)] += 1
    ordered = sorted(
        counted, key=lambda candidate: (-counted[candidate], candidate[1][0].isdigit(), -candidate[0], candidate)
    )
    return ordered[:_MAXIMUM_MARKS]


def _can_be_node_mark(label: _Label, index: int) -> bool:
    """Return whether a run of digits can mark the node.

    It can if it is not the number of the pair, or if another number and a separator precede it.
    """
    if index != label.index_of_pair_number_in_runs:
        return True
    has_earlier_number = any(run.isdigit() for run in label.runs[:index])
    return has_earlier_number and index > 0 and label.runs[index - 1][-1] in _SEPARATORS


def _master_mark_first(run: str, other_run: str) -> tuple[str, str]:
    if len(run) == len(other_run) and run[:-1] == other_run[:-1] and not run.isdigit():
        run, other_run = run[-1], other_run[-1]
    rank = {word: position for position, word in enumerate(_MASTER_WORDS)}
    first, second = sorted((run, other_run), key=lambda mark: (rank.get(mark.lower(), len(rank)), mark))
    return first, second


def _mark_label(label: _Label, index_from_end: int, marks: tuple[str, str]) -> _Label | None:
    """Return a label with a node mark: the run at ``index_from_end``, or its end. Return None for another label."""
    if -index_from_end > len(label.runs):
        return None
    index, run = len(label.runs) + index_from_end, label.runs[index_from_end]
    if run in marks:
        return _Label(label.runs, index)
    if len(marks[0]) == len(marks[1]) == 1 and run.isalpha() and run[-1] in marks:
        return _Label(label.runs, index, len(run) - 1)
    return None


def _most_suggested_patterns(labels: Sequence[_Label], marks: tuple[str, ...]) -> Iterator[str]:
    """Yield patterns that match the labels, in order of how many labels suggest each."""
    pattern_counts = Counter(pattern for label in labels if (pattern := _suggested_pattern(label, marks)))
    for pattern, _ in pattern_counts.most_common(2):
        yield pattern


def _suggested_pattern(label: _Label, marks: tuple[str, ...]) -> str | None:
    """Return the pattern that one label suggests; it contains the text around the number and the mark unchanged."""
    number, runs = label.index_of_pair_number_in_runs, label.runs
    if label.mark == 0 and not label.fixed:
        return _pattern_after_node(label, marks)
    indices = sorted(index for index in (label.mark, number) if index is not None)
    beginning = "".join(runs[: indices[0]]) + (runs[indices[0]][: label.fixed] if indices[0] == label.mark else "")
    group, before = _split_group(beginning)
    if not group:
        return None
    node = f"(?P<node>{'|'.join(marks)})"
    digits = "(?P<number>[0-9]+)"
    between = "".join(runs[indices[0] + 1 : indices[-1]]) if len(indices) > 1 else ""
    if len(indices) > 1 and indices[-1] == label.mark:
        between += runs[indices[-1]][: label.fixed]
    rest = "".join(runs[indices[-1] + 1 :])
    parts = [node if index == label.mark else digits for index in indices]
    start = f"(?P<group>[^.]+?){_escaped_literal(before)}"
    middle = _escaped_literal(between)
    if marks and indices[-1] == label.mark and not rest and not (between or before).endswith("-"):
        # The name of the pair must not depend on the default form GROUP-mqNUMBER.
        inside = start + (parts[0] + middle if len(parts) > 1 else "")
        pair = inside.rstrip("_")
        return rf"^(?P<pair>{pair}){inside[len(pair) :]}{parts[-1]}{_LABEL_END}"
    return f"^{start}{middle.join(parts)}{_escaped_literal(rest)}{_LABEL_END}"


def _pattern_after_node(label: _Label, marks: tuple[str, ...]) -> str | None:
    """Return the pattern of names that begin with their node: ``master-orders``."""
    runs = label.runs
    between = runs[1] if len(runs) > 2 and not runs[1].isalnum() else ""
    first = 1 + bool(between)
    if len(runs) <= first:
        return None
    start = f"^(?P<node>{'|'.join(marks)}){_escaped_literal(between)}(?P<pair>(?P<group>[^.]+?)"
    number = label.index_of_pair_number_in_runs
    if number is None or number <= first:
        return f"{start}){_LABEL_END}"
    before = _escaped_literal("" if runs[number - 1].isalnum() else runs[number - 1])
    after = _escaped_literal("".join(runs[number + 1 :]))
    return f"{start}{before}(?P<number>[0-9]+){after}){_LABEL_END}"


def _split_group(head: str) -> tuple[str, str]:
    """Split the text before number and mark into the group and the rest, such as separators and ``mq``."""
    text = head.rstrip(_SEPARATORS)
    group = _SOFTWARE.sub("", text).rstrip(_SEPARATORS)
    return (group, head[len(group) :]) if group else (text, head[len(text) :])


def _escaped_literal(text: str) -> str:
    """Return a pattern that matches the text literally; hyphens are not escaped."""
    return re.escape(text).replace(r"\-", "-")
