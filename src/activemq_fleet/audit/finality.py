"""Determine which result rows are final: logs and journals that still grow are not expected to change them.

Times are those of the evidence, never of this machine: the same files give the same answers whenever they are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

FINAL_AFTER = timedelta(minutes=15)
"""Time for which the logs of all hosts of an incident must continue before it is final: clocks may differ by 5 minutes,
and three takeovers within 10 minutes are another incident."""
FINAL_AFTER_FOR_FLEET = timedelta(days=1)
"""Time after which an incident is final if any log of the fleet continues, even if the logs of its hosts end."""
JOURNAL_RETENTION = timedelta(days=7)
"""Time for which agents keep journals and ids of handled events: an event is final when its last record is older."""


@dataclass(frozen=True, slots=True)
class EvidenceEnds:
    """The times at which the evidence of an audit, its logs and event journals, ends.

    There is a time for each host's log and one for all journals; None without a log or a journal.
    """

    of_logs: Mapping[str, datetime | None]
    of_journals: datetime | None

    def is_incident_final(self, ended: datetime | None, hosts: Sequence[str]) -> bool:
        """Return whether an incident is final: later logs can no longer change it.

        The incident or bridge ended at ``ended``. It is final if the logs of ``hosts`` continue long enough after that.
        """
        if ended is None:
            return False
        log_ends = [self.of_logs.get(host) for host in hosts]
        newest = max((at for at in self.of_logs.values() if at is not None), default=ended)
        all_logs_go_on = bool(log_ends) and all(at is not None and at >= ended + FINAL_AFTER for at in log_ends)
        return all_logs_go_on or newest >= ended + FINAL_AFTER_FOR_FLEET

    def is_event_final(self, last_record: datetime | None) -> bool:
        """Return whether the outcome of an event is final: later journal records can no longer change it.

        It is final if the journals continue for a week after the event's last record at ``last_record``.
        """
        return (
            last_record is not None
            and self.of_journals is not None
            and self.of_journals >= last_record + JOURNAL_RETENTION
        )
