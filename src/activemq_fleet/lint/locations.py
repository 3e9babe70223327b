"""Resolve the locations that an activemq.xml names to files below its directory."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from itertools import islice

from activemq_fleet.releases import uri_schemes_of_all_releases

# Directories in jars whose files name the classes of URI schemes. Each file has the name of its scheme.
TRANSPORT_SERVICES = "META-INF/services/org/apache/activemq/transport"
DISCOVERY_SERVICES = f"{TRANSPORT_SERVICES}/discoveryagent"
_URI_SCHEME = re.compile(r"""[uU]ri\s*=\s*["']\s*([A-Za-z][A-Za-z0-9+.-]{0,60}):""")
_CONF_PREFIX = re.compile(r"(file:(//)?)?\$\{activemq\.(conf\}|(base|home)\}/conf)/|classpath\*?:/?")
_OUTSIDE_LOCATION = re.compile(r"[A-Za-z][\w+.-]*:|/|.*[$#]\{")
_POSSIBLE_PATH = re.compile(r"[\w./-]+")
_FILE_EXTENSIONS = (".properties", ".xml", ".xsd")
_MAX_PATH_LENGTH, _MAX_PATHS = 200, 200


def is_below_directory_of_referring_file(resource_location: str) -> bool:
    """Return whether a Spring resource location is below the directory of the file that names it.

    A resource is for example an imported file. Such locations are relative, on the class path, or in
    ``${activemq.conf}``.
    """
    path = _without_conf_prefix(resource_location)
    return not _OUTSIDE_LOCATION.match(path) and not posixpath.normpath(path).startswith("..")


def path_relative_to_referring_file(resource_location: str) -> str:
    """Return the path of a Spring resource location, relative to the directory of the file that names the location.

    For a location outside of this directory, the result is only the file name. The directory is on the broker's class
    path.
    """
    path = _without_conf_prefix(resource_location)
    if is_below_directory_of_referring_file(resource_location):
        return posixpath.normpath(path)
    return path.rpartition("/")[2].rpartition(":")[2]


def _without_conf_prefix(location: str) -> str:
    text = location.strip()
    match = _CONF_PREFIX.match(text)
    return text[match.end() :] if match else text


def referenced_file_names(text: str) -> Iterator[str]:
    """Yield the names of files to which the text of an activemq.xml may refer, as relative paths.

    They are properties files, schemas and other XML files.
    """
    paths = dict.fromkeys(
        location
        for location in _POSSIBLE_PATH.findall(text)
        if location.endswith(_FILE_EXTENSIONS) and len(location) <= _MAX_PATH_LENGTH
    )
    for location in islice(paths, _MAX_PATHS):
        path = posixpath.normpath(location.lstrip("/"))
        if not path.startswith(".."):
            yield path
        if location.startswith("/"):  # the path follows a ${…}, or is on another machine
            yield path.rpartition("/")[2]


def scheme_service_file_path(scheme: str, directory: str) -> str:
    """Return the path of the service file (below META-INF in a jar) that registers a URI scheme."""
    return f"{directory}/{scheme}"


def jar_service_file_paths_of_unknown_schemes(activemq_xml: str) -> set[str]:
    """Return the paths of the service files (in a jar) that would register the unknown URI schemes of an activemq.xml.

    No release has these schemes.
    """
    schemes = set(_URI_SCHEME.findall(activemq_xml)) - uri_schemes_of_all_releases()
    return {
        scheme_service_file_path(scheme, kind)
        for scheme in schemes
        for kind in (TRANSPORT_SERVICES, DISCOVERY_SERVICES)
    }
