# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The account with which probes log in at brokers, and the topics that they use."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

PROBE_USER = "activemq-probe"
"""The name of the account with which probes log in."""
PROBE_GROUP = "activemq-probes"
"""The user group of the probe account alone, with rights to the topics of probes."""
PROBE_PASSWORD_KEY = "activemq.probe.password"  # noqa: S105 -- the key of an entry
"""The key of the password in credentials.properties."""
PROBE_TOPICS = "activemq.fleet.probe.*"
"""The topics of probes, as an ActiveMQ wildcard."""


@dataclass(frozen=True)
class Login:
    """A user name and password for a login to a broker.

    Both are empty where the broker requires no login.
    """

    username: str = ""
    password: str = field(default="", repr=False)

    @property
    def is_probe_account(self) -> bool:
        """Whether a login to a broker is that of the account for probes, which send and receive test messages.

        This login may be sent to other hosts without TLS.
        """
        return self.username == PROBE_USER


def random_probe_topic() -> str:
    """Return a random topic name for one probe, a test message that is sent to a broker and received back.

    Other clients cannot predict the name.
    """
    return PROBE_TOPICS.replace("*", os.urandom(16).hex())
