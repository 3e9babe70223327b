"""Random settings of policies, usage, virtual destinations, stores and plugins: a valid file, or one error."""

from __future__ import annotations

from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from activemq_fleet.artifacts import load_schema
from activemq_fleet.errors import SettingsError
from activemq_fleet.node.host_paths import ACTIVEMQ_XML
from activemq_fleet.releases import Release
from activemq_fleet.render import render_broker
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import build_fleet
from tests.support.schema_releases import SCHEMA_RELEASES
from tests.unit.element_inputs import element_settings
from tests.unit.fleets import hosts


@given(settings=element_settings, release=st.sampled_from(SCHEMA_RELEASES), links=st.booleans())
def test_random_settings_render_valid_file_or_error_names_host_and_variable(
    settings: dict[str, Any], release: str, links: bool
) -> None:
    try:
        fleet = build_fleet(hosts("a-mq1", *["a-mq2"] * links, release=release, **settings), {})
    except SettingsError as error:
        event("refused")
        for problem in error.problems:
            assert problem.startswith("a-mq1-a.example.com"), problem
            assert any(f"activemq_{name}" in problem for name in settings), problem
        return
    for finding in fleet.findings:
        assert finding.rule == "T011"
        assert any(f"activemq_{name}" in finding.message for name in settings), finding
    event("without settings that the release lacks" if fleet.findings else "with all settings")
    for broker in fleet.brokers[:2]:
        assert load_schema(Release.of(release)).find_problems(XmlDocument(render_broker(broker)[ACTIVEMQ_XML])) == ()
