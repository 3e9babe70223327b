"""Warnings about easily guessed passwords of an inventory: of accounts (S050) and of key stores (S019)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel

from activemq_fleet.cli.main import main
from activemq_fleet.errors import SettingsError
from activemq_fleet.findings import Finding, merged_finding_lines
from activemq_fleet.settings.encrypted import UndecryptedVaultValue
from activemq_fleet.settings.host_settings import HostSettings
from activemq_fleet.topology import build_fleet
from activemq_fleet.validation import check_fleet
from tests.unit.fleets import hosts

GROUPS = {"activemq_agents": ["kiosk1"], "activemq_loadbalancers": ["lb1"]}
STRONG = "vV3-kestrel-Okapi-71x"
JDBC = {"url": "jdbc:postgresql://db/activemq", "driver": "org.postgresql.Driver", "username": "mq"}


def inventory_with_passwords(password: object, path: str = "") -> dict[str, dict[str, Any]]:
    """Return hosts that set each password variable.

    With the ``path`` of a setting, all other passwords are strong.
    """

    def value(other_path: str) -> object:
        return password if path in ("", other_path) else STRONG

    stores = {name: value(f"tls.{name}") for name in ("keystore_password", "truststore_password")}
    metrics_store = {
        "keystore": "/etc/x.ks",
        "alias": "mq",
        "keystore_password": value("metrics_tls.keystore_password"),
    }
    brokers = hosts(
        "jdbc-mq01", ha="shared-jdbc", jdbc=JDBC | {"password": value("jdbc.password")}, network_password=STRONG
    ) | hosts(
        "orders-mq01",
        ha="shared-file",
        store_directory="/mnt/mq",
        fence="command",
        fence_command={"argv": ["/bin/off"], "secrets": {"POWER_TOKEN": value("fence_command.secrets{}")}},
        network_username="net",
        network_password=value("network_password"),
        probe_password=value("probe_password"),
        users=[{"name": "app", "password": STRONG}, {"name": "shop", "password": value("users[].password")}],
        jmx={"users": [{"name": "ops", "password": value("jmx.users[].password")}]},
        tls={"keystore": "/etc/x.ks", "truststore": "/etc/x.ts"} | stores,
        metrics=True,
        metrics_username="prometheus",
        metrics_password=value("metrics_password"),
        metrics_tls=metrics_store,
        vip="10.0.0.100",
    )
    agent = {"activemq_agent_group": "orders", "activemq_agent_username": "kiosk"}
    balancer = {"activemq_vip_interface": "eth0", "activemq_vip_username": "lb"}
    return brokers | {
        "kiosk1": agent | {"activemq_agent_password": value("agent_password")},
        "lb1": balancer | {"activemq_vip_password": value("vip_password")},
    }


def password_findings(inventory: dict[str, dict[str, Any]]) -> list[Finding]:
    findings = build_fleet(inventory, GROUPS).findings
    return [finding for finding in findings if finding.rule in ("S004", "S019", "S050")]


REPORTED = {
    "users[].password": ("S050", "activemq_users[1].password is an easily guessed password of the account shop"),
    "network_password": ("S050", "activemq_network_password is an easily guessed password of the account net"),
    "probe_password": ("S050", "activemq_probe_password is an easily guessed password of the account activemq-probe"),
    "jdbc.password": ("S050", "activemq_jdbc.password is an easily guessed password of the database account mq"),
    "jmx.users[].password": (
        "S050",
        "activemq_jmx.users[0].password is an easily guessed password of the JMX account ops",
    ),
    "fence_command.secrets{}": (
        "S050",
        "activemq_fence_command.secrets.POWER_TOKEN is an easily guessed password of the fence command",
    ),
    "metrics_password": (
        "S050",
        "activemq_metrics_password is an easily guessed password of the metrics account prometheus",
    ),
    "agent_password": ("S050", "activemq_agent_password is an easily guessed password of the account kiosk"),
    "vip_password": ("S050", "activemq_vip_password is an easily guessed password of the account lb"),
    "tls.keystore_password": ("S019", "activemq_tls.keystore_password is an easily guessed password of the key store"),
    "tls.truststore_password": (
        "S019",
        "activemq_tls.truststore_password is an easily guessed password of the trust store",
    ),
    "metrics_tls.keystore_password": (
        "S019",
        "activemq_metrics_tls.keystore_password is an easily guessed password of the key store",
    ),
}
"""Rule and message by the path of a password in the settings."""


def secret_paths(annotation: Any, path: str = "", outer: tuple[object, ...] = ()) -> Iterator[str]:
    """Yield the path of each setting that the schema declares as a secret; [] and {} are entries."""
    arguments = get_args(annotation)
    if UndecryptedVaultValue in arguments:
        yield path
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items() if annotation not in outer else ():
            yield from secret_paths(field.annotation, f"{path}.{name}".lstrip("."), (*outer, annotation))
    else:
        ending = {tuple: "[]", dict: "{}"}.get(get_origin(annotation), "")
        for argument in arguments:
            yield from secret_paths(argument, f"{path}{ending}", outer)


def test_each_secret_of_settings_has_case_in_this_file() -> None:
    assert set(secret_paths(HostSettings)) == set(REPORTED)


@pytest.mark.parametrize("path", REPORTED)
def test_guessable_password_of_each_variable_is_warning_without_its_value(path: str) -> None:
    findings = password_findings(inventory_with_passwords("letmein", path))

    assert {(finding.rule, finding.message) for finding in findings} == {REPORTED[path]}
    assert {finding.severity for finding in findings} == {"warning"}
    assert "letmein" not in repr(findings)
    assert all(finding.message.split()[0] in finding.fix and "ansible-vault" in finding.fix for finding in findings)


def test_guessable_password_of_group_is_reported_once_in_text() -> None:
    lines = merged_finding_lines(password_findings(inventory_with_passwords("letmein", "users[].password")))

    assert lines == [
        "S050 orders-mq01-a.example.com, orders-mq01-b.example.com: activemq_users[1].password is an easily guessed "
        "password of the account shop. Set a long random password in activemq_users[1].password and in the clients, "
        "and encrypt the variable with ansible-vault"
    ]


@pytest.mark.parametrize(
    "password",
    [
        STRONG,
        UndecryptedVaultValue("$ANSIBLE_VAULT;1.1;AES256 6162"),
        "ENC(YWRtaW4=)",
        "missing-password-shop",
        "пароль-пароль",
        "pass word",
        "ａｄｍｉｎ-ａｄｍｉｎ",
    ],
    ids=ascii,
)
def test_password_that_is_strong_or_encrypted_is_not_reported(password: object) -> None:
    assert password_findings(inventory_with_passwords(password)) == []


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("shop", "qwerty"),
        ("shop", "admin123"),
        ("shop", "ADMIN"),
        ("shop", "shop"),
        ("shop", "Shop-2024"),
        ("Shop.App", "shop.app1"),
        ("shop", "a"),
        ("shop", "é"),
        ("shop", "\U0001f511"),
        ("shop", "12345"),
        ("shop", "١٢٣٤٥"),
        ("shop", " qwerty "),
        ("shop", "password1"),
    ],
    ids=ascii,
)
def test_guessable_password_of_user_is_reported(name: str, password: str) -> None:
    findings = password_findings(hosts("orders-mq01", users=[{"name": name, "password": password}]))

    assert {(finding.rule, finding.message) for finding in findings} == {
        ("S050", f"activemq_users[0].password is an easily guessed password of the account {name}")
    }
    assert len(findings) == 2


@pytest.mark.parametrize("password", ["", 12345, True, None, ["qwerty"], "{{ lookup('env', 'PASSWORD') }}"], ids=ascii)
def test_password_that_is_empty_no_text_or_unresolved_remains_error_of_settings(password: object) -> None:
    with pytest.raises(SettingsError, match="password") as error:
        build_fleet(hosts("orders-mq01", users=[{"name": "shop", "password": password}]))
    assert "qwerty" not in str(error.value)


@pytest.mark.parametrize("name", ["admin", "system"])
def test_default_password_that_settings_accept_is_warning_and_not_error(name: str) -> None:
    password = {"admin": "admin", "system": "manager"}[name]
    findings = password_findings(hosts("orders-mq01", jmx={"users": [{"name": name, "password": password}]}))

    assert {(finding.rule, finding.severity) for finding in findings} == {("S050", "warning")}


@pytest.mark.parametrize(
    "variables",
    [
        {"authentication": "none", "users": [{"name": "shop", "password": "qwerty"}], "network_password": "qwerty"},
        {"jdbc": JDBC | {"password": "qwerty"}},
        {"metrics_username": "prometheus", "metrics_password": "qwerty"},
        {"agent_username": "kiosk", "agent_password": "qwerty"},
        {"vip_username": "lb", "vip_password": "qwerty"},
        {"fence_command": {"argv": ["/bin/off"], "secrets": {"POWER_TOKEN": "qwerty"}}},
    ],
    ids=lambda variables: next(iter(variables)),
)
def test_password_that_host_does_not_use_is_not_reported(variables: Mapping[str, Any]) -> None:
    assert password_findings(hosts("orders-mq01", **variables)) == []


def test_secret_of_fence_command_that_is_no_password_is_not_reported() -> None:
    secrets = {"POWER_USER": "admin", "POWER_ADDRESS": "10", "POWER_PASSWORD": "admin"}
    findings = password_findings(
        hosts(
            "orders-mq01",
            ha="shared-file",
            store_directory="/mnt/mq",
            fence="command",
            fence_command={"argv": ["/bin/off"], "secrets": secrets},
        )
    )

    assert {finding.message.split()[0] for finding in findings} == {"activemq_fence_command.secrets.POWER_PASSWORD"}


def test_guessable_password_is_waived_and_selected_by_its_rule() -> None:
    waiver = {"rule": "S050", "reason": "a lab", "hosts": ["*-a.example.com"]}
    fleet = build_fleet(hosts("orders-mq01", users=[{"name": "shop", "password": "qwerty"}], waivers=[waiver]))

    assert [(finding.host[:13], finding.waived) for finding in check_fleet(fleet, schema_of=None, select=["S050"])] == [
        ("orders-mq01-a", "a lab"),
        ("orders-mq01-b", None),
    ]
    assert check_fleet(fleet, schema_of=None, select=["S019"]) == ()
    assert not fleet.blocking_findings


INVENTORY = """\
all:
  vars:
    activemq_release: 5.18.3
    activemq_authentication: simple
    activemq_users:
      - name: app
        password: vV3-kestrel-Okapi-71x
      - name: shop
        groups: [shops]
        password: PASSWORD
    activemq_jmx:
      users:
        - {name: app, password: vV3-kestrel-Okapi-71x}
        - {name: ops, password: hunter}
        - {name: dev, password: dev1}
  children:
    activemq_brokers:
      hosts: {orders-mq01-a.example.com: , orders-mq01-b.example.com: }
