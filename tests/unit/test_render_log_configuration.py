"""The log configuration of a broker: its files, and the Java options with their paths."""

from __future__ import annotations

import pytest

from activemq_fleet.render.java_command import arguments_after_java_options
from activemq_fleet.render.systemd_units import unit_environment_and_log_configuration
from tests.unit.rendered_units import broker, unit_text

ENCODED = "%enc{%d | %-5p | %m | %c | %t}{CRLF}%n%replace{%throwable{full}}{(?m)^}{  }"


@pytest.mark.parametrize(
    ("release", "path", "layout"),
    [
        ("5.5.1", "conf/log4j.properties", "%d | %-5p | %m | %c | %t%n"),
        ("5.16.7", "conf/log4j.properties", "%d | %-5p | %m | %c | %t%n"),
        ("5.17.6", "conf/log4j2.properties", ENCODED),
        ("6.3.1", "conf/log4j2.properties", ENCODED),
    ],
)
def test_log_records_have_layout_of_release(release: str, path: str, layout: str) -> None:
    paths = [name for name in unit_environment_and_log_configuration(broker(release, ha="none")) if "log4j" in name]
    log_configuration = unit_environment_and_log_configuration(broker(release, ha="none"))[path].decode()

    assert paths == [path]
    assert layout in (line.partition("=")[2] for line in log_configuration.splitlines())
    assert "activemq.data}/activemq.log" in log_configuration


@pytest.mark.parametrize(
    ("release", "option"),
    [
        ("5.16.7", "-Dlog4j.configuration=file:/var/lib/activemq/activemq/current/conf/log4j.properties"),
        ("5.17.6", "-Dlog4j2.configurationFile=file:/var/lib/activemq/activemq/current/conf/log4j2.properties"),
    ],
)
def test_java_option_for_log_configuration_depends_on_log4j_version(release: str, option: str) -> None:
    assert option in arguments_after_java_options(broker(release))


def test_package_installation_has_configuration_for_both_log4j_versions() -> None:
    node = broker("5.17.2", install="package")

    assert {"conf/log4j.properties", "conf/log4j2.properties"} <= unit_environment_and_log_configuration(node).keys()
    assert "-Dlog4j.configuration=file:" in unit_text(node)
    assert "-Dlog4j2.configurationFile=file:" in unit_text(node)
