# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The names and paths of files that code of hosts writes or reads, and the library, too."""

from __future__ import annotations

import re

ACTIVEMQ_XML = "conf/activemq.xml"
"""Path of activemq.xml below a broker's configuration."""
BROKER_LOG = "activemq.log"
"""Name of the log that a broker writes in its data directory; the names of rolled files begin with it."""
STORE_MARKER = ".activemq-fleet-pair"
"""Name of the marker file in a shared store, which contains the name of the pair that owns the store."""
MKAHADB_STORE_NAME = re.compile(r"(queue|topic)#3a#2f#2f.+|#210|0")
"""The directory name of a store in an mKahaDB: from its destinations, or, for all other destinations, as in
``Release.mkahadb_rest`` (MultiKahaDBPersistenceAdapter.nameFromDestinationFilter)."""
CONFIGURATION_MANIFEST = ".fleet-manifest.json"
"""Name of the file with the checksums of an installed version of a configuration."""
COLLECTED_CONFIGURATION = "configuration/"
"""Directory of a broker's configuration in the evidence of a host."""
COLLECTED_FILE_STATES = ".fleet-found.json"
"""Name of the file in collected evidence that lists how the files of a configuration differ from the manifest."""
OPERATIONS_FILE = "operations.jsonl"
"""Name of a host's record of planned operations."""
PROGRAM_DIRECTORY = "/usr/local/sbin"
"""Directory in which the programs of the guard and the watchdog are installed."""
