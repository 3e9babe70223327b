"""The parser of the agent's configuration, and its error messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from activemq_agent.agent_errors import ConfigError
from activemq_agent.config import KEYS, Config, format_value
from activemq_agent.config_parser import read_config
from activemq_agent.config_values import Endpoint
from activemq_agent.connecting import ConnectionSettings

GOLDEN = Path(__file__).parents[2] / "golden/examples"


def read(directory: Path, *lines: str, mode: int = 0o640, **environment: str) -> Config:
    path = directory / "agent.conf"
    path.write_text("[agent]\n" + "\n".join(lines) + "\n")
    path.chmod(mode)
    return read_config(path, environment)


def configuration_errors(directory: Path, *lines: str, **other: object) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as raised:
        read(directory, *lines, **other)  # type: ignore[arg-type]
    return tuple(problem.replace(f"{directory}/", "") for problem in raised.value.problems)


def test_agent_configuration_requires_only_broker_addresses(tmp_path: Path) -> None:
    config = read(tmp_path, "mb.urls = a:1883, b:1884")
    assert config.urls == (Endpoint("a", 1883), Endpoint("b", 1884))
    assert (config.publisher_timeout, config.publisher_window, config.policy) == (900, 100, ConnectionSettings())
    assert config.socket == config.state_directory / "agent.sock"
    assert config.agent == config.client_id


def test_agent_conf_accepts_broker_addresses_with_tls_and_ipv6(tmp_path: Path) -> None:
    config = read(tmp_path, "mb.urls = ssl://a:8883,[::1]:1883")
    assert config.urls == (Endpoint("a", 8883, tls=True), Endpoint("::1", 1883))
    assert format_value(config.urls) == "ssl://a:8883,[::1]:1883"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/hosts/*/agent.conf")), ids=lambda path: path.parent.name)
def test_agent_accepts_each_rendered_agent_conf(path: Path, tmp_path: Path) -> None:
    (tmp_path / "mb.password").write_text("secret\n")
    (tmp_path / "mb.password").chmod(0o640)
    configuration = "\n".join(
        f"mb.password.file = {tmp_path}/mb.password" if line.startswith("mb.password.file") else line
        for line in path.read_text().splitlines()
    )
    (tmp_path / "agent.conf").write_text(configuration)
    config = read_config(tmp_path / "agent.conf", {})
    assert config.urls
    assert config.topics
    assert config.password is not None


def test_agent_conf_accepts_each_documented_key(tmp_path: Path) -> None:
    """The manual is generated from the table, so the parser must accept each key of the table."""
    for name in ("secret", "ca", "cert"):
        (tmp_path / name).write_text("x\n")
        (tmp_path / name).chmod(0o600)
    special = {
        "mb.urls": "ssl://a:1", "mb.username": "u", "topics": "a/#,b", "metrics.address": "localhost:9",
        "client.id": "c", "agent.name": "d", "socket": "s.sock", "mb.password.file": "secret",
        "tls.certificate": "cert", "tls.key": "cert", "tls.ca": "ca", "handlers": "h",
        "tls.certificate.names": "10.0.0.1=a.example.com,10.0.0.2=b.example.com",
    }  # fmt: skip
    lines = {key.name: special.get(key.name) or format_value(key.default) for key in KEYS if key.name != "mb.password"}
    config = read(tmp_path, *(f"{name} = {text}" for name, text in lines.items()))
    read_values = {key.name: format_value(key.value_in(config)).removeprefix(f"{tmp_path}/") for key in KEYS}
    assert read_values == {**lines, "mb.password": "********"}


def test_all_errors_of_agent_conf_are_reported_together_with_their_lines(tmp_path: Path) -> None:
    assert configuration_errors(
        tmp_path,
        "mb.urls = a:1883,tcp://b:1883",
        "mb.publisher.timeout = soon",
        "mb.publisher.window = 0",
        "topics = a/#/b",
        "client.id = my agent",
        "publisher.envelope = maybe",
        "ready.when = now",
        "connecting.cap = -1",
    ) == (
        "agent.conf:2: mb.urls: the address 'tcp://b:1883' has the scheme tcp://, which is not supported: write "
        "HOST:PORT without TLS, or ssl://HOST:PORT with TLS",
        (
            "agent.conf:3: the value 'soon' of the key mb.publisher.timeout of agent.conf is not a number: "
            "write a number, such as 30"
        ),
        ("agent.conf:4: the value 0 of the key mb.publisher.window of agent.conf is too small: write at least 1"),
        (
            "agent.conf:5: the entry 'a/#/b' in the key topics of agent.conf is not an MQTT topic filter: use "
            "# only as the "
            "complete last level, such as orders/#"
        ),
        (
            "agent.conf:6: the value 'my agent' of the key client.id of agent.conf is not a valid name: use "
            "only ASCII "
            "letters, digits and . _ : -"
        ),
        (
            "agent.conf:7: the value 'maybe' of the key publisher.envelope of agent.conf is not permitted: "
            "write true or false"
        ),
        (
            "agent.conf:8: the value 'now' of the key ready.when of agent.conf is not permitted: write "
            "'outbox' or 'subscription'"
        ),
        (
            "agent.conf:9: the value '-1' of the key connecting.cap of agent.conf is not permitted: write a "
            "number of "
            "seconds above 0 and at most 86400"
        ),
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            "mb.user = x",
            (
                "the agent does not support the key 'mb.user' of agent.conf: if you mean the key "
                "mb.username, correct the spelling; otherwise remove this line of agent.conf"
            ),
        ),
        (
            "mb_password_file = x",
            (
                "the agent does not support the key 'mb_password_file' of agent.conf: if you "
                "mean the key mb.password.file, correct the spelling; otherwise remove this line of agent.conf"
            ),
        ),
        (
            "zzz = 1",
            (
                "the agent does not support the key 'zzz' of agent.conf: remove this line of agent.conf, "
                "or use a key that "
                "`activemq-fleet help agent` lists"
            ),
        ),
        ("mb.urls = b:1", "agent.conf sets the key mb.urls twice, in lines 2 and 3: remove one of these lines"),
        ("just words", "this line of agent.conf is neither 'key = value' nor a comment: correct or remove the line"),
        (
            "tls.key = x",
            "the key tls.key of agent.conf has no effect without tls.certificate: set tls.certificate, or remove "
            "tls.key",
        ),
        (
            "tls.ca = x",
            "the key tls.ca of agent.conf has no effect, because no entry of mb.urls begins with ssl://: remove "
            "tls.ca, or write ssl:// in mb.urls",
        ),
        (
            "mb.password = x",
            "the key mb.password of agent.conf has no effect without mb.username: set mb.username, or remove "
            "mb.password",
        ),
        (
            "mb.publisher.timeout = nan",
            (
                "the value 'nan' of the key mb.publisher.timeout of agent.conf is not a number: write a "
                "number, such as 30"
            ),
        ),
        (
            "mb.publisher.timeout = inf",
            (
                "the value 'inf' of the key mb.publisher.timeout of agent.conf is not a number: write a "
                "number, such as 30"
            ),
        ),
        (
            "mb.publisher.timeout = 0",
            "the value '0' of the key mb.publisher.timeout of agent.conf is too small: write a number above 0",
        ),
        (
            "mb.publisher.timeout = 31536001",
            ("the value 31536001.0 of the key mb.publisher.timeout of agent.conf is too large: write at most 31536000"),
        ),
        (
            "drain.seconds = -1",
            "the value -1.0 of the key drain.seconds of agent.conf is too small: write at least 0",
        ),
        (
            "mb.publisher.window = 10001",
            ("the value 10001 of the key mb.publisher.window of agent.conf is too large: write at most 10000"),
        ),
        (
            f"outbox.rows = {'9' * 5000}",
            (
                f"the number in the key outbox.rows of agent.conf, which begins with {'9' * 40}, has more "
                "than 100 digits: "
                "write a smaller number"
            ),
        ),
        (
            "log.level = loud",
            (
                "the value 'loud' of the key log.level of agent.conf is not permitted: write 'debug', "
                "'info', 'warning' or 'error'"
            ),
        ),
        (
            f"client.id = {'x' * 201}",
            (
                f"the name in the key client.id of agent.conf, which begins with '{'x' * 40}', has 201 "
                "characters: use at most 200"
            ),
        ),
        (
            "tls.certificate.names = a",
            "the key tls.certificate.names of agent.conf has no effect, because no entry of mb.urls begins "
            "with ssl://: remove tls.certificate.names, or write ssl:// in mb.urls",
        ),
        (
            "metrics.address = x",
            "metrics.address: the address 'x' has no valid host and port: write HOST:PORT, and an IPv6 address "
            "in brackets, such as [::1]:1883",
        ),
        (
            "connecting.keepalive = 1.5",
            "the value '1.5' of the key connecting.keepalive of agent.conf is not a whole number: write a "
            "number without a "
            "fraction, such as 30",
        ),
        (
            "connecting.fast.pause = 0,1",
            (
                "the value '0,1' of the key connecting.fast.pause of agent.conf is not permitted: write a "
                "number of seconds "
                "above 0 and at most 86400"
            ),
        ),
        (
            "connecting.base = 31",
            (
                "the value 31 of the key connecting.base of agent.conf is larger than the value 30 of "
                "connecting.cap: decrease "
                "connecting.base, or increase connecting.cap"
            ),
        ),
        (
            "connecting.steady = 1.5",
            "the value 1.5 of the key connecting.steady of agent.conf is too large: write at most 1",
        ),
        (
            "connecting.canary.timeout = 16",
            "the value 16 of the key connecting.canary.timeout of agent.conf is larger than the "
            "value 15 of connecting.canary.interval: decrease connecting.canary.timeout, or increase "
            "connecting.canary.interval",
        ),
        (
            "mb.publisher.window = 1.5",
            (
                "the value '1.5' of the key mb.publisher.window of agent.conf is not a whole number: write a "
                "number without "
                "a fraction, such as 30"
            ),
        ),
        (
            "connecting.fast.pause = 1",
            "the value '1' of the key connecting.fast.pause of agent.conf is not a pair of numbers: "
            "write the shortest and "
            "the longest pause between two attempts to connect, in seconds, such as 0.5,5",
        ),
        (
            "connecting.fast.pause = 2,1",
            (
                "the first number of the key connecting.fast.pause of agent.conf is larger than the "
                "second: write the shortest pause between two attempts to connect, then the longest, such as 0.5,5"
            ),
        ),
        (
            "connecting.cap = 0",
            (
                "the value '0' of the key connecting.cap of agent.conf is not permitted: write a number of "
                "seconds above 0 "
                "and at most 86400"
            ),
        ),
        (
            "topics = a,a",
            "the list in the key topics of agent.conf contains the entry a twice: remove one of these entries",
        ),
        (
            "client.id = x\n y",
            (
                "the value of the key client.id of agent.conf has several lines, but this key "
                "accepts only one line: write the "
                "value "
                "on one line"
            ),
        ),
        (
            "[other]",
            (
                "agent.conf has the section [other], but only the section [agent] is permitted: move its keys to the "
                "section [agent]"
            ),
        ),
    ],
)
def test_error_of_agent_conf_names_line_and_key(tmp_path: Path, line: str, problem: str) -> None:
    assert configuration_errors(tmp_path, "mb.urls = a:1", line)[0] == f"agent.conf:3: {problem}"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            b"mb.urls = a:1\n",
            ("agent.conf:1: the section [agent] of agent.conf is missing: write [agent] as the first line of the file"),
        ),
        (
            b"",
            ("agent.conf: the section [agent] of agent.conf is missing: write [agent] as the first line of the file"),
        ),
        (
            b"[agent]\n",
            (
                "agent.conf: the key mb.urls of agent.conf is missing, so the agent has no broker: list the MQTT "
                "addresses of both brokers, such as mb.urls = host1:1883,host2:1883"
            ),
        ),
        (
            b"[agent]\nmb.urls =\n",
            "agent.conf:2: the list of brokers in the key mb.urls of agent.conf is empty: name at least one "
            "broker, such "
            "as mb.urls = host1:1883,host2:1883",
        ),
        (
            b"[agent]\nmb.urls = \xff\n",
            "agent.conf:2: this line of the agent's configuration is not UTF-8 text: save the file in UTF-8",
        ),
    ],
)
def test_agent_conf_without_section_brokers_or_utf8_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "agent.conf"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as raised:
        read_config(path, {})
    assert raised.value.problems == (f"{tmp_path}/{problem}",)


def test_error_of_missing_agent_conf_names_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read \(No such file or directory\): check that the file"):
        read_config(tmp_path / "none.conf", {})


def test_agent_configuration_error_has_exit_code_2() -> None:
    assert ConfigError("x").exit_code == 2


class TestPasswords:
    def test_password_file_next_to_agent_conf_is_read(self, tmp_path: Path) -> None:
        (tmp_path / "pw").write_text(" a b#;% \n")
        (tmp_path / "pw").chmod(0o640)
        config = read(tmp_path, "mb.urls = a:1", "mb.username = u", "mb.password.file = pw")
        assert config.password is not None
        assert config.password.text == " a b#;% "

    @pytest.mark.parametrize("mode", [0o644, 0o604, 0o602])
    def test_password_file_open_to_all_users_is_refused(self, tmp_path: Path, mode: int) -> None:
        (tmp_path / "pw").write_text("x\n")
        (tmp_path / "pw").chmod(mode)
        (line,) = configuration_errors(tmp_path, "mb.urls = a:1", "mb.username = u", "mb.password.file = pw")
        assert line.startswith(
            "agent.conf:4: mb.password.file: the file pw contains a password, but every user of this host "
            "can read or change the file: run chmod"
        )

    def test_agent_conf_with_password_open_to_all_users_is_refused(self, tmp_path: Path) -> None:
        lines = ("mb.urls = a:1", "mb.username = u", "mb.password = x")
        assert (
            "the file agent.conf contains a password, but every user of this host can read or change the file"
            in configuration_errors(tmp_path, *lines, mode=0o644)[0]
        )
        assert read(tmp_path, *lines, mode=0o640).password is not None

    @pytest.mark.parametrize("content", ["", "\n", "a\nb\n", "a\0b"])
    def test_password_file_without_exactly_one_line_is_refused(self, tmp_path: Path, content: str) -> None:
        (tmp_path / "pw").write_text(content)
        (tmp_path / "pw").chmod(0o600)
        (line,) = configuration_errors(tmp_path, "mb.urls = a:1", "mb.username = u", "mb.password.file = pw")
        assert line.endswith(
            "the password file pw is empty, or contains more than one line: write only the password into it, on "
            "one line"
        )

    def test_error_names_missing_password_file_of_agent(self, tmp_path: Path) -> None:
        (line,) = configuration_errors(tmp_path, "mb.urls = a:1", "mb.username = u", "mb.password.file = pw")
        assert line == (
            "agent.conf:4: mb.password.file: the password file pw cannot be read (No such file or directory): "
            "correct this path, or let the agent's user read the file"
        )

    def test_password_in_systemd_credential_requires_no_key_in_agent_conf(self, tmp_path: Path) -> None:
        (tmp_path / "mb.password").write_text("from systemd")
        (tmp_path / "mb.password").chmod(0o400)
        config = read(tmp_path, "mb.urls = a:1", "mb.username = u", CREDENTIALS_DIRECTORY=str(tmp_path))
        assert config.password is not None
        assert config.password.text == "from systemd"

    def test_agent_conf_with_two_sources_of_password_is_refused(self, tmp_path: Path) -> None:
        errors = configuration_errors(
            tmp_path, "mb.urls = a:1", "mb.username = u", "mb.password = x", "mb.password.file = pw", mode=0o600
        )
        assert errors == (
            "agent.conf:5: mb.password.file: the keys mb.password and mb.password.file of agent.conf are both "
            "set, but the agent uses only one password: remove one of these keys",
        )

    def test_password_is_absent_from_representations_of_configuration(self, tmp_path: Path) -> None:
        config = read(tmp_path, "mb.urls = a:1", "mb.username = u", "mb.password = hidden", mode=0o600)
        assert "hidden" not in f"{config!r} {config}"
        assert "hidden" not in " ".join(format_value(key.value_in(config)) for key in KEYS)
