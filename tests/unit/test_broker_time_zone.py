"""The time zone in which a broker writes its log, as its JVM determines it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from activemq_fleet.node.collect.broker_time_zone import broker_timezone
from activemq_fleet.node.process.proc import Process, read_proc_file
from tests.waiting import wait_until


@pytest.mark.parametrize(
    ("command", "files", "expected"),
    [
        (("java", "-Duser.timezone=Asia/Tokyo"), {"timezone": "Europe/Rome\n"}, "Asia/Tokyo"),
        (("java", "-Duser.timezone=Asia/Tokyo", "-Duser.timezone=UTC"), {"timezone": "Europe/Rome\n"}, "UTC"),
        (("java", "-Duser.timezone=Asia/Tokyo", "-Duser.timezone="), {"timezone": "Europe/Rome\n"}, "Europe/Rome"),
        (("java",), {"timezone": "Europe/Rome\n"}, "Europe/Rome"),
    ],
)
def test_time_zone_of_jvm_has_precedence_over_time_zone_of_host(
    tmp_path: Path, command: tuple[str, ...], files: dict[str, str], expected: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    process = Process(0, 0.0, "S", command)

    assert broker_timezone(process, str(tmp_path)) == expected


@pytest.mark.parametrize(
    ("tz", "expected"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        (":Europe/Berlin", "Europe/Berlin"),
        ("posix/Europe/Berlin", "Europe/Berlin"),
        ("America/Argentina/Buenos_Aires", "America/Argentina/Buenos_Aires"),
        ("EST5EDT", "EST5EDT"),
        ("GMT+2", "+02:00"),
        (":GMT+2", "+02:00"),
        ("GMT-09:30", "-09:30"),
        ("GMT+24", "+00:00"),
        (":", "+00:00"),
        ("GMT+02:75", "-02:59"),
        ("JST-9", "+09:00"),
        ("UTC-3", "+03:00"),
        ("/usr/share/zoneinfo/Asia/Tokyo", "+09:00"),
        (":/usr/share/zoneinfo/Asia/Tokyo", "+09:00"),
        ("/usr/share/zoneinfo/Europe/Berlin", "+02:00"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "+02:00"),
        ("", "Europe/Rome"),
    ],
)
def test_time_zone_of_jvm_is_name_or_offset_that_java_reads_in_tz(tmp_path: Path, tz: str, expected: str) -> None:
    (tmp_path / "timezone").write_text("Europe/Rome\n")
    started_in_summer = 1_782_864_000.0
    with subprocess.Popen(["sleep", "60"], env={"TZ": tz}) as sleeping:
        try:
            wait_until(lambda: read_proc_file(sleeping.pid, "environ"), "the environment of the process")
            process = Process(sleeping.pid, started_in_summer, "S", ("java",))
            assert broker_timezone(process, str(tmp_path)) == expected
        finally:
            sleeping.kill()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("GMT+02:00", "+02:00"),
        ("GMT-930", "-09:30"),
        ("UTC", "UTC"),
        ("GMT0", "GMT0"),
        ("GB-Eire", "GB-Eire"),
        ("Etc/GMT+5", "Etc/GMT+5"),
        ("US/Eastern", "US/Eastern"),
        ("PST", "America/Los_Angeles"),
        ("EST", "-05:00"),
    ],
)
def test_time_zone_option_of_jvm_is_read_as_java_reads_it(tmp_path: Path, value: str, expected: str) -> None:
    (tmp_path / "timezone").write_text("Europe/Rome\n")
    process = Process(0, 0.0, "S", ("java", f"-Duser.timezone={value}"))
    assert broker_timezone(process, str(tmp_path)) == expected


@pytest.mark.parametrize(
    "value",
    [
        ":/etc/localtime",
        ":Europe/Berlin",
        "posix/Europe/Berlin",
        "right/UTC",
        "localtime",
        "GMT+24",
        "GMT+02:75",
        "gmt+2",
        "CEST",
        "ROC",
        "Z",
        "utc",
        "etc/utc",
    ],
)
def test_time_zone_option_that_java_rejects_has_offset_of_c_library(tmp_path: Path, value: str) -> None:
    (tmp_path / "timezone").write_text("Europe/Rome\n")
    with subprocess.Popen(["sleep", "60"], env={"TZ": "JST-9"}) as sleeping:
        try:
            wait_until(lambda: read_proc_file(sleeping.pid, "environ"), "the environment of the process")
            process = Process(sleeping.pid, 1_782_864_000.0, "S", ("java", f"-Duser.timezone={value}"))
            assert broker_timezone(process, str(tmp_path)) == "+09:00"
        finally:
            sleeping.kill()


def test_rejected_time_zone_option_of_jvm_without_tz_has_offset_of_host(tmp_path: Path) -> None:
    (tmp_path / "timezone").write_text("Europe/Rome\n")
    command = ("java", "-Duser.timezone=:Europe/Berlin")
    host_offset = subprocess.check_output(["date", "--date=@1782864000", "+%:z"], env={}, text=True).strip()
    with subprocess.Popen(["sleep", "60"], env={"A": "1"}) as sleeping:
        try:
            wait_until(lambda: read_proc_file(sleeping.pid, "environ"), "the environment of the process")
            process = Process(sleeping.pid, 1_782_864_000.0, "S", command)
            assert broker_timezone(process, str(tmp_path)) == host_offset
        finally:
            sleeping.kill()
