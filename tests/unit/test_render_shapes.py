"""Documents by their shape: what is kept for a shape, filled with values, is what the template gives."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from jinja2 import TemplateAssertionError, UndefinedError

from activemq_fleet.errors import FleetError
from activemq_fleet.render import engine, render_agent, render_clients, render_hosts, shapes
from activemq_fleet.render.placeholders import ShapeError
from activemq_fleet.render.shapes import Values
from activemq_fleet.topology import Fleet, build_fleet
from benchmarks.plan_fleet import records
from tests.unit import fuzz_inputs as inputs
from tests.unit.fleets import fleet
from tests.unit.sound_variables import JDBC, ODD, SOUND, any_of

# Of all profiles, releases and sizes of groups: make test-full has 10,000.
BROKERS = int(os.environ.get("SHAPE_BROKERS", "200"))
# Thousands of examples (FUZZ_EXAMPLES) on a busy machine take longer than a unit test may.
pytestmark = pytest.mark.timeout(120 + settings().max_examples)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Templates are given as their text in place of a name."""
    monkeypatch.setattr(engine, "_template", lambda text: engine._environment().from_string(text))
    shapes._shape_text.cache_clear()
    yield
    shapes._shape_text.cache_clear()


def filled(template: str, *texts: str) -> str:
    """A template of one list ``v`` of values, by its shape."""
    values = Values()
    return shapes.render(template, values, v=tuple(values(text) for text in texts)).decode()


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize(
    "use",
    [
        "{% if v[0] %}x{% endif %}",
        "{{ 'x' if not v[0] }}",
        "{{ 'x' if v[0] == 'a' }}",
        "{{ 'x' if 'a' != v[0] }}",
        "{{ 'x' if v[0] < 'b' }}",
        "{{ 'x' if v[0] in ['a', 'b'] }}",
        "{{ 'x' if 'a' in v[0] }}",
        "{{ v[0] or 'x' }}",
        "{% for char in v[0] %}x{% endfor %}",
        "{{ v[0][0] }}",
        "{{ v[0].upper() }}",
        "{{ v[0]() }}",
        "{{ v[0] ~ 'x' }}",
        "{{ v[0] + 'x' }}",
        "{{ 'x' + v[0] }}",
        "{{ 'x%s' % v[0] }}",
        "{{ v[0] % 1 }}",
        "{{ v | join(',') }}",
        "{{ v[0] | join(',') }}",
        "{{ v[0] | xml ~ 'x' }}",
        "{{ {'a': 'x'}[v[0]] }}",
        "{% for each in v %}{{ 'x' if loop.changed(each) }}{% endfor %}",
        "{{ v }}",
        "{{ v[:1] | xml }}",
    ],
)
def test_a_template_that_does_more_with_a_value_than_to_escape_and_print_it_fails(use: str) -> None:
    with pytest.raises((ShapeError, UndefinedError)):
        filled(use, "a", "b")


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("use", ["v | upper", "v | int", "v | length", "v is string", "v is sameas 'a'"])
def test_filters_and_tests_that_could_look_into_a_value_are_not_there(use: str) -> None:
    with pytest.raises(TemplateAssertionError):
        filled(f"{{{{ {use} }}}}", "a")


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("part", [True, None, ("a",)])
@pytest.mark.parametrize("use", ["{{ part }}", "{{ part | xml }}"])
def test_what_is_no_text_is_not_printed(use: str, part: Any) -> None:
    with pytest.raises(ShapeError, match="make it text"):
        shapes.render(use, Values(), part=part)


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("part", [1, 1.0, b"a", ("a", 1)])
def test_a_number_is_no_part_of_a_shape(part: Any) -> None:
    with pytest.raises(ShapeError, match="make it a value"):
        shapes.render("{{ 'x' if part }}", Values(), part=part)


@pytest.mark.usefixtures("written")
def test_a_template_that_changes_what_was_escaped_fails() -> None:
    with pytest.raises(ShapeError, match="after it was escaped"):
        filled("{% filter properties %}{{ v[0] | xml }}{% endfilter %}", "a")


@pytest.mark.usefixtures("written")
def test_a_template_is_run_once_for_all_values_and_again_for_another_shape() -> None:
    template = "{% for each in v %}<{{ each | xml }}>{% endfor %}"

    assert [filled(template, *texts) for texts in ("a", "&", "ab", "ba")] == ["<a>", "<&amp;>", "<a><b>", "<b><a>"]
    assert shapes._shape_text.cache_info().misses == 2


def test_brokers_that_differ_in_names_alone_share_their_shapes() -> None:
    def render_one(name: str) -> None:
        users = [{"name": f"{name}-user", "password": f"{name}-secret", "groups": [f"{name}s", "admins"]}]
        shared = {"users": users, "network_username": name, "port_offset": len(name), "base": f"/srv/{name}"}
        render_hosts(fleet(f"{name}-mq01", f"{name}-mq02", **shared))

    render_one("a")
    known = shapes._shape_text.cache_info().misses
    render_one("another")

    assert shapes._shape_text.cache_info().misses == known


