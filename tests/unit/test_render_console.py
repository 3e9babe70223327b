"""The files of the web console, for every line's Jetty."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from activemq_fleet.errors import SettingsError
from activemq_fleet.render import console, file_mode_of, render_broker
from activemq_fleet.render.secrets import SecretSource
from activemq_fleet.topology import Broker
from tests.unit.fleets import fleet

BEANS = "{http://www.springframework.org/schema/beans}"
HOST = "o-mq01-a"
OPS = {"name": "ops", "password": "sesame", "groups": ["admins"]}
APP = {"name": "app", "password": "open", "groups": ["apps"]}
# One release a family of Jetty and of accounts.
FAMILIES = ("5.3.2", "5.5.1", "5.8.0", "5.11.4", "5.14.5", "5.18.3", "5.19.10", "6.0.1", "6.2.9")


def broker(release: str = "5.18.3", **variables: Any) -> Broker:
    variables = {"users": [OPS, APP], **variables}
    return fleet("o-mq01", release=release, **variables).broker(HOST)


def files(release: str = "5.18.3", *, reveal: bool = False, **variables: Any) -> dict[str, bytes]:
    return console.console_files(broker(release, **variables), SecretSource(HOST, reveal))


def beans(document: bytes, kind: str) -> list[etree._Element]:
    """The beans whose class ends with ``kind``."""
    return [
        bean
        for bean in etree.fromstring(document).iter(f"{BEANS}bean")
        if (bean.get("class") or "").rpartition(".")[2] == kind
    ]


def properties_of(bean: etree._Element) -> dict[str, str]:
    return {p.get("name", ""): p.get("value", "") for p in bean.iterfind(f"{BEANS}property") if p.get("value")}


def entries(data: bytes, separator: str) -> dict[str, str]:
    """Lines of a properties file whose values need no unescaping."""
    lines = [line for line in data.decode().splitlines() if line and not line.startswith("#")]
    return {name: value.lstrip() for name, _, value in (line.partition(separator) for line in lines)}


@pytest.mark.parametrize("release", FAMILIES)
def test_to_6_2_the_console_is_one_jetty_xml_that_listens_where_it_was_told(release: str) -> None:
    found = files(release, console_bind="192.0.2.7", console_port=9000, port_offset=10)["conf/jetty.xml"]

    connectors = beans(found, "SelectChannelConnector") + beans(found, "ServerConnector")
    assert [properties_of(c) for c in connectors] == [{"host": "192.0.2.7", "port": "9010"}]


@pytest.mark.parametrize("release", [*FAMILIES, "6.3.1"])
def test_the_console_listens_on_loopback_unless_told_otherwise(release: str) -> None:
    everything = b"".join(files(release).values())

    assert b"127.0.0.1" in everything
    assert b"0.0.0.0" not in everything


@pytest.mark.parametrize("release", FAMILIES)
def test_every_path_needs_a_login_and_console_and_api_the_admins(release: str) -> None:
    document = files(release)["conf/jetty.xml"]
    rules = {}
    for mapping in beans(document, "ConstraintMapping"):
        (constraint,) = mapping.iterfind(f".//{BEANS}bean")
        assert properties_of(constraint)["authenticate"] == "true"
        rules[properties_of(mapping)["pathSpec"]] = properties_of(constraint)["roles"]

    admin, user = ("admins", "users") if release.startswith("6") else ("admin", "user")
    assert rules == {"/admin/*": admin, "/api/*": admin, "/*": f"{admin},{user}"}


@pytest.mark.parametrize(("release", "webapps"), [("5.7.0", ["/admin"]), ("5.8.0", ["/admin", "/api"])])
def test_console_and_where_the_release_has_it_the_api_are_served_and_nothing_else(
    release: str, webapps: list[str]
) -> None:
    contexts = beans(files(release)["conf/jetty.xml"], "WebAppContext")

    assert [properties_of(c)["contextPath"] for c in contexts] == webapps


@pytest.mark.parametrize(
    ("release", "package"), [("5.5.1", "org.eclipse.jetty.http.security"), ("5.6.0", "org.eclipse.jetty.util.security")]
)
def test_the_constraint_is_of_the_class_that_the_jetty_of_the_line_has(release: str, package: str) -> None:
    assert {b.get("class") for b in beans(files(release)["conf/jetty.xml"], "Constraint")} == {f"{package}.Constraint"}


def test_from_6_3_address_and_port_are_properties_and_the_login_a_file_of_ours() -> None:
    found = files("6.3.1", console_bind="192.0.2.7", port_offset=10)

    assert sorted(found) == [
        "conf/groups.properties",
        "conf/jetty-spring.properties",
        "conf/jetty-spring.xml",
        "conf/jetty/jetty-security.xml",
        "conf/login.config",
        "conf/users.properties",
    ]
    settings = entries(found["conf/jetty-spring.properties"], "=")
    assert settings["jetty.http.host"] == "192.0.2.7"
    assert settings["jetty.http.port"] == "8171"
    assert settings["httpsEnabled"] == "false"
    assert "jetty-security.xml" in settings["jettyXmlFiles"].split(",")


def test_from_6_3_each_path_names_its_roles() -> None:
    root = etree.fromstring(files("6.3.1")["conf/jetty/jetty-security.xml"])
    puts = root.iterfind(".//Call[@name='put']")

    assert {p.findtext("Arg"): [i.text for i in p.iter("Item")] for p in puts} == {
        "/admin/*": ["admins"],
        "/api/*": ["admins"],
        "/*": ["admins", "users"],
    }


@pytest.mark.parametrize("release", ["5.18.3", "6.3.1"])
def test_without_a_console_there_is_no_file_of_it(release: str) -> None:
    assert files(release, console=False) == {}


def test_admins_have_the_role_admin_and_all_others_the_role_user() -> None:
    found = files(reveal=True)["conf/jetty-realm.properties"]

    assert entries(found, ":") == {"ops": "sesame,admin", "app": "open,user"}


def test_the_network_user_has_no_account_in_the_console() -> None:
    assert b"net" not in files(reveal=True)["conf/jetty-realm.properties"].replace(b"activemq.fleet", b"")


def test_from_6_0_accounts_are_those_of_jaas() -> None:
    found = files("6.0.1", reveal=True)

    assert entries(found["conf/users.properties"], "=") == {"ops": "sesame", "app": "open"}
    assert entries(found["conf/groups.properties"], "=") == {"admins": "ops", "users": "app"}
    assert found["conf/login.config"].startswith(b"activemq {")
    assert "conf/jetty-realm.properties" not in found


@pytest.mark.parametrize(
    ("release", "accounts"), [("5.18.3", "conf/jetty-realm.properties"), ("6.2.9", "conf/users.properties")]
)
def test_without_users_nobody_can_log_in_and_the_files_say_so(release: str, accounts: str) -> None:
    found = files(release, users=[], reveal=True)

    assert entries(found[accounts], ":" if "realm" in accounts else "=") == {}
    assert b"no user can log in" in found[accounts]
    assert b"No user can log in" in found["conf/jetty.xml"]


@pytest.mark.parametrize("release", ["5.18.3", "6.3.1"])
def test_secrets_stand_as_variables_until_they_are_deployed(release: str) -> None:
    everything = b"".join(files(release).values())

    assert b"sesame" not in everything
    assert b"@activemq_users[0].password@" in everything


@pytest.mark.parametrize("release", ["5.18.3", "6.3.1"])
def test_files_with_passwords_are_not_for_everyone(release: str) -> None:
    secret = [path for path, data in files(release, reveal=True).items() if b"sesame" in data]

    assert secret
    assert [file_mode_of(path) for path in secret] == [0o640]


def test_a_password_with_a_comma_is_written_in_jettys_own_encoding() -> None:
    # The pair is Jetty's: the release's sample keystore of 6.3.1 has it for the word password.
    assert console._obfuscate("password") == "1v2j1uum1xtv1zej1zer1xtn1uvk1v1v"

    found = files(users=[{**OPS, "password": "one,two"}], reveal=True)["conf/jetty-realm.properties"]
    assert entries(found, ":")["ops"] == f"OBF:{console._obfuscate('one,two')},admin"


@pytest.mark.parametrize("password", ["OBF:1v1v", "één,twee"])
def test_a_password_that_jetty_cannot_hold_is_refused_in_one_line(password: str) -> None:
    with pytest.raises(SettingsError) as error:
        files(users=[{**OPS, "password": password}], reveal=True)

    assert str(error.value).startswith("o-mq01-a.example.com: activemq_users[0].password ")
    assert password not in str(error.value)


def test_a_password_that_only_jetty_cannot_hold_is_good_for_a_release_with_jaas() -> None:
    found = files("6.2.9", users=[{**OPS, "password": "OBF:1,v"}], reveal=True)["conf/users.properties"]

    assert entries(found, "=") == {"ops": "OBF:1,v"}


PRINTABLE = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1)


@given(PRINTABLE.filter(lambda text: not text.startswith("OBF:")))
def test_jetty_reads_every_ascii_password_back(password: str) -> None:
    written = console._realm_password(password, "h: v")

    # As PropertyUserStore and Password do: up to the first comma, stripped, then decoded.
    read = f"{written},admin".partition(",")[0].strip()
    assert not read.startswith(("MD5:", "CRYPT:"))
    assert (deobfuscated(read.removeprefix("OBF:")) if read.startswith("OBF:") else read) == password


def deobfuscated(text: str) -> str:
    numbers = [int(text[i : i + 4], 36) for i in range(0, len(text), 4)]
    return "".join(chr((n // 256 + n % 256 - 254) // 2) for n in numbers)


@pytest.mark.parametrize(
    ("release", "expected"), [("5.18.3", False), ("5.19.1", True), ("6.1.6", False), ("6.3.1", True)]
)
def test_foreign_scripts_are_forbidden_where_the_console_has_none_of_its_own_inline(
    release: str, expected: bool
) -> None:
    assert (b"Content-Security-Policy" in b"".join(files(release).values())) is expected


@pytest.mark.parametrize("release", ["5.18.3", "5.5.1"])
def test_the_console_has_an_account_of_its_own_for_the_broker(release: str) -> None:
    data = render_broker(broker(release), reveal=True)["conf/credentials.properties"]

    assert {"activemq.username": "ops", "activemq.password": "sesame"}.items() <= entries(data, "=").items()


def test_without_an_admin_the_console_has_an_empty_account_instead_of_none() -> None:
    data = render_broker(broker(users=[APP]))["conf/credentials.properties"]

    assert {"activemq.username": "", "activemq.password": ""}.items() <= entries(data, "=").items()


def test_the_same_broker_gives_the_same_bytes() -> None:
    assert files("6.3.1") == files("6.3.1")
