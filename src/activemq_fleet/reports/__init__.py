"""Draw the reports of audits and drills, and the status of a fleet, as HTML pages without external resources.

The pages are light, dark or on paper. All text is escaped, since log lines and host names may be hostile.
"""

from __future__ import annotations

from activemq_fleet.reports.audit import audit_report
from activemq_fleet.reports.drill import drill_report
from activemq_fleet.reports.status import status_page, write_status

__all__ = ["audit_report", "drill_report", "status_page", "write_status"]
