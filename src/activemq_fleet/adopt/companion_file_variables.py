"""Propose heap, directories, user, console and Java options from the files next to an activemq.xml."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from activemq_fleet.adopt.compared_element import is_console_import
from activemq_fleet.adopt.proposal import ProposedVariablesByHost
from activemq_fleet.adopt.sources import AdoptedDocument
from activemq_fleet.node.masking import is_secret_name
from activemq_fleet.node.process.service_names import watchdog_service_name
from activemq_fleet.node.text_lines import split_lines
from activemq_fleet.render.java_command import java_options
from activemq_fleet.topology import Fleet

_RENDERED_MARK = "written by activemq.fleet"
_OPTIONS_VARIABLE = re.compile(r"\bACTIVEMQ_OPTS(?:_MEMORY)?\+?=")
_HEAP_OPTION = re.compile(r"-Xmx([1-9][0-9]*[kKmMgG])")
# Options that bin/env of the releases sets, or for which a separate variable exists.
_KNOWN_OPTIONS = re.compile(
    r"-Xmx.*|-Djava\.util\.logging\.config\.file=.*|-Djava\.security\.auth\.login\.config=.*"
    r"|-Dorg\.apache\.activemq\.UseDedicatedTaskRunner=.*|-Dhawtio\..*"
)
_DEFAULT_MINIMUM_HEAP = re.compile(r"-Xms64[mM]")
# Options of the Java VM, such as -XX:TieredStopAtLevel=1, and properties of Java itself, whose values are not secret.
_OPTION_WITHOUT_SECRET = re.compile(
    r"-X(?!run)[\w.:+/-]*(?:=[\w.,:+/%-]*)?"
    r"|-D((?:java|jdk|sun|com\.sun\.management|org\.apache\.activemq)\.[\w.]+)=[\w.,:+/-]*"
    r"|--add-(?:opens|exports|modules|reads)=[\w.,/=-]*"
)
_ASSIGNMENT = re.compile(r"^([A-Z_]+)=(.*)$", re.MULTILINE)
_USER = re.compile(r"^User=(\S+)$", re.MULTILINE)
_BROKER_START = re.compile(r"^ExecStart=.*activemq", re.MULTILINE)
_CONSOLE_PATTERNS = {
    "console_port": re.compile(
        r'name="port"\s+value="(\d+)"|<\w*[cC]onnector[^<>]*\sport="(\d+)"|^jetty\.http\.port=(\d+)$', re.MULTILINE
    ),
    "console_bind": re.compile(r'name="host"\s+value="([^"]+)"|^jetty\.http\.host=(\S+)$', re.MULTILINE),
}


def propose_heap_and_user(proposal: ProposedVariablesByHost) -> None:
    """Propose variables for the Java heap and the operating system user of every host's broker.

    The directory settings are proposed where activemq.fleet wrote the environment file.
    """
    for document in proposal.documents:
        environment = _environment_text(document)
        proposal.propose_value_if_valid(document.host, "heap", _heap_in_environment(environment))
        if document.preferred is None:
            proposal.propose_value_if_valid(
                document.host, "install", "none"
            )  # activemq.fleet did not write the file, so another tool installed the release
        if _RENDERED_MARK in environment:
            assignments = dict(_ASSIGNMENT.findall(environment))
            base = Path(assignments.get("ACTIVEMQ_BASE", "").strip('"'))
            home = assignments.get("ACTIVEMQ_HOME", "").strip('"')
            proposal.propose_value_if_valid(document.host, "instance", base.name)
            proposal.propose_value_if_valid(document.host, "base", str(base.parent))
            if home.endswith(f"-{document.release.text}"):
                proposal.propose_value_if_valid(document.host, "home", home.removesuffix(f"-{document.release.text}"))
            proposal.propose_value_if_valid(
                document.host, "java_home", assignments.get("JAVA_HOME", "").strip('"') or None
            )
        user = _USER.search(_first_companion_text(document, ("systemd/",)))
        if user:
            proposal.propose_value_if_valid(document.host, "user", user[1])


def services_of_adopted_brokers(documents: Iterable[AdoptedDocument]) -> tuple[str, ...]:
    """Return the sorted names of the services that start the existing brokers, such as ``amq-broker``.

    They are those of the unit files that were read. The result is empty if none was read.
    """
    names = {
        Path(path).stem
        for document in documents
        for path, text in document.other_files.items()
        if path.startswith("systemd/") and _BROKER_START.search(text)
    }
    return tuple(sorted(names - {watchdog_service_name(name) for name in names}))


def propose_console(proposal: ProposedVariablesByHost) -> None:
    """Propose port and address of the web console, from the Jetty configuration files of existing brokers.

    The port offset is subtracted from the port. The file that activemq.xml imports decides, whatever its name is. A
    note names what the inventory does not have.
    """
    hosts_by_file: dict[str, list[str]] = defaultdict(list)
    for document in proposal.documents:
        name, jetty = _console_file(document)
        has_console = proposal[document.host].get("console") is not False
        if name and has_console and _RENDERED_MARK not in jetty:
            hosts_by_file[name].append(document.host)
        for variable, pattern in _CONSOLE_PATTERNS.items():
            match = pattern.search(jetty)
            if match:
                text = next(filter(None, match.groups()))
                offset = proposal[document.host].get("port_offset", 0)
                proposal.propose_value_if_valid(
                    document.host, variable, int(text) - offset if variable == "console_port" else text
                )
    for name, hosts in hosts_by_file.items():
        proposal.add_note(
            hosts,
            f"adopt took only the port and the address of the web console from {name}, and none of its other settings. "
            "The rendered console has no TLS. Only users of activemq_users in the group admins can log in: with "
            "activemq_authentication: none, no user can log in. Add each user who needs the console to activemq_users, "
            "with the group admins. If clients used TLS, put a proxy with TLS in front of the console",
        )


def _console_file(document: AdoptedDocument) -> tuple[str, str]:
    """Return path and text of the file that sets the web console's address; ("", "") if it was not read."""
    imported_names = {
        node.get("resource").rpartition("/")[2] for node in document.root.children if is_console_import(node)
    }
    names = [name for name in document.other_files if name.rpartition("/")[2].startswith("jetty")]
    console_files = {"jetty-spring.properties"} if document.release.console_family == "jetty12" else imported_names
    names.sort(key=lambda name: name.rpartition("/")[2] not in console_files)
    return (names[0], document.other_files[names[0]]) if names else ("", "")