@pytest.mark.usefixtures("written")
def test_no_more_than_the_last_shapes_are_kept_and_none_holds_a_value() -> None:
    for number in range(shapes._MOST_SHAPES + 20):
        values = Values()
        shapes.render("{{ name }}={{ v }}", values, name=str(number), v=values("hush"))

    assert shapes._shape_text.cache_info().currsize == shapes._MOST_SHAPES
    assert (
        "hush" not in shapes._shape_text("{{ name }}={{ v }}", (("name", "300"), ("v", shapes._placeholder(0))))._text
    )


TEMPLATE = """100 % %s {{ v[0] }} {{ v[1] }}{{ v[0] }}
{% for name in engine %}{{ name }} {% endfor %}{{ v[1] | xml }} {{ v[1] | comment }} {{ v[1] | comment | xml }}
{{ v[1] | properties }} {{ v[1] | properties_key }} {{ v[1] | shell }} {{ v[1] | systemd | xml }} {{ v[2] | xml }}"""
SPECIAL = st.text(st.sampled_from("a-%&<>\"'\n\r\t\\ =:#!$\0é𝄞{}"), max_size=8) | st.text(max_size=8)


@pytest.mark.usefixtures("written")
def test_any_text_is_escaped_as_the_template_says() -> None:
    @given(st.lists(SPECIAL.filter(encodable), min_size=3, max_size=3))
    def same(texts: list[str]) -> None:
        values = Values()
        shape = {"v": tuple(values(text) for text in texts), "engine": ("a", "b")}
        assert shapes.render(TEMPLATE, values, **shape) == shapes.render_uncached(TEMPLATE, values, **shape)

    same()


def encodable(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


@st.composite
def varied(draw: st.DrawFn) -> Fleet | None:
    """A fleet of four brokers and an agent whose variables were set at random, most for all, some for one."""
    hosts = inputs.pairs("a-mq01", *draw(any_of(("a-mq02",), ("b-mq01",), ("a-mq02", "b-mq01"))))
    hosts["app01"] = dict(inputs.BASE, activemq_agent_group="a", activemq_agent_username="agent",
                          activemq_agent_password=ODD)  # fmt: skip
    release = draw(any_of(*inputs.RELEASES))
    said = {
        "release": release,
        "ha": draw(any_of("pure", "shared-file", "shared-file", "shared-jdbc", "none")),
        "jdbc": JDBC,
    }
    said |= {
        name: draw(SOUND[name]) for name in draw(st.lists(st.sampled_from(sorted(SOUND)), max_size=8, unique=True))
    }
    for found in hosts.values():
        found.update({f"activemq_{name}": value for name, value in said.items()})
    own = draw(st.sampled_from(sorted(SOUND)))
    hosts["a-mq01-b.example.com"][f"activemq_{own}"] = draw(SOUND[own])
    try:
        return build_fleet(hosts, {"activemq_agents": ["app01"]})
    except FleetError as error:
        event(f"refused: {error}"[:80])
        return None


def everything(found: Fleet) -> list[Any]:
    """All files, with secrets and without; what is refused, by its words."""
    out: list[Any] = [render_clients(found), *(render_agent(agent) for agent in found.agents)]
    for reveal in (False, True):
        try:
            out.append(render_hosts(found, reveal=reveal))
        except FleetError as error:
            event(f"refused: {error}"[:80])
            out.append(str(error))
    return out


def assert_same(found: Fleet) -> None:
    by_shape = everything(found)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shapes, "render", shapes.render_uncached)
        assert everything(found) == by_shape


@given(varied())
def test_files_of_varied_fleets_are_those_that_templates_give(found: Fleet | None) -> None:
    if found is not None:
        event(f"{found.brokers[0].settings.ha}, {len(found.findings)} findings")
        assert_same(found)


@settings(max_examples=max(1, BROKERS // 100))
@given(st.integers(0, 1 << 30))
def test_files_of_many_brokers_are_those_that_templates_give(seed: int) -> None:
    hosts = {record["host"]: record["variables"] for record in records(100, seed, kinds=None)}
    assert_same(build_fleet(hosts, {}))


@given(inputs.mistuned())
def test_files_of_mistuned_fleets_are_those_that_templates_give(hosts: inputs.Hosts) -> None:
    try:
        found = build_fleet(hosts, {})
    except FleetError:
        return
    assert_same(found)


@pytest.mark.parametrize("release", inputs.RELEASES)
@pytest.mark.parametrize("ha", ["pure", "shared-file", "shared-jdbc", "none"])
def test_every_profile_of_every_release_has_a_shape(release: str, ha: str) -> None:
    assert_same(fleet("a-mq01", "a-mq02", release=release, ha=ha, jdbc=JDBC))
