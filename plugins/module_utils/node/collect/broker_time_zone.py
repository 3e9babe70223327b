# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Determines the time zone in which a broker writes its log, as its JVM does."""

from __future__ import annotations

import os
import re
import time

from ..errors import NodeError
from ..process.proc import Process, gid_of_process, read_proc_file, read_system_file, uid_of_process
from ..process.system_accounts import SystemAccount, run_as

_ZONE_TIMEOUT = 10
_JAVA_OFFSET = re.compile(r"GMT(?P<sign>[+-])(?P<hours>[01]?\d|2[0-3])(?::?(?P<minutes>[0-5]\d))?")
_IGNORED_TZ_PREFIX = re.compile(r"\A:?(?:posix/)?")
"""What Java ignores at the start of ``TZ``, but not of ``user.timezone``."""
_ZONE_NAME = re.compile(
    r"[A-Z][A-Za-z]*(?:/[A-Za-z0-9_+-]+)+|CET|CST6CDT|Cuba|EET|EST5EDT|Egypt|Eire|GB|GB-Eire|GMT|GMT0|Greenwich"
    r"|Hongkong|Iceland|Iran|Israel|Jamaica|Japan|Kwajalein|Libya|MET|MST7MDT|NZ|NZ-CHAT|Navajo|PRC|PST8PDT|Poland"
    r"|Portugal|ROK|Singapore|Turkey|UCT|UTC|Universal|W-SU|WET|Zulu"
)
"""The name of a time zone: one with a slash, or one of all those without a slash that Java knows.

Java does not know some names of the C library: ``posix/Europe/Berlin``, ``right/UTC``, ``localtime``, ``ROC``.
"""
_SHORT_ZONE_NAMES = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
"""The time zones of Java's three-letter names (``ZoneId.SHORT_IDS``), most of which only Java knows."""


def broker_timezone(process: Process | None, etc_directory: str = "/etc") -> str:
    """Return the time zone in which a broker writes its log: a name, or an offset such as ``+02:00``.

    It is the time zone of the JVM ``process``, or else that of the host, which ``etc_directory`` configures.
    """
    if process:
        options = [word.partition("=") for word in process.command]
        # Java uses the last of several options, and ignores an empty one.
        java_option = next((value for name, _equals, value in reversed(options) if name == "-Duser.timezone"), "")
        environment = [entry.partition("=") for entry in read_proc_file(process.pid, "environ").split("\0")]
        tz = next((value for name, _equals, value in environment if name == "TZ"), None)
        setting = java_option or _IGNORED_TZ_PREFIX.sub("", tz or "")
        if (java_option or tz) and (zone := _java_time_zone(setting) or _utc_offset_at_start(process, tz)):
            return zone
    name = read_system_file(f"{etc_directory}/timezone").strip()
    target = os.path.realpath(f"{etc_directory}/localtime")
    if "/zoneinfo/" in target:
        return target.partition("/zoneinfo/")[2]
    offset = time.strftime("%z")
    return name or f"{offset[:3]}:{offset[3:]}"


def _java_time_zone(value: str) -> str:
    """Return the time zone that Java reads in ``user.timezone``, or in ``TZ`` after the prefixes that it ignores there.

    It is a name or an offset; "" if Java reads neither. A name with a slash may be unknown to Java, which the audit
    reports: not every host has the files of all time zones.
    """
    offset = _JAVA_OFFSET.fullmatch(value)
    if offset:
        return f"{offset['sign']}{int(offset['hours']):02}:{offset['minutes'] or '00'}"
    return value if _ZONE_NAME.fullmatch(value) else _SHORT_ZONE_NAMES.get(value, "")


def _utc_offset_at_start(process: Process, tz: str | None) -> str:
    """Return the offset of a JVM for a setting that is not the name of a time zone, such as a path; "" if unknown.

    Java then uses the offset that the C library returns for ``tz`` (None: not set) at its start, also after a change of
    daylight saving time, and UTC for an offset of 24 hours or more (measured with Java 17 and 25). Java 6 to 8 instead
    use the offset without daylight saving time: after a start in summer, the result is one hour too high for them. Only
    the account of the process opens the file that ``tz`` may name.
    """
    uid, gid = uid_of_process(process.pid), gid_of_process(process.pid)
    if uid is None or gid is None:
        return ""
    try:
        offset = run_as(
            SystemAccount(uid, gid), _local_offset, tz, process.start_time, patience=_ZONE_TIMEOUT, in_child=True
        )
    except (NodeError, OSError):
        return ""
    return _java_time_zone(f"GMT{offset}") or "+00:00"


def _local_offset(tz: str | None, seconds: float) -> str:
    """Return the offset from UTC, such as ``+0200``, at a time; it changes the time zone of this process."""
    os.environ.pop("TZ", None)
    if tz is not None:
        os.environ["TZ"] = tz
    time.tzset()
    return time.strftime("%z", time.localtime(seconds))
