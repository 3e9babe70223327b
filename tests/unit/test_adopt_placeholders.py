"""``adopt --properties``: the values of placeholders come from files, for all hosts or for one host."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from activemq_fleet.adopt import adopt_documents, read_adopted_documents
from activemq_fleet.adopt.placeholders import read_adjacent_credentials_properties, read_properties_by_host
from activemq_fleet.adopt.untrusted_companion_files import CompanionFiles
from activemq_fleet.cli.adopt import adopt_command
from activemq_fleet.errors import InputError
from activemq_fleet.naming import Naming
from tests.unit.adopt_files import document, write_files

HUB, EDGE = "hub-mq1-a", "edge-mq1-a"
CONNECTORS = (
    '<transportConnectors><transportConnector name="openwire" uri="tcp://0.0.0.0:61616"/></transportConnectors>'
)
BRIDGE = document(
    CONNECTORS
    + '<networkConnectors><networkConnector name="up" uri="static:(tcp://${PEER}:${PORT})"/></networkConnectors>'
)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Return files of two hosts, one with a bridge to placeholders."""
    return write_files(tmp_path / "files", {HUB: document(CONNECTORS), EDGE: BRIDGE})


def adopted_links(files: Path, *properties: str) -> object:
    """Return the variable activemq_links of the adopted files."""
    naming = Naming()
    adoption = adopt_documents(read_adopted_documents([str(files)], ["5.18.3"], naming, properties), naming)
    group_variables = yaml.safe_load(adoption.files["group_vars/all.yml"])
    return group_variables.get("activemq_links")


def test_bridge_to_placeholder_becomes_link_of_fleet_with_its_value(files: Path, tmp_path: Path) -> None:
    common_file, host_file = tmp_path / "env", tmp_path / "own"
    common_file.write_text("# where the hub is\nexport PORT=61616\nPEER: elsewhere\n\nUNUSED = x=y\n")
    host_file.write_text(f"PEER={HUB}\n")
    assert adopted_links(files) == [
        {"from": "edge-mq1", "to": "peer", "name": "up", "addresses": ["peer.invalid:61616"]}
    ]
    assert not adopted_links(files, str(host_file))
    assert adopted_links(files, str(common_file), f"{EDGE}={host_file}") == [
        {"from": "edge", "to": "hub", "name": "up"}
    ]


@pytest.mark.parametrize(
    ("uri", "addresses"),
    [
        ("${UP_URI}", ["up-uri.invalid:61616"]),
        ("static:(${UP_URI})", ["up-uri.invalid:61616"]),
        ("static:(ssl://${UP}?a=b)", ["ssl://up.invalid:61616"]),
        ("static:(tcp://${UP}:61617,tcp://${other.host}:7)", ["up.invalid:61617", "other-host.invalid:7"]),
        ("static:(tcp://${UP:up.example.com}:${PORT:7})", ["up.example.com:7"]),
        ("static:(tcp://up:${PORT})", None),
    ],
)
def test_bridge_to_undefined_placeholder_becomes_link_without_address(
    tmp_path: Path, uri: str, addresses: list[str] | None
) -> None:
    bridge = f'<networkConnectors><networkConnector name="up" uri="{uri}"/></networkConnectors>'
    files = write_files(tmp_path / "files", {EDGE: document(CONNECTORS + bridge)})
    adoption = adopt_documents(read_adopted_documents([str(files)], ["5.18.3"], Naming()), Naming())
    links = yaml.safe_load(adoption.files["group_vars/all.yml"]).get("activemq_links", [{"addresses": None}])
    assert [link["addresses"] for link in links] == [addresses]
    original_uris = [difference.original for difference in adoption.differences if difference.path.endswith("@uri")]
    assert original_uris == ([uri] if addresses else [])
    placeholder_notes = [note for note in adoption.notes if "no file defines the placeholder" in note]
    assert len(placeholder_notes) == (".invalid" in str(addresses))


@pytest.mark.parametrize(
    ("content", "argument", "expected_message"),
    [
        ("PEER=x\nno line\n", "{file}", "{file}:2: the line is not of the form NAME=VALUE"),
        ("", "{file}.away", "--properties {file}.away: the file cannot be read (No such file or directory)"),
        ("", "absent={file}", "no activemq.xml of the host absent was given: write FILE for all hosts, or HOST=FILE"),
        ("PEER=a\x01b", "{file}", "has a value with a character that XML does not permit"),
        ("", "", "the value '' of --properties contains no path: write FILE or HOST=FILE"),
        ("", f"{HUB}=", f"the value '{HUB}=' of --properties contains no path: write FILE or HOST=FILE"),
    ],
)
def test_invalid_properties_file_of_adopt_is_single_error(
    files: Path, tmp_path: Path, content: str, argument: str, expected_message: str
) -> None:
    file = tmp_path / "env"
    file.write_text(content)
    with pytest.raises(InputError) as error:
        adopted_links(files, argument.format(file=file))
    assert expected_message.format(file=file) in str(error.value)


