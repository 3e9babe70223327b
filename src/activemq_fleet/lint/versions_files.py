"""Rules V about the files next to activemq.xml that a release reads or ignores."""

from __future__ import annotations

import re
from collections.abc import Iterator

from activemq_fleet.lint.document import Document, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.locations import path_relative_to_referring_file

_VALIDATION_DISABLED = re.compile(rb"xbean:[^\s\"'<>]*[?&]validate=false", re.IGNORECASE)
_CONSOLE_FILES = frozenset({"jetty.xml", "jetty-spring.xml"})
# Packages that have other names in Jetty 12, which is part of 6.3.
_OLD_JETTY_PACKAGES = (b"org.eclipse.jetty.webapp.", b"org.eclipse.jetty.util.security.", b"org.mortbay.jetty.")
_LOG4J_1_FILES = frozenset({"log4j.properties", "log4j.xml"})
_LOG4J_2_FILES = frozenset({"log4j2.properties", "log4j2.xml", "log4j2.yaml", "log4j2.yml", "log4j2.json"})


@rule("V011", "warning", releases="5.5.0")
def xml_validation_disabled_in_start_uri(document: Document) -> Iterator[Problem]:
    """An xbean: URI that starts a broker disables the XML validation (validate=false).

    Why: with validate=false, the broker starts although an element or attribute is misspelt. The mistake has an effect
        only when the setting is needed, such as at a failover.
    Fix: remove ?validate=false from the xbean: URI, and correct the errors that the broker then reports.
    Cannot see: the command line itself; the rule checks the start files in the same directory (env, setenv,
        wrapper.conf, a service unit) and the URIs of this file.
    Source: XBeanBrokerFactory of the release tags

    Fires on 5.18.3, as env::

        ACTIVEMQ_CONFIG="xbean:file:/etc/activemq/activemq.xml?validate=false"

    Silent on 5.18.3, as env::

        ACTIVEMQ_CONFIG="xbean:file:/etc/activemq/activemq.xml"
    """
    for name, data in document.other_files.items():
        for match in _VALIDATION_DISABLED.finditer(data):
            line = data.count(b"\n", 0, match.start()) + 1
            begin = data.rfind(b"\n", 0, match.start()) + 1
            text_before = data[begin : match.start()].lstrip()
            if text_before.startswith((b"#", b"<!--")):
                continue
            column = len(data[begin : match.start()].decode("utf-8", "replace")) + 1
            message = f"{name} starts the broker with validate=false: the broker does not validate activemq.xml"
            fix = (
                f"remove ?validate=false from the xbean: URI in {name}, and correct the errors that the broker reports"
            )
            yield Problem(message, file=name, line=line, column=column, fix=fix)
    for node in document.elements_with_tag_name(
        "networkConnector", "masterConnector", "proxyConnector", "connectionFactory", "bean"
    ):
        for attribute, value in node.attributes.items():
            if "validate=false" in value and "xbean:" in value:
                yield node.problem(
                    f"{attribute} of <{node.name}> starts an embedded broker with validate=false: this broker reads "
                    "the file of its xbean: URI without validation",
                    attribute,
                    "validate=false",
                )


@rule("V014", "error", refuses=True)
def imports_console_file_of_another_release(document: Document) -> Iterator[Problem]:
    """The file imports the web console's configuration by the file name of another release.

    Why: 6.3.0 replaced conf/jetty.xml with conf/jetty-spring.xml, for Jetty 12. The start fails if the imported file
        does not exist. It also fails with a jetty.xml that was copied from an older release, because that file names
        removed classes.
    Fix: import jetty-spring.xml on 6.3 and later, and jetty.xml on older releases. Take the file from the conf
        directory of the release.
    Cannot see: whether the imported file exists, if the check gets only activemq.xml and not its directory.
    Source: conf/ of the release tags; measured on 5.5.1, 5.18.3 and 6.3.1

    Fires on 6.3.1::

        <import resource="jetty.xml"/>

    Fires on 5.18.3::

        <import resource="jetty-spring.xml"/>

    Silent on 5.18.3::

        <broker brokerName="north"/>
    """
    console_file = document.release.console_file
    fix = f"import {console_file}, and copy this file from the conf directory of the release"
    for node in document.elements_with_tag_name("import"):
        name = node.get("resource").rpartition("/")[2].rpartition(":")[2]
        if name not in _CONSOLE_FILES or name == console_file:
            continue
        content = document.other_files.get(path_relative_to_referring_file(node.get("resource")))
        if content is None and _is_extra_file(document, name):
            continue
        if content is None:
            message = f"ActiveMQ {document.release.text} has no file {name}: {console_file} configures its web console"
            yield node.problem(message, "resource", name, fix=fix)
        elif console_file == "jetty-spring.xml" and any(package in content for package in _OLD_JETTY_PACKAGES):
            text = (
                f"{name} is from an older release: it names classes that Jetty 12 of ActiveMQ "
                f"{document.release.text} does not have"
            )
            yield node.problem(text, "resource", name, fix=fix)


@rule("V015", "warning")
def log_settings_in_file_not_read(document: Document) -> Iterator[Problem]:
    """The logging settings are in a file that this release does not read.

    Why: up to 5.16 the broker uses Log4j 1 and reads log4j.properties. From 5.17.0 on it uses Log4j 2 and reads
        log4j2.properties. If only the other file exists, the broker writes no log file.
    Fix: take log4j.properties (up to 5.16) or log4j2.properties (from 5.17.0 on) from the conf directory of the
        release, and delete the other file.
    Cannot see: a file elsewhere that a system property such as -Dlog4j2.configurationFile names.
    Source: bin/activemq and the logging back end of the release tags

    Fires on 5.18.3, as log4j.properties::

        log4j.rootLogger=INFO, logfile

    Silent on 5.18.3, as log4j2.properties::

        rootLogger.level = INFO
    """
    log_file = document.release.log_file_name
    read_files, ignored_files = _LOG4J_1_FILES, _LOG4J_2_FILES
    if log_file == "log4j2.properties":
        read_files, ignored_files = ignored_files, read_files
    if not read_files & document.other_files.keys():
        for name in sorted(ignored_files & document.other_files.keys()):
            text = f"ActiveMQ {document.release.text} does not read {name}: it reads {log_file}, which does not exist"
            fix = f"take {log_file} from the conf directory of the release, and delete {name}"
            yield Problem(text, file=name, line=1, fix=fix)


def _is_extra_file(document: Document, name: str) -> bool:
    """Return whether the fleet's ``activemq_extra_files`` contain a file with the given name."""
    broker = document.broker
    return broker is not None and any(extra.path.rpartition("/")[2] == name for extra in broker.settings.extra_files)
