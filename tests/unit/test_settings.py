"""Settings that are read from variables, and the errors of invalid variables."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from datetime import date
from typing import Any

import pytest
from pydantic import SecretStr, TypeAdapter
from pydantic_core import PydanticUndefined

from activemq_fleet import settings as settings_package
from activemq_fleet.errors import SettingsError
from activemq_fleet.settings.connectors_and_links import ImmutableSettingsBase
from activemq_fleet.settings.encrypted import UndecryptedVaultValue
from activemq_fleet.settings.variable_validation import KNOWN, probable_activemq_variable, read_settings

# The table of design.md: the removal of a variable breaks inventories of users.
DOCUMENTED = """
release naming_pattern master_node address broker_name ha store_directory jdbc lock_acquire_interval
lock_keepalive_interval discovery topology multicast environment multicast_interface network_username
network_password network_ttl links pair_links connectors replication_port bind port_offset console
console_bind console_port users acl tls install archive archive_sha512 user uid gid home base instance heap
java_home java_options memory_limit store_limit temp_limit broker_attributes xml_fragments extra_files
agent_group agent_pair agent_username agent_password agent_publisher_timeout agent_topics agent_publish_prefixes
agent_client_id agent_handlers watchdog vip vip_interface waivers
""".split()  # noqa: SIM905 -- 70 quoted names would hide that this is a table


def settings_error(variables: dict[str, Any]) -> str:
    """Return the error of invalid variables."""
    with pytest.raises(SettingsError) as caught:
        read_settings("orders-mq01-a", variables)
    return str(caught.value)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_documented_variable_is_known(name: str) -> None:
    assert f"activemq_{name}" in KNOWN


def test_text_values_of_command_line_are_converted_to_their_types() -> None:
    settings = read_settings("h", {"activemq_port_offset": "10", "activemq_console": "false"})

    assert (settings.port_offset, settings.console) == (10, False)


def test_activemq_variables_with_other_purposes_are_accepted() -> None:
    read_settings("h", {"ansible_host": "x", "activemq_x_team": 1, "activemq_identity": {}, "activemq_target": "x"})


@pytest.mark.parametrize("name", ["activemq_", "activemq_\\", "activemq_nk?", "activemq_xbean:http://evil"])
def test_unknown_variable_without_similar_name_gets_no_suggestion(name: str) -> None:
    assert settings_error({name: "x"}) == (
        f"orders-mq01-a: {name} is not a variable of activemq.fleet: remove it, or begin its name with activemq_x_ if "
        "it has another purpose"
    )


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"activemq_kahadb": {"a\nb": 1}}, r"activemq_kahadb.a\nb is not a known key"),
        ({"activemq_a\nb": 1}, r"activemq_a\nb is not a variable"),
        (
            {"activemq_agent_options": {"Cap": "1"}},
            "in activemq_agent_options, the key 'Cap' must be a key of agent.conf",
        ),
        (
            {"activemq_links": [{"from": "a", "to": "b", "options": {"ok": 1, "b c": 1}}]},
            "in activemq_links[0].options, the key 'b c' must be the name of a URI option",
        ),
        (
            {
                "activemq_connectors": [
                    {"name": "x", "scheme": "tcp", "port": 1, "attributes": {"updateClusterFilter": "${x}"}}
                ]
            },
            "the value of activemq_connectors[0].attributes.updateClusterFilter contains",
        ),
    ],
)
def test_error_names_key_as_inventory_contains_it(variables: dict[str, Any], place: str) -> None:
    assert settings_error(variables).startswith(f"orders-mq01-a: {place}")


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"activemq_kahadb": {7: "a"}}, "activemq_kahadb.7 is not a known key: use one of the keys that"),
        ({"activemq_plugins": {"logging": {}, 1: "a"}}, "activemq_plugins.1 is not a known key: use one of the keys"),
        ({"activemq_agent_options": {1: 2}}, "in activemq_agent_options, the key '1' must be a key of agent.conf"),
        (
            {"activemq_agent_options": {"event.type": "a", 1: "b"}},
            "in activemq_agent_options, the key '1' must be a key of agent.conf",
        ),
        (
            {"activemq_network_options": {1: "a", "b c": "d"}},
            "in activemq_network_options, the key '1' must be the name of a URI option",
        ),
        (
            {"activemq_fence_command": {"argv": ["/x"], "secrets": {1: "a"}}},
            "in activemq_fence_command.secrets, the key '1' must be the name of an environment variable",
        ),
    ],
)
def test_error_names_number_that_is_key_of_mapping(variables: dict[str, Any], message: str) -> None:
    assert settings_error(variables).startswith(f"orders-mq01-a: {message}")


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"activemq_kahadb": {True: 3}}, "activemq_kahadb.true is not a known key: use one of the keys that"),
        ({"activemq_plugins": {"logging": {}, False: "a"}}, "activemq_plugins.false is not a known key: use one of"),
        ({"activemq_kahadb": {None: 3}}, "activemq_kahadb.null is not a known key: use one of the keys that"),
        ({"activemq_kahadb": {date(2030, 1, 1): 3}}, "activemq_kahadb.2030-01-01 is not a known key: use one of the"),
        ({"activemq_agent_options": {True: "a"}}, "activemq_agent_options.true must be text in quotes, not true"),
        ({"activemq_network_options": {True: "a"}}, "activemq_network_options.true must be text in quotes, not true"),
    ],
)
def test_error_names_key_that_yaml_does_not_read_as_text(variables: dict[str, Any], message: str) -> None:
    assert settings_error(variables).startswith(f"orders-mq01-a: {message}")


@pytest.mark.parametrize("value", [{7: "a"}, {0: "a"}, {1: {1: 1}}, [{1: 2}], {True: 1}])
def test_number_as_key_in_any_variable_is_no_internal_error(value: object) -> None:
    for name in sorted(KNOWN):
        with contextlib.suppress(SettingsError):
            read_settings("orders-mq01-a", {name: value})


def test_misspelt_variable_gets_suggestion() -> None:
    assert settings_error({"activemq_relase": "5.18.3"}) == (
        "orders-mq01-a: activemq_relase is not a variable of activemq.fleet: did you mean activemq_release?"
    )


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"activemq_release": 5.10},
            "in activemq_release, YAML reads the release 5.1 as a number (5.10 as 5.1): write all three parts of the "
            "release, such as 5.10.2",
        ),
        (
            {"activemq_release": 6.3},
            "in activemq_release, YAML reads the release 6.3 as a number: write all three parts of the release, such "
            "as 6.3.2",
        ),
        (
            {"activemq_release": 6.9},
            "in activemq_release, YAML reads the release 6.9 as a number: write all three parts of the release, such "
            "as 6.3.2",
        ),
        (
            {"activemq_release": 5},
            "in activemq_release, YAML reads the release 5 as a number: write all three parts of the release, such as "
            "5.19.11",
        ),
        ({"activemq_ha": "raid"}, "activemq_ha must be 'pure', 'shared-file', 'shared-jdbc' or 'none', not 'raid'"),
        ({"activemq_port_offset": "ten"}, "activemq_port_offset must be a whole number such as 10, not 'ten'"),
        ({"activemq_links": [{"from": "a"}]}, "activemq_links[0].to is required, but missing: set this key"),
        (
            {"activemq_links": [{"from": "a", "to": "b", "include": ["vm://x"]}]},
            "in activemq_links[0].include[0], the destination 'vm://x' must be the name of a queue",
        ),
        (
            {"activemq_links": ["a to b"]},
            "activemq_links[0] must be a mapping (lines of the form 'KEY: VALUE'), not 'a to b'",
        ),
        ({"activemq_console": "maybe"}, "activemq_console must be true or false, not 'maybe'"),
        ({"activemq_waivers": [{"rule": "T002", "reason": "x", "until": "soon"}]}, "must be a date such as"),
        (
            {"activemq_links": [{"from": "a", "to": "b", "duplx": True}]},
            "activemq_links[0].duplx is not a known key: did you mean duplex?",
        ),
        (
            {"activemq_waivers": [{"what": "T002"}]},
            "activemq_waivers[0].what is not a known key: use one of the keys ",
        ),
        ({"activemq_connectors": [{"name": "x", "scheme": "tcp", "port": 0}]}, "activemq_connectors[0].port must be"),
        ({"activemq_address": "a_b"}, "underscore"),
        ({"activemq_multicast": "10.0.0.1:6255"}, "must be a multicast address"),
        (
            {"activemq_multicast": "224.1.2.3:70000"},
            "in activemq_multicast, the port in '224.1.2.3:70000' is above 65535",
        ),
        ({"activemq_multicast": "224.01.2.3:6255"}, "must be a multicast address"),
        ({"activemq_connectors": [{"name": "console", "scheme": "tcp", "port": 1}]}, "reserved for another port"),
        ({"activemq_broker_attributes": {"brokerName": "x"}}, "use activemq_broker_name"),
        ({"activemq_java_options": "-Dx=y"}, "activemq_java_options must be a list"),
        (
            {"activemq_network_username": UndecryptedVaultValue("$ANSIBLE_VAULT")},
            "the value of activemq_network_username is encrypted, and no given vault password decrypts it",
        ),
        ({"activemq_network_password": 1234}, "in activemq_network_password, the password must be text, not a number"),
        ({"activemq_network_password": ["x"]}, "in activemq_network_password, the password must be text, not a list"),
        ({"activemq_heap": ["1g"]}, "activemq_heap must be text, not a list"),
        ({"activemq_heap": {"max": "1g"}}, "activemq_heap must be text, not a mapping"),
        ({"activemq_heap": 2048}, "in activemq_heap, the value '2048' must be a size such as 512m or 4g"),
        (
            {"activemq_store_limit": 20},
            "in activemq_store_limit, the value '20' must be a size such as 358 mb or 20 gb",
        ),
        ({"activemq_java_options": [{"x": 1}]}, "activemq_java_options[0] must be text, not a mapping"),
        (
            {"activemq_user": [{"name": "ann", "password": "secret1"}]},
            "activemq_user must be text, not a list: write a single value. Did you mean activemq_users?",
        ),
        (
            {"activemq_users": "activemq"},
            "activemq_users must be a list (lines of the form '- VALUE'). Did you mean activemq_user?",
        ),
        (
            {"activemq_archive": {"5.18.3": ["/x"]}},
            "in activemq_archive, the value for release 5.18.3 must be text, not a list",
        ),
        ({"activemq_users": [{"name": "admin", "password": "admin"}]}, "has a default password of ActiveMQ: "),
        (
            {"activemq_network_username": "system", "activemq_network_password": "manager"},
            "is a default password of ActiveMQ",
        ),
        ({"activemq_ha": "shared-jdbc"}, "activemq_jdbc is not set: set activemq_jdbc"),
        ({"activemq_store_directory": "srv/x"}, "the path 'srv/x' is not absolute"),
        ({"activemq_store_directory": "/srv/a b"}, "the path '/srv/a b' contains ' '"),
        (
            {"activemq_extra_files": [{"path": "../x", "content": ""}]},
            "the path '../x' is not below the broker's directory",
        ),
        ({"activemq_extra_files": [{"path": ".fleet-manifest.json", "content": ""}]}, "begins with .fleet-"),
        ({"activemq_broker_attributes": {"useJmx": "${user.home}"}}, "which begins a Spring or Jinja expression"),
    ],
)
def test_error_of_invalid_value_is_single_line_with_host_and_variable(variables: dict[str, Any], message: str) -> None:
    error = settings_error(variables)

    assert error.startswith("orders-mq01-a: ")
    assert message in error
    assert "\n" not in error


@pytest.mark.parametrize("suffix", ["${x}", "#{1}", "{{ x }}", "{% x %}", "a\nb", "a\x00b", ""])
def test_invalid_password_is_refused_and_not_shown(suffix: str) -> None:
    error = settings_error({"activemq_network_password": f"hush{suffix}" if suffix else ""})

    assert "activemq_network_password" in error
    assert "hush" not in error


@pytest.mark.parametrize(
    "variables",
    [
        {"activemq_user": "_ _"},
        {"activemq_user": [{"name": "ann", "passwort": "x"}]},
        {"activemq_users": [{"name": 1, "password": "secret1"}]},
        {"activemq_store_directory": "srv/x"},
    ],
)
def test_error_suggests_no_variable_that_does_not_accept_value(variables: dict[str, Any]) -> None:
    assert "id you mean activemq_" not in settings_error(variables)


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("active_mq_fence", "activemq_fence"),
        ("activemqfence", "activemq_fence"),
        ("actvemq_fence", "activemq_fence"),
        ("activmq_ha", "activemq_ha"),
        ("ACTIVEMQ_RELEASE", "activemq_release"),
        ("activemq-release", "activemq_release"),
    ],
)
def test_name_with_misspelt_prefix_has_probable_variable(name: str, variable: str) -> None:
    assert probable_activemq_variable(name) == variable


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"activemq_java_options": ["-Dstore.password=hush hush"]}, "the value must be one Java option"),
        ({"activemq_users": [{"name": "ann:hush", "password": "x"}]}, "the value must contain only letters"),
        ({"activemq_network_password": "hush\tx"}, "activemq_network_password contains a line break or a tab"),
        ({"activemq_network_password": "hush\x07"}, "contains the control character U+0007: remove this character"),
        ({"activemq_network_password": "hush${x}"}, "the value of activemq_network_password contains '${'"),
    ],
)
def test_error_of_value_that_may_be_secret_does_not_quote_it(variables: dict[str, Any], message: str) -> None:
    error = settings_error(variables)

    assert message in error
    assert "hush" not in error


@pytest.mark.parametrize(
    "name",
    [
        "activemq",
        "activemqs",
        "amq_release",
        "mq_fence",
        "release",
        "activemq_fence",
        "__activemq_installed_package",
        "java_home",
    ],
)
def test_ordinary_variable_has_no_probable_activemq_variable(name: str) -> None:
    assert probable_activemq_variable(name) is None


def test_error_does_not_show_password_in_wrong_place() -> None:
    assert (
        settings_error({"activemq_users": ["ann:hush"]})
        == "orders-mq01-a: activemq_users[0] must be a mapping (lines of the form 'KEY: VALUE')"
    )


def test_undecrypted_password_counts_as_set() -> None:
    settings = read_settings("h", {"activemq_network_password": UndecryptedVaultValue("x")})

    assert settings.network_password == UndecryptedVaultValue("x")
    assert "x" not in repr(settings.network_password)


def test_repr_of_settings_contains_no_password() -> None:
    settings = read_settings("h", {"activemq_network_password": "hush"})

    assert settings.network_password == SecretStr("hush")
    assert "hush" not in repr(settings)


def test_all_invalid_variables_of_host_are_reported_together() -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings("h", {"activemq_heep": "1g", "activemq_heap": "much", "activemq_ha": "x"})

    assert len(caught.value.problems) == 3


@pytest.mark.parametrize("install", ["jars", "package"])
def test_jars_and_packages_have_no_console(install: str) -> None:
    assert read_settings("h", {"activemq_install": install}).console is False
    assert "set activemq_console to false" in settings_error({"activemq_install": install, "activemq_console": True})


CHECKSUM = "0123456789abcdef" * 8


@pytest.mark.parametrize(
    ("variables", "watchdog"),
    [
        ({}, "warn"),
        ({"activemq_fence": "guard"}, "kill"),
        ({"activemq_fence": "guard", "activemq_watchdog": "warn"}, "warn"),
        ({"activemq_fence": "command", "activemq_fence_command": {"argv": ["/sbin/off"]}}, "kill"),
    ],
)
def test_default_watchdog_kills_only_with_fence(variables: dict[str, Any], watchdog: str) -> None:
    assert read_settings("h", variables).watchdog == watchdog


def test_entry_of_activemq_archive_is_selected_by_release() -> None:
    archives = {"5.18.6": "/srv/new.tar.gz", "5.18.3": "/srv/old.tar.gz"}
    for release, path in archives.items():
        variables = {
            "activemq_release": release,
            "activemq_archive": archives,
            "activemq_archive_sha512": {release: CHECKSUM},
        }
        settings = read_settings("h", variables)
        assert (settings.release_archive_path_or_url(), settings.release_archive_sha512()) == (path, CHECKSUM)


def test_single_activemq_archive_applies_to_every_release() -> None:
    settings = read_settings("h", {"activemq_release": "5.18.6", "activemq_archive": "/srv/x.tar.gz"})
    assert (settings.release_archive_path_or_url(), settings.release_archive_sha512()) == ("/srv/x.tar.gz", None)


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (
            {"5.18.3": "/x"},
            "activemq_archive has no entry for activemq_release 5.18.6 (it has 5.18.3): add an entry for this release",
        ),
        ({}, "activemq_archive has no entry for activemq_release 5.18.6 (it is empty): add an entry for this release"),
        (
            {5.18: "/x"},
            "in activemq_archive, YAML reads the key 5.18 as a number: write all three parts of the release, such as "
            "5.18.7",
        ),
        (
            {"5.18": "/x"},
            "in activemq_archive, the key '5.18' is not a complete release: write a release such as 5.18.6",
        ),
        ({"5.18.6": 7}, "in activemq_archive, the value for release 5.18.6 must be text, not a number"),
        (
            {"5.18.6": "${x}"},
            "in activemq_archive, the value for release 5.18.6 is not valid: the value of the setting contains '${'",
        ),
        (["/x"], "the value of activemq_archive is neither text nor a mapping: write one text for all releases, or"),
    ],
)
def test_error_of_invalid_activemq_archive_is_single_line(archive: Any, message: str) -> None:
    error = settings_error({"activemq_release": "5.18.6", "activemq_archive": archive})
    assert error.startswith(f"orders-mq01-a: {message}")
    assert "\n" not in error


def test_checksum_mapping_without_release_is_refused() -> None:
    variables = {
        "activemq_release": "5.18.6",
        "activemq_archive": "/x",
        "activemq_archive_sha512": {"5.18.3": CHECKSUM},
    }
    assert "activemq_archive_sha512 has no entry for activemq_release 5.18.6" in settings_error(variables)
    read_settings("h", variables | {"activemq_install": "none"})
    assert "128 hexadecimal digits" in settings_error({"activemq_archive_sha512": {"5.18.3": "abc"}})


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"activemq_kahadb": {"checkpoint_interval": "5s"}}, "must be a whole number such as 10, not '5s'"),
        ({"activemq_user": "Root"}, "the value 'Root' must be a Unix user name such as activemq"),
        (
            {"activemq_network_ttl": 0},
            "is '0': write a whole number of 1 or more, -1 for no limit, or {consumer: NUMBER, message: NUMBER}",
        ),
        (
            {"activemq_network_ttl": {"consumer": 0, "message": 2}},
            "is '[0, 2]': write a whole number of 1 or more, -1 for no limit, or {consumer: NUMBER, message: NUMBER}",
        ),
        ({"activemq_connectors": [{"name": "x", "scheme": "tcp", "port": 0}]}, "must be at least 1, not 0"),
    ],
)
def test_error_about_variable_quotes_invalid_value_and_shows_valid_value(
    variables: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings("orders-mq01-a", {"activemq_release": "5.18.3", **variables})

    assert any(line.endswith(message) for line in caught.value.problems), caught.value.problems
    assert "default factory" not in str(caught.value)


@pytest.mark.parametrize(
    "variables",
    [
        {"activemq_network_password": "hunter2\nx"},
        {"activemq_users": "hunter2"},
        {"activemq_users": ["hunter2"]},
        {"activemq_users": [{"name": "app", "password": "hunter2\tx"}]},
        {"activemq_jdbc": "hunter2"},
        {"activemq_jdbc": {"url": "postgresql://app:hunter2@db/x", "driver": "a.B", "username": "u", "password": "p"}},
        {"activemq_jmx": "hunter2"},
        {"activemq_jmx": {"users": ["hunter2"]}},
        {"activemq_tls": "hunter2"},
        {"activemq_java_options": ["-Djavax.net.ssl.keyStorePassword=hunter2 -Dx=y"]},
        {"activemq_xml_fragments": ["<user password='hunter2'/>"]},
        {"activemq_archive": "https://app:hunter2@example.com/a\tb"},
    ],
)
def test_error_about_variable_quotes_no_secret(variables: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings("orders-mq01-a", {"activemq_release": "5.18.3", **variables})

    assert "hunter2" not in str(caught.value)


def test_settings_error_has_problems_by_host_without_host_name() -> None:
    errors = []
    for host in ("a", "b"):
        with pytest.raises(SettingsError) as caught:
            read_settings(host, {"activemq_heap": [], "activemq_relase": "5.18.3"})
        errors.append(caught.value)

    joined = SettingsError.join_errors([*errors, SettingsError("the inventory: no host")])

    problems = joined.problems_by_host["a"]
    assert all(problem.startswith("activemq_") for problem in problems)
    assert joined.problems_by_host == {"a": problems, "b": problems}
    assert joined.lines == (*(f"{host}: {p}" for host in "ab" for p in problems), "the inventory: no host")
    assert joined.hosts_by_line == {f"{host}: {p}": (host,) for host in "ab" for p in problems}


def test_short_lock_acquire_interval_requires_fence() -> None:
    variables = {"activemq_lock_acquire_interval": 60}
    assert read_settings("h", {**variables, "activemq_fence": "guard"}).lock_acquire_interval == 60
    assert "activemq_lock_acquire_interval must be at least 100, not 60, because without" in settings_error(variables)


def test_each_default_is_valid_value_of_its_setting() -> None:
    for module in pkgutil.iter_modules(settings_package.__path__, f"{settings_package.__name__}."):
        importlib.import_module(module.name)
    models, pending = set[type[ImmutableSettingsBase]](), [ImmutableSettingsBase]
    while pending:
        subclasses = set(pending.pop().__subclasses__())
        models |= subclasses
        pending += subclasses
    checked_defaults = 0
    for model in models:
        for field in model.model_fields.values():
            if field.default not in (None, PydanticUndefined):
                checked_defaults += 1
                TypeAdapter(field.rebuild_annotation()).validate_python(field.default)
    assert checked_defaults > 100