def test_option_properties_does_not_copy_password_into_output(tmp_path: Path) -> None:
    account = '<authenticationUser username="app" password="${APP_PASSWORD}" groups="users"/>'
    plugin = f"<plugins><simpleAuthenticationPlugin><users>{account}</users></simpleAuthenticationPlugin></plugins>"
    files = write_files(tmp_path / "files", {HUB: document(plugin)})
    (tmp_path / "env").write_text("APP_PASSWORD=hunter2-hunter2\n")
    output = tmp_path / "inventory"
    arguments = [str(files), "--release", "5.18.3", "-o", str(output), "--properties", str(tmp_path / "env")]
    result = CliRunner().invoke(adopt_command, arguments)
    assert result.exit_code == 0, result.output
    assert "hunter2" not in result.output
    assert not [path for path in output.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]


def test_accounts_of_credentials_file_become_users_without_passwords(tmp_path: Path) -> None:
    users = (
        "<plugins><simpleAuthenticationPlugin><users>"
        '<authenticationUser username="${activemq.username}" password="${activemq.password}" groups="staff"/>'
        "</users></simpleAuthenticationPlugin></plugins>"
    )
    files = write_files(tmp_path / "files", {EDGE: document(CONNECTORS + users)})
    for file in files.rglob("activemq.xml"):
        file.with_name("credentials.properties").write_text(
            "# release\nactivemq.username=sys\\u0074em\nactivemq.password=s3cret-manager\nguest.password=ENC(x)\n"
        )
    adoption = adopt_documents(read_adopted_documents([str(files)], ["5.18.3"], Naming()), Naming())
    adopted_text = b"".join(adoption.files.values()).decode()
    [user] = yaml.safe_load(adoption.files["group_vars/all.yml"])["activemq_users"]
    assert (user["name"], user["groups"]) == ("system", ["staff"])
    assert "s3cret-manager" not in adopted_text
    assert "xml_fragments" not in adopted_text


def test_value_of_credentials_file_that_xml_cannot_hold_is_left_out(tmp_path: Path) -> None:
    content = "activemq.password=D4\\foo\nactivemq.username=sys\\\n  tem\n"
    (tmp_path / "credentials.properties").write_text(content)
    values = read_adjacent_credentials_properties(tmp_path / "activemq.xml", CompanionFiles(tmp_path))
    assert values == {"activemq.username": "system"}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_of_java_properties_file_that_ends_with_backslash_is_continued(tmp_path: Path, end: str) -> None:
    file = tmp_path / "my.properties"
    lines = ["# comment \\", "NET=static:(tcp://a:61616,\\", "  nio+ssl://b:61617)", "DIR=C:\\\\", "LAST=x\\", ""]
    file.write_bytes(end.join(lines).encode())
    assert read_properties_by_host([str(file)], [HUB])[HUB].values == {
        "NET": "static:(tcp://a:61616,nio+ssl://b:61617)",
        "DIR": "C:\\",
        "LAST": "x",
    }


def test_number_of_invalid_line_after_continued_line_is_correct(tmp_path: Path) -> None:
    file = tmp_path / "my.properties"
    file.write_text("A=b\\\nc\nno value\n")
    with pytest.raises(InputError, match=r"my\.properties:3: the line is not of the form"):
        read_properties_by_host([str(file)], [HUB])


def test_property_given_to_adopt_replaces_placeholder_that_has_default(tmp_path: Path) -> None:
    store = '<persistenceAdapter><kahaDB directory="${STORE:/data}/kahadb"/></persistenceAdapter>'
    write_files(tmp_path / "files", {HUB: document(store)})
    properties_file = tmp_path / "values"
    properties_file.write_text("STORE=/srv/store\n")
    naming = Naming()
    documents = read_adopted_documents([str(tmp_path / "files")], ["5.18.3"], naming, [str(properties_file)])

    group_variables = yaml.safe_load(adopt_documents(documents, naming).files["group_vars/all.yml"])
    assert group_variables["activemq_store_directory"] == "/srv/store/kahadb"