"""


@pytest.mark.parametrize("form", ["text", "json", "sarif", "junit", "codeclimate", "github"])
def test_check_reports_position_and_account_and_no_password_in_each_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(INVENTORY.replace("PASSWORD", "Letmein-77"))

    assert main(["check", "-i", str(path), "--no-config", "--select", "S050", "--format", form]) == 0
    output = capsys.readouterr().out
    assert "activemq_users[1].password is an easily guessed password of the account shop" in output
    assert not re.search("letmein", output, re.IGNORECASE)


def test_position_of_guessable_password_is_line_of_its_account(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(INVENTORY.replace("PASSWORD", "qwerty"))
    main(["check", "-i", str(path), "--no-config", "--select", "S050", "--format", "json"])
    findings = json.loads(capsys.readouterr().out)["findings"]

    assert {(finding["message"].split()[0], finding["line"]) for finding in findings} == {
        ("activemq_users[1].password", 8),
        ("activemq_jmx.users[2].password", 15),
    }


@pytest.mark.parametrize(("vault_password", "is_reported"), [("right", True), (None, False)])
def test_vaulted_password_is_judged_only_if_it_can_be_decrypted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], vault_password: str | None, is_reported: bool
) -> None:
    (tmp_path / "right").write_text("right\n")
    command = [str(Path(sys.executable).with_name("ansible-vault")), "encrypt_string", "--vault-password-file", "right"]
    encrypted = subprocess.run(
        [*command, "qwerty"], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout.strip()
    path = tmp_path / "hosts.yml"
    path.write_text(INVENTORY.replace("PASSWORD", encrypted.replace("\n", "\n      ")))
    options = ["--vault-password-file", str(tmp_path / "right")] if vault_password else []

    assert main(["check", "-i", str(path), "--no-config", "--select", "S050", *options]) == 0
    assert ("of the account shop" in capsys.readouterr().out) == is_reported
