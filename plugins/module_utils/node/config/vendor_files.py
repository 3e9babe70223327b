# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the vendor's configuration files, without those that give every client access to a broker.

Every release ships accounts that attackers try first (admin/admin, system/manager, the password
``activemq`` of the JMX connector), key stores whose private key is public, and example
configurations that use them (read in the distributions 5.14.5 to 5.18.3).
"""

from __future__ import annotations

import os
import re
import stat
from fnmatch import fnmatch

from ..files.untrusted_paths import open_directory, open_file_owned_by_directory_owner_or_root
from .configuration_archive import ConfigurationFile

_EXCLUDED_PATTERNS = (
    # example configurations
    "activemq*.xml",
    "broker*.xml",
    "camel*.xml",
    # accounts
    "*realm*.properties",
    "credentials*.properties",
    "groups*.properties",
    "users*.properties",
    "*.access",
    "*.password",
    # keys
    "*.cert",
    "*.crt",
    "*.jks",
    "*.key",
    "*.ks",
    "*.p12",
    "*.pem",
    "*.pfx",
    "*.ts",
)
# A future release may have accounts in a new file: this matches a line that defines an account.
_SETS_PASSWORD = re.compile(rb"^[^#!\r\n]*passw(?:or)?d[\w.]*[ \t]*[=:][ \t]*[^\s$]", re.IGNORECASE | re.MULTILINE)


def shipped_configuration_files(home: str) -> dict[str, ConfigurationFile]:
    """Return a dictionary by path of the configuration files that an ActiveMQ release ships in its home directory.

    These are the files below ``home/conf``; empty without that directory. Only a link at ``conf`` itself is followed,
    because Debian's package links it to /etc. A file with unprintable characters in its path is left out, because no
    release ships one. Raises UntrustedPathError if an account other than root could have created a link or a file
    there.
    """
    shipped_files: dict[str, ConfigurationFile] = {}
    try:
        top = open_directory(os.path.join(home, "conf"))
    except FileNotFoundError:
        return shipped_files
    with top:
        for directory, name in top.walk_files_and_links():
            path = "conf/" + os.path.relpath(os.path.join(directory.path, name), top.path)
            is_file = stat.S_ISREG(directory.entry_status(name).st_mode) and path.isprintable()
            if not is_file or any(fnmatch(name.lower(), pattern) for pattern in _EXCLUDED_PATTERNS):
                continue
            with os.fdopen(open_file_owned_by_directory_owner_or_root(directory, name), "rb") as file:
                content = file.read()
            if not (name.endswith(".properties") and _SETS_PASSWORD.search(content)):
                shipped_files[path] = ConfigurationFile(content, 0o644, shipped=True)
    return shipped_files
