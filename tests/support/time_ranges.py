"""Time ranges that contain all events of a test."""

from __future__ import annotations

from datetime import UTC, datetime

from activemq_fleet.audit.report_figures import ReportPeriod

ANY_TIME = ReportPeriod(datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