def propose_java_options(proposal: ProposedVariablesByHost, fleet: Fleet) -> None:
    """Propose ``activemq_java_options`` for each host whose environment file sets additional Java options.

    These are options in a file by activemq.fleet that not every broker has.
    """
    for document in proposal.documents:
        environment = _environment_text(document)
        options = dict(_ASSIGNMENT.findall(environment)).get("ACTIVEMQ_OPTS", "")
        if _RENDERED_MARK not in environment or not options:
            continue
        words = " ".join(shlex.split(options)).split()
        default_options = list(java_options(fleet.broker(document.host)))
        if words[: len(default_options)] == default_options and len(words) > len(default_options):
            proposal.propose_value_if_valid(document.host, "java_options", words[len(default_options) :])


def note_omitted_java_options(proposal: ProposedVariablesByHost) -> None:
    """Add notes for the operator to ``proposal`` about Java options of environment files that ``adopt`` does not copy.

    Values that can be secrets, such as passwords, are not shown.
    """
    omitted: dict[str, list[str]] = defaultdict(list)
    for document in proposal.documents:
        environment = _environment_text(document)
        if _RENDERED_MARK not in environment and (names := _unknown_java_options(environment)):
            omitted[" ".join(names)].append(document.host)
    for options, hosts in omitted.items():
        proposal.add_note(
            hosts,
            f"adopt did not copy these Java options from the environment file: {options}. Add those that the broker "
            "needs to activemq_java_options",
            is_urgent=True,
        )


def _unknown_java_options(environment: str) -> list[str]:
    """Return the Java options that an environment file sets, without values that can be secrets.

    The result is empty for an environment file with only the options that bin/env of the releases sets.
    """
    names: dict[str, None] = {}
    for line in split_lines(environment.replace("\\\n", " ")):
        assignment = _OPTIONS_VARIABLE.search(line.partition("#")[0])
        try:
            # The assigned text is one shell word. Quotation marks inside it enclose values with blanks.
            texts = shlex.split(line[assignment.end() :], comments=True) if assignment else []
            words = [word for text in texts for word in shlex.split(text)]
        except ValueError:
            continue  # The quotation marks are not closed, so a word could be a part of a password.
        for word in words:
            if word.startswith("-") and not _KNOWN_OPTIONS.fullmatch(word):
                names[_option_without_secret(word)] = None
    if all(_DEFAULT_MINIMUM_HEAP.fullmatch(name) for name in names):
        return []
    return list(names)


def _option_without_secret(option: str) -> str:
    """Return a Java option as text, without its value if the value can be a secret."""
    match = _OPTION_WITHOUT_SECRET.fullmatch(option)
    if match and not is_secret_name(match[1] or ""):
        return option
    # -javaagent:FILE:ARGUMENTS has no equals sign.
    return ":".join(option.partition("=")[0].split(":")[:2])


def is_heap_known_for_all_hosts(proposal: ProposedVariablesByHost) -> bool:
    """Return whether the Java heap size of every adopted broker is known from its environment file."""
    return all(_heap_in_environment(_environment_text(document)) for document in proposal.documents)


def _heap_in_environment(environment: str) -> str | None:
    """Return the Java heap that an environment file sets in ``ACTIVEMQ_OPTS``; None without one.

    Comments do not count.
    """
    for line in split_lines(environment):
        assignment = _OPTIONS_VARIABLE.search(line.partition("#")[0])
        heaps = _HEAP_OPTION.findall(line, assignment.end()) if assignment else ()
        if heaps:
            return str(heaps[-1])
    return None


def _environment_text(document: AdoptedDocument) -> str:
    return _first_companion_text(document, ("bin/", "etc/"))


def _first_companion_text(document: AdoptedDocument, beginnings: tuple[str, ...]) -> str:
    return next((text for path, text in document.other_files.items() if path.startswith(beginnings)), "")
