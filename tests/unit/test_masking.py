"""The masker: it replaces every secret in every position, and does not change other text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activemq_fleet.deployment import files_to_deploy
from activemq_fleet.node import masking
from activemq_fleet.node import masking as on_hosts
from activemq_fleet.node.masking import (
    KnownSecret,
    KnownSecrets,
    mask_and_shorten,
    mask_command_line,
    mask_configuration_file_text,
    mask_json_value,
    mask_text,
    reason_to_omit_from_evidence,
    secrets_from_masked_text,
)
from activemq_fleet.topology import Agent, Broker, build_fleet
from tests.unit.fleets import hosts

CANARY = "canary-7Yb2"
RELEASES = ("5.5.1", "5.8.0", "5.14.5", "5.17.6", "5.18.3", "6.0.1", "6.3.1")

PLACES = {
    "activemq.xml": [
        '<authenticationUser username="x" password="{}" groups="y"/>',
        "<authenticationUser username='x' password='{}'/>",
        '<property name="password" value="{}"/>',
        '<property value="{}" name="connectionPassword"/>',
        '<property\n  name="password"\n  value="{}"\n/>',
        '<property name="password"><value>{}</value></property>',
        '<property name="dbPassword">\n  <value><![CDATA[{}]]></value></property>',
        '<entry key="secret" value="{}"/>',
        '<entry key="my.password"><value>{}</value></entry>',
        "<password>{}</password>",
        "<amq:password a='b'>{}</amq:password>",
        '<networkConnector uri="static:(tcp://net:{}@other:61616)"/>',
        '<networkConnector uri="static:(nio://b:1?wireFormat.x=1&amp;jms.password={}&amp;y=2)"/>',
        '<property name="url" value="jdbc:mysql://db/x?user=u&amp;password={}"/>',
        '<property name="url" value="jdbc:oracle:thin:scott/{}@db:1521:x"/>',
        '<!-- <authenticationUser username="x" password="{}"/> -->',
        '<property name="keyStorePassword" value="ENC({})"/>',
        '<sslContext keyStore="a.ks" keyStorePassword="{}" trustStorePassword="{}"/>',
        '<broker><a b="<"/><x password="{}"',  # a file that an editor truncated
    ],
    "credentials.properties": ["activemq.password={}", "guest.password = {}", "foo: {}", "#old.password={}", "x={},y"],
    "users.properties": ["till={}", "# till = {}", "till={}\\\n  {}", "till={} two words {}"],
    "jetty-realm.properties": ["admin: {}, admin", "admin: MD5:{},admin", "#admin: {}"],
    "jmx.password": ["admin {}", "# admin {}"],
    "mb.password": ["{}", "# {}", "two {} words"],
    "agent.conf": ["mb.password = {}", "mb.password={} and {}", "tls.key.passphrase: {}"],
    "other.properties": ["my.password   {}", "db.secret={}; rest {}", "  api-key: {}", "url=amqp://u:{}@h/"],
    "shiro.ini": ["[main]\nx = y\n[users]\nadmin = {}, admin\n[roles]\nadmin = *"],
    "login.config": ['connectionPassword="{}"', "connectionPassword={};"],
    "settings.yml": ["password: {}", 'password: "{}"', "- {{password: '{}', name: x}}"],
    "setenv": [
        'ACTIVEMQ_OPTS="$ACTIVEMQ_OPTS -Djavax.net.ssl.keyStorePassword={} -Dx=y"',
        'ACTIVEMQ_ENCRYPTION_PASSWORD="{} {}"',
        "export ACTIVEMQ_ENCRYPTION_PASSWORD={}",
    ],
    "activemq.service": [
        "Environment=ACTIVEMQ_ENCRYPTION_PASSWORD={}",
        'Environment="A_PASSWORD={} with {}" B=c',
        "ExecStop=/opt/activemq/bin/activemq stop --jmxuser x --jmxpassword {}",
    ],
    "server.pem.txt": ["-----BEGIN RSA PRIVATE KEY-----\n{}\n{}\n-----END RSA PRIVATE KEY-----"],
    "log": [
        "Could not connect to tcp://net:{}@other:61616",
        "failed: (nio://b:1?jms.userName=x&jms.password={})",
        '{{"event": "x", "password": "{}", "n": 1}}',
        '{{"argument": "{{\\"password\\": \\"{}\\"}}"}}',
        "argv[]=/usr/bin/java -Dkey.password={} ; x",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("path", "line"), [(path, line) for path, lines in PLACES.items() for line in lines])
def test_unknown_secret_is_masked_in_every_place_of_configuration(path: str, line: str) -> None:
    file_text = f"first line\n{line.replace('{}', CANARY).replace('{{', '{').replace('}}', '}')}\nlast"

    masked = mask_configuration_file_text(f"conf/{path}", file_text)

    assert CANARY not in masked
    assert path.endswith(".password") or masked.startswith("first line\n")
    assert mask_configuration_file_text(f"conf/{path}", masked) == masked


SINGLE_SECRETS = [
    (path, line)
    for path, lines in PLACES.items()
    for line in lines
    if line.count("{}") == 1 and not any(context in line for context in ("KEY-", "{},y", "MD5", "two {}", "ENC"))
]
"""Places in which the secret is not part of a longer secret."""


@pytest.mark.parametrize(("path", "line"), SINGLE_SECRETS)
def test_known_secret_is_replaced_by_its_variable(path: str, line: str) -> None:
    known = KnownSecrets([KnownSecret(CANARY, "activemq_x.password")])
    file_text = f"first line\n{line.replace('{}', CANARY).replace('{{', '{').replace('}}', '}')}\nlast"

    masked = mask_configuration_file_text(f"conf/{path}", file_text, known)

    assert CANARY not in masked
    assert "@activemq_x.password@" in masked or line == "# {}"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("conf/activemq.xml", '<x password="${activemq.network.password}"/>'),
        ("conf/activemq.xml", '<x passwordEncryptor="#encryptor" password="#bean"/>'),
        ("conf/activemq.xml", '<property name="passwordFile" value="/etc/jmx.password"/>'),
        ("conf/activemq.xml", "<value>file:${activemq.conf}/credentials.properties</value>"),
        ("conf/activemq.xml", '<networkConnector uri="masterslave:(tcp://a:61616,tcp://b:61616)"/>'),
        ("conf/credentials.properties", "activemq.username=till\nactivemq.password=\n"),
        ("agent.conf", "mb.password.file = /etc/activemq-agent/mb.password\n"),
        ("log", "2026-11-21 05:22:44,001 | WARN  | User name [null] or password is invalid. | x | main\n"),
        ("log", "Transport Connection to: tcp://127.0.0.1:47178@61616 failed: java.io.EOFException"),
        ("log", "connected to nio://other/10.0.0.1:61616@40001"),
        ("log", '{"kind":"accepted","event_id":"a:1-2:3","topic":"x/password/y"}'),
    ],
)
def test_text_without_secret_is_unchanged(path: str, text: str) -> None:
    assert mask_configuration_file_text(path, text) == text


def test_secret_that_is_plain_word_is_masked_only_as_password() -> None:
    known = KnownSecrets([KnownSecret("activemq", "activemq_users[0].password")])

    assert (
        mask_configuration_file_text("credentials.properties", "a.password=activemq\n", known)
        == "a.password=@activemq_users[0].password@\n"
    )
    assert mask_text("org.apache.activemq started", known) == "org.apache.activemq started"
    assert known.word_like_secret_count == 1


def test_known_secret_is_masked_in_any_text_and_escape() -> None:
    known = KnownSecrets([KnownSecret(r"p\=ss<1> &2", "activemq_x")])

    for text in (r"p\=ss<1> &2", "p=ss<1> &2", "p=ss&lt;1&gt; &amp;2", "p%3Dss%3C1%3E%20%262"):
        assert mask_text(f"the log says {text} here", known) == "the log says @activemq_x@ here"


def test_secrets_with_same_value_are_masked_by_variable_of_their_place() -> None:
    known = KnownSecrets(
        [KnownSecret(CANARY, "activemq_a", "one.password="), KnownSecret(CANARY, "activemq_b", "two.password=")]
    )

    masked = mask_configuration_file_text(
        "credentials.properties", f"one.password={CANARY}\ntwo.password={CANARY}\n", known
    )

    assert masked == "one.password=@activemq_a@\ntwo.password=@activemq_b@\n"


def test_secret_that_begins_with_known_secret_is_masked_completely() -> None:
    known = KnownSecrets([KnownSecret(CANARY, "activemq_x")])

    assert (
        mask_configuration_file_text("credentials.properties", f"a.password={CANARY}-more\n", known)
        == "a.password=@secret@\n"
    )


def test_command_line_is_masked_word_by_word() -> None:
    words = ["java", f"-Dx.password={CANARY} and more", "--jmxpassword", CANARY, "-Dactivemq.base=/x", "start"]

    assert mask_command_line(words) == [
        "java", "-Dx.password=@secret@", "--jmxpassword", "@secret@", "-Dactivemq.base=/x", "start",
    ]  # fmt: skip


def test_texts_in_json_are_masked() -> None:
    assert mask_json_value({"how": [f"nio://u:{CANARY}@h"], "n": 1}) == {"how": ["nio://u:@secret@@h"], "n": 1}


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("conf/broker.ks", b"text"),
        ("conf/x.P12", b"text"),
        ("conf/server.pem", b"-----BEGIN"),
        ("conf/renamed", b"\xfe\xed\xfe\xed\0"),
        ("conf/renamed", b"0\x82\x01"),
        ("conf/some.bin", b"a\0b"),
        ("conf/latin", b"\xff\xfe"),
    ],
)
def test_collect_omits_key_stores_keys_and_binary_files(path: str, content: bytes) -> None:
    assert reason_to_omit_from_evidence(path, content)


def fleet_with_secrets(release: str) -> list[Broker | Agent]:
    """Return the nodes of a fleet in which each secret is a different canary with characters that files escape."""
    pure = release == "5.5.1"
    variables_by_host = hosts("orders-mq01", "orders-mq02", release=release, **({"ha": "pure"} if pure else {}))
    for variables in variables_by_host.values():
        variables |= {
            "activemq_network_password": "canary net=1 é",
            "activemq_users": [
                {"name": "till", "password": "canary:till,#", "groups": ["admins"]},
                {"name": "kiosk", "password": r"canary\kiosk!", "groups": ["users"]},
            ],
        }
    agents: dict[str, dict[str, object]] = {}
    if not pure:
        agents = {"kiosk-1": {"activemq_agent_group": "orders", "activemq_agent_username": "a"}}
        agents["kiosk-1"] |= {"activemq_agent_password": "canary agent", "activemq_release": release}
    fleet = build_fleet({**variables_by_host, **agents}, {"activemq_agents": list(agents)})
    return [*fleet.brokers, *fleet.agents]


@pytest.mark.parametrize("release", RELEASES)
def test_collected_files_are_masked_like_planned_files(release: str) -> None:
    """``collect`` masks the deployed bytes as the same masker masks the planned ones."""
    masked_files = 0
    for node in fleet_with_secrets(release):
        files = files_to_deploy(node)
        texts = {path: file.content.decode() for path, file in files.items()}
        planned = {
            path: text if (masked_content := files[path].masked) is None else masked_content
            for path, text in texts.items()
        }
        known = on_hosts.KnownSecrets(
            secret for path in files for secret in on_hosts.secrets_from_masked_text(planned[path], texts[path])
        )
        for path, text in texts.items():
            masked = on_hosts.mask_configuration_file_text(path, text, known)
            assert masked == masking.mask_configuration_file_text(path, planned[path])
            assert "canary" not in masked
            masked_files += text != masked
    assert masked_files >= 4


def test_both_masking_modules_have_same_source() -> None:
    assert masking.__file__ is not None
    with (
        open(masking.__file__, encoding="utf-8") as library_module,
        open(on_hosts.__file__, encoding="utf-8") as host_module,
    ):
        assert library_module.read() == host_module.read()


def test_secrets_are_read_from_lines_that_differ_only_in_secrets() -> None:
    masked = "# x\na.password=@activemq_a@\nb: @activemq_b[0].password@,user\nc=@activemq_c@\n"
    secrets = secrets_from_masked_text(masked, "# x\na.password=one\nb: two,user\nsomething else\n")

    assert [(secret.variable, secret.value) for secret in secrets] == [
        ("activemq_a", "one"),
        ("activemq_b[0].password", "two"),
    ]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300), st.sampled_from(sorted(PLACES)))
def test_masking_twice_equals_masking_once(text: str, path: str) -> None:
    masked = mask_configuration_file_text(path, text)
    assert mask_configuration_file_text(path, masked) == masked


@pytest.mark.parametrize(
    "uri", ["jdbc:oracle:thin:amq/Canary99@db1:1521/x", "failover:(tcp://app:Canary99@orders-mq01-b:61616)"]
)
def test_secret_at_end_of_shortened_text_is_masked(uri: str) -> None:
    texts = [mask_and_shorten("." * (300 - length) + " " + uri, 300) for length in range(len(uri))]
    assert [text for text in texts if "Can" in text] == []
    assert {len(text) for text in texts} == {300}
