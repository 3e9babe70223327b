"""Resolve the locations that an activemq.xml names to files below its directory."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from itertools import islice

from activemq_fleet.releases import every_uri_scheme

# Directories of jars whose files name the classes of a scheme, each file called as its scheme.
TRANSPORT_SERVICES = "META-INF/services/org/apache/activemq/transport"
DISCOVERY_SERVICES = f"{TRANSPORT_SERVICES}/discoveryagent"
_SCHEME = re.compile(r"""[uU]ri\s*=\s*["']\s*([A-Za-z][A-Za-z0-9+.-]{0,60}):""")
_CONF = re.compile(r"(file:(//)?)?\$\{activemq\.(conf\}|(base|home)\}/conf)/|classpath\*?:/?")
_ELSEWHERE = re.compile(r"[A-Za-z][\w+.-]*:|/|.*[$#]\{")
_WORD = re.compile(r"[\w./-]+")
_ENDS = (".properties", ".xml", ".xsd")
_LONGEST, _MOST = 200, 200


def is_below_directory_of_referring_file(resource_location: str) -> bool:
    """Return whether a Spring resource location is below the directory of the file that names it.

    A resource is for example an imported file. Such locations are relative, on the class path, or in
    ``${activemq.conf}``.
    """
    rest = _without_conf(resource_location)
    return not _ELSEWHERE.match(rest) and not posixpath.normpath(rest).startswith("..")


def path_relative_to_referring_file(resource_location: str) -> str:
    """Return the path of a Spring resource location, relative to the directory of the file that names the location.

    For a location outside of this directory, the result is only the file name. The directory is on the broker's class
    path.
    """
    rest = _without_conf(resource_location)
    if is_below_directory_of_referring_file(resource_location):
        return posixpath.normpath(rest)
    return rest.rpartition("/")[2].rpartition(":")[2]


def _without_conf(location: str) -> str:
    text = location.strip()
    match = _CONF.match(text)
    return text[match.end() :] if match else text


def referenced_file_names(text: str) -> Iterator[str]:
    """Yield the names of files to which the text of an activemq.xml may refer, as relative paths.

    They are properties files, schemas and other XML files.
    """
    words = dict.fromkeys(word for word in _WORD.findall(text) if word.endswith(_ENDS) and len(word) <= _LONGEST)
    for word in islice(words, _MOST):
        path = posixpath.normpath(word.lstrip("/"))
        if not path.startswith(".."):
            yield path
        if word.startswith("/"):  # behind a ${…}, or of another machine
            yield path.rpartition("/")[2]


def scheme_service_file_path(scheme: str, directory: str) -> str:
    """Return the path of the service file (below META-INF in a jar) that registers a URI scheme."""
    return f"{directory}/{scheme}"


def service_files_of_unknown_schemes(activemq_xml: str) -> set[str]:
    """Return the service files in jars that would register the unknown URI schemes of an activemq.xml.

    No release has these schemes.
    """
    schemes = set(_SCHEME.findall(activemq_xml)) - every_uri_scheme()
    return {
        scheme_service_file_path(scheme, kind)
        for scheme in schemes
        for kind in (TRANSPORT_SERVICES, DISCOVERY_SERVICES)
    }
