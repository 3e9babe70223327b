"""The files of the web console for the Jetty of each release line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from activemq_fleet.errors import SettingsError
from activemq_fleet.render import console, file_mode_of, render_broker
from activemq_fleet.render.secrets import SecretRenderer
from activemq_fleet.topology import Broker
from tests.unit.fleets import fleet

BEANS = "{http://www.springframework.org/schema/beans}"
HOST = "o-mq01-a"
OPS = {"name": "ops", "password": "sesame", "groups": ["admins"]}
APP = {"name": "app", "password": "open", "groups": ["apps"]}
# A release for each family of Jetty and of accounts.
FAMILIES = ("5.3.2", "5.5.1", "5.8.0", "5.11.4", "5.14.5", "5.18.3", "5.19.10", "6.0.1", "6.2.9")


def broker(release: str = "5.18.3", **variables: Any) -> Broker:
    variables = {"users": [OPS, APP], **variables}
    return fleet("o-mq01", release=release, **variables).broker(HOST)


def console_files_of(release: str = "5.18.3", *, reveal: bool = False, **variables: Any) -> dict[str, bytes]:
    return console.console_files(broker(release, **variables), SecretRenderer(HOST, reveal))


def beans(document: bytes, kind: str) -> list[etree._Element]:
    """Return the beans whose class ends with ``kind``."""
    return [
        bean
        for bean in etree.fromstring(document).iter(f"{BEANS}bean")
        if (bean.get("class") or "").rpartition(".")[2] == kind
    ]


def properties_of(bean: etree._Element) -> dict[str, str]:
    return {
        bean_property.get("name", ""): bean_property.get("value", "")
        for bean_property in bean.iterfind(f"{BEANS}property")
        if bean_property.get("value")
    }


def properties(content: bytes, separator: str) -> dict[str, str]:
    """Return the properties of a file whose values need no unescaping."""
    lines = [line for line in content.decode().splitlines() if line and not line.startswith("#")]
    return {name: value.lstrip() for name, _, value in (line.partition(separator) for line in lines)}


@pytest.mark.parametrize("release", FAMILIES)
def test_console_until_6_2_listens_on_configured_address_in_jetty_xml(release: str) -> None:
    jetty_xml = console_files_of(release, console_bind="192.0.2.7", console_port=9000, port_offset=10)["conf/jetty.xml"]

    connectors = beans(jetty_xml, "SelectChannelConnector") + beans(jetty_xml, "ServerConnector")
    assert [properties_of(connector) for connector in connectors] == [{"host": "192.0.2.7", "port": "9010"}]


@pytest.mark.parametrize("release", [*FAMILIES, "6.3.1"])
def test_console_listens_on_loopback_by_default(release: str) -> None:
    everything = b"".join(console_files_of(release).values())

    assert b"127.0.0.1" in everything
    assert b"0.0.0.0" not in everything


@pytest.mark.parametrize("release", FAMILIES)
def test_every_path_of_console_requires_login_and_admin_paths_require_role_admin(release: str) -> None:
    document = console_files_of(release)["conf/jetty.xml"]
    rules = {}
    for mapping in beans(document, "ConstraintMapping"):
        (constraint,) = mapping.iterfind(f".//{BEANS}bean")
        assert properties_of(constraint)["authenticate"] == "true"
        rules[properties_of(mapping)["pathSpec"]] = properties_of(constraint)["roles"]

    admin, user = ("admins", "users") if release.startswith("6") else ("admin", "user")
    assert rules == {"/admin/*": admin, "/api/*": admin, "/*": f"{admin},{user}"}


@pytest.mark.parametrize(("release", "webapps"), [("5.7.0", ["/admin"]), ("5.8.0", ["/admin", "/api"])])
def test_jetty_serves_only_console_and_api_of_release(release: str, webapps: list[str]) -> None:
    contexts = beans(console_files_of(release)["conf/jetty.xml"], "WebAppContext")

    assert [properties_of(context)["contextPath"] for context in contexts] == webapps


@pytest.mark.parametrize(
    ("release", "package"), [("5.5.1", "org.eclipse.jetty.http.security"), ("5.6.0", "org.eclipse.jetty.util.security")]
)
def test_security_constraint_of_console_has_class_of_jetty_version(release: str, package: str) -> None:
    assert {bean.get("class") for bean in beans(console_files_of(release)["conf/jetty.xml"], "Constraint")} == {
        f"{package}.Constraint"
    }


def test_console_since_6_3_has_address_properties_and_separate_security_file() -> None:
    rendered = console_files_of("6.3.1", console_bind="192.0.2.7", port_offset=10)

    assert sorted(rendered) == [
        "conf/groups.properties",
        "conf/jetty-spring.properties",
        "conf/jetty-spring.xml",
        "conf/jetty/jetty-security.xml",
        "conf/login.config",
        "conf/users.properties",
    ]
    settings = properties(rendered["conf/jetty-spring.properties"], "=")
    assert settings["jetty.http.host"] == "192.0.2.7"
    assert settings["jetty.http.port"] == "8171"
    assert settings["httpsEnabled"] == "false"
    assert "jetty-security.xml" in settings["jettyXmlFiles"].split(",")


def test_console_since_6_3_has_roles_for_each_path() -> None:
    root = etree.fromstring(console_files_of("6.3.1")["conf/jetty/jetty-security.xml"])
    puts = root.iterfind(".//Call[@name='put']")

    assert {put.findtext("Arg"): [role.text for role in put.iter("Item")] for put in puts} == {
        "/admin/*": ["admins"],
        "/api/*": ["admins"],
        "/*": ["admins", "users"],
    }


@pytest.mark.parametrize("release", ["5.18.3", "6.3.1"])
def test_disabled_console_has_no_files(release: str) -> None:
    assert console_files_of(release, console=False) == {}


def test_admins_have_role_admin_and_other_users_role_user() -> None:
    realm = console_files_of(reveal=True)["conf/jetty-realm.properties"]

    assert properties(realm, ":") == {"ops": "sesame,admin", "app": "open,user"}


def test_network_user_has_no_console_account() -> None:
    assert b"net" not in console_files_of(reveal=True)["conf/jetty-realm.properties"].replace(b"activemq.fleet", b"")


def test_console_accounts_since_6_0_are_jaas_accounts() -> None:
    rendered = console_files_of("6.0.1", reveal=True)

    assert properties(rendered["conf/users.properties"], "=") == {"ops": "sesame", "app": "open"}
    assert properties(rendered["conf/groups.properties"], "=") == {"admins": "ops", "users": "app"}
    assert rendered["conf/login.config"].startswith(b"activemq {")
    assert "conf/jetty-realm.properties" not in rendered


@pytest.mark.parametrize(
    ("release", "accounts"), [("5.18.3", "conf/jetty-realm.properties"), ("6.2.9", "conf/users.properties")]
)
def test_console_without_users_has_no_accounts_and_comment_about_it(release: str, accounts: str) -> None:
    rendered = console_files_of(release, users=[], reveal=True)

    assert properties(rendered[accounts], ":" if "realm" in accounts else "=") == {}
    assert b"no user can log in" in rendered[accounts]
    assert b"No user can log in" in rendered["conf/jetty.xml"]


@pytest.mark.parametrize("release", ["5.18.3", "6.3.1"])
def test_secrets_of_console_files_are_placeholders_until_deployment(release: str) -> None:
    everything = b"".join(console_files_of(release).values())

    assert b"sesame" not in everything
    assert b"@activemq_users[0].password@" in everything


@pytest.mark.parametrize("release", ["5.18.3", "6.3.1"])
def test_console_files_with_passwords_have_mode_0640(release: str) -> None:
    files_with_password = [
        path for path, content in console_files_of(release, reveal=True).items() if b"sesame" in content
    ]

    assert files_with_password
    assert [file_mode_of(path) for path in files_with_password] == [0o640]


def test_password_with_comma_is_obfuscated_for_jetty() -> None:
    # The expected text comes from Jetty: the sample keystore of 6.3.1 contains it for the word password.
    assert console._obfuscate("password") == "1v2j1uum1xtv1zej1zer1xtn1uvk1v1v"

    realm = console_files_of(users=[{**OPS, "password": "one,two"}], reveal=True)["conf/jetty-realm.properties"]
    assert properties(realm, ":")["ops"] == f"OBF:{console._obfuscate('one,two')},admin"


@pytest.mark.parametrize("password", ["OBF:1v1v", "één,twee"])
def test_password_that_jetty_cannot_store_is_refused_without_printing_it(password: str) -> None:
    with pytest.raises(SettingsError) as error:
        console_files_of(users=[{**OPS, "password": password}], reveal=True)

    assert str(error.value).startswith("o-mq01-a.example.com: activemq_users[0].password ")
    assert password not in str(error.value)


def test_password_that_jetty_cannot_store_is_accepted_with_jaas() -> None:
    accounts = console_files_of("6.2.9", users=[{**OPS, "password": "OBF:1,v"}], reveal=True)["conf/users.properties"]

    assert properties(accounts, "=") == {"ops": "OBF:1,v"}


PRINTABLE = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1)


@given(PRINTABLE.filter(lambda text: not text.startswith("OBF:")))
def test_jetty_decodes_every_printable_ascii_password(password: str) -> None:
    encoded = console._realm_password(password, "h", "v")

    # PropertyUserStore and Password read up to the first comma, strip the text, and then decode it.
    stored = f"{encoded},admin".partition(",")[0].strip()
    assert not stored.startswith(("MD5:", "CRYPT:"))
    assert (deobfuscate(stored.removeprefix("OBF:")) if stored.startswith("OBF:") else stored) == password


def deobfuscate(text: str) -> str:
    numbers = [int(text[i : i + 4], 36) for i in range(0, len(text), 4)]
    return "".join(chr((n // 256 + n % 256 - 254) // 2) for n in numbers)


@pytest.mark.parametrize(
    ("release", "expected"), [("5.18.3", False), ("5.19.1", True), ("6.1.6", False), ("6.3.1", True)]
)
def test_console_without_inline_scripts_has_content_security_policy(release: str, expected: bool) -> None:
    assert (b"Content-Security-Policy" in b"".join(console_files_of(release).values())) is expected


@pytest.mark.parametrize("release", ["5.18.3", "5.5.1"])
def test_console_connects_to_broker_with_account_of_admin(release: str) -> None:
    credentials = render_broker(broker(release), reveal=True)["conf/credentials.properties"]

    assert {"activemq.username": "ops", "activemq.password": "sesame"}.items() <= properties(credentials, "=").items()


def test_console_without_admin_connects_to_broker_with_empty_account() -> None:
    credentials = render_broker(broker(users=[APP]))["conf/credentials.properties"]

    assert {"activemq.username": "", "activemq.password": ""}.items() <= properties(credentials, "=").items()


def test_console_files_are_reproducible() -> None:
    assert console_files_of("6.3.1") == console_files_of("6.3.1")