@pytest.mark.parametrize(
    ("file_name", "value", "directory"),
    [
        ("activemq.env", '"/srv/store"', "/srv/store"),
        ("activemq.env", "'/srv/store'", "/srv/store"),
        ("activemq.env", "/srv/store", "/srv/store"),
        ("activemq.env", "/srv/it's'", "/srv/it's'"),
        ("activemq.env", '"/srv/store" # shared', "/srv/store"),
        ("activemq.env", "'/srv/store';", "/srv/store"),
        ("activemq.env", "'/srv/store' ; # shared", "/srv/store"),
        ("activemq.env", '"/srv/#1" # "shared"', "/srv/#1"),
        ("activemq.env", r'"/srv/a\"b\\c\d\$e"', r'/srv/a"b\c\d$e'),
        ("activemq.env", r"'/srv/a\\b'", r"/srv/a\\b"),
        ("activemq.env", '"/srv/store"; export STORE', "/srv/store"),
        ("activemq.env", "/srv/store; export STORE", "/srv/store"),
        ("activemq.env", "/srv/store ;", "/srv/store"),
        ("activemq.env", "/srv/a;b", "/srv/a;b"),
        ("activemq.env", '"C:\\data\\"', "C:\\data\\"),
        ("activemq.env", '"C:\\\\"', "C:\\"),
        ("activemq.env", '"/srv/store"#a', '"/srv/store"#a'),
        ("activemq.env", '"/srv/"store', '"/srv/"store'),
        ("activemq.env", "/srv/store #1", "/srv/store #1"),
        ("my.properties", r"/srv/a\:b\=c", "/srv/a:b=c"),
        ("my.properties", r"/srv/caf\u00e9", "/srv/café"),
        ("my.properties", r"/srv/\ud83d\ude00", "/srv/😀"),
        ("my.properties", r"/srv/a\\:b", r"/srv/a\:b"),
        ("my.properties", "/srv/store", "/srv/store"),
    ],
)
def test_value_of_properties_file_is_decoded_like_its_kind_of_file(
    tmp_path: Path, file_name: str, value: str, directory: str
) -> None:
    file = tmp_path / file_name
    file.write_text(f"export STORE={value}\n", encoding="utf-8")
    assert read_properties_by_host([str(file)], [HUB])[HUB].values == {"STORE": directory}


@pytest.mark.parametrize("directory", ["${STORE}/kahadb", "${STORE:/data}"])
def test_adopt_note_about_store_with_placeholder_names_option_properties(tmp_path: Path, directory: str) -> None:
    store = f'<persistenceAdapter><kahaDB directory="{directory}"/></persistenceAdapter>'
    write_files(tmp_path / "files", {HUB: document(store)})
    naming = Naming()
    notes = adopt_documents(read_adopted_documents([str(tmp_path / "files")], ["5.18.3"], naming), naming).notes

    [note] = [note for note in notes if "has the store directory" in note]
    assert ", or adopt again with --properties FILE that defines STORE. Otherwise" in note


def test_adopt_note_about_store_below_data_directory_names_no_option_properties(tmp_path: Path) -> None:
    store = '<persistenceAdapter><kahaDB directory="${activemq.data}/kahadb"/></persistenceAdapter>'
    write_files(tmp_path / "files", {HUB: document(store)})
    naming = Naming()
    notes = adopt_documents(read_adopted_documents([str(tmp_path / "files")], ["5.18.3"], naming), naming).notes

    [note] = [note for note in notes if "has the store directory" in note]
    assert "--properties" not in note


def test_adopt_lists_properties_files_as_files_that_it_read(files: Path, tmp_path: Path) -> None:
    (files / "hosts" / EDGE / "conf" / "jetty.xml").write_text("<beans/>")
    properties_file = tmp_path / "site.env"
    properties_file.write_text(f"PEER={HUB}\nPORT=61616\n")
    naming = Naming()
    adoption = adopt_documents(
        read_adopted_documents([str(files)], ["5.18.3"], naming, [f"{EDGE}={properties_file}"]), naming
    )

    assert adoption.files_read[EDGE][-1] == str(properties_file)
    assert str(properties_file) not in adoption.files_read[HUB]
    comments = [line.strip() for line in adoption.files["hosts.yml"].decode().splitlines() if " # " in line]
    assert comments == [f"{EDGE}: # activemq.xml, jetty.xml, site.env", f"{HUB}: # activemq.xml"]
