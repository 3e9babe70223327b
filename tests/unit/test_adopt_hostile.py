"""Hostile files to adopt: they remain data, and cannot copy files of the operator into the inventory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from activemq_fleet.adopt import AdoptedInventory, adopt_documents, find_agent_configurations, read_adopted_documents
from activemq_fleet.errors import InputError
from activemq_fleet.inventory import load_fleet, read_inventory
from activemq_fleet.naming import Naming
from activemq_fleet.topology import Fleet
from tests.situations import some_situations
from tests.unit.adopt_files import BEANS, CORE, write_inventory

HOST = "orders-mq01-a"
RELEASE = "5.18.3"
COMMAND_TIMEOUT = 300
"""Seconds after which a command that usually takes 2 s is stopped, because it hangs."""


def template_that_creates(marker: Path) -> str:
    """Return a template that creates the file when it is evaluated."""
    return "{{ lookup('ansible.builtin.pipe', 'touch " + str(marker) + "; echo x') }}"


def write_host_files(directory: Path, files: dict[str, str], host: str = HOST) -> Path:
    """Write files of a host below ``hosts/HOST``, and return the directory."""
    tree = directory / "hosts" / host
    for name, content in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(content)
    return directory


def document(broker: str = "", beans: str = "", name: str = HOST, above: str = "") -> str:
    """Return an activemq.xml with content in the broker, after it, and before the root element."""
    return f'{above}<beans xmlns="{BEANS}"><broker xmlns="{CORE}" brokerName="{name}">{broker}</broker>{beans}</beans>'


def adoption_of(directory: Path) -> AdoptedInventory:
    """Adopt the files of a directory, including configurations of agents."""
    return adopt_documents(
        read_adopted_documents([str(directory)], [RELEASE], Naming()),
        Naming(),
        agents=find_agent_configurations([str(directory)]),
    )


def text_of(adoption: AdoptedInventory) -> str:
    """Return the text of all files of the adopted inventory."""
    return b"".join(adoption.files.values()).decode()


def settings_of(fleet: Fleet) -> dict[str, str]:
    """Return the settings of each broker, with labels in place of secrets."""
    return {
        broker.host: repr(
            broker.settings.model_dump(
                context=None, mode="python", exclude={"users", "network_password", "jdbc", "tls", "agent_password"}
            )
        )
        for broker in fleet.brokers
    }


def load_adopted_inventory(directory: Path, adoption: AdoptedInventory) -> Fleet:
    """Return the fleet of the adopted inventory, loaded with Ansible, with a known text in place of each secret."""
    inventory = write_inventory(directory, adoption)
    for label in adoption.secrets:
        (inventory / ".secrets").mkdir(exist_ok=True)
        (inventory / ".secrets" / label).write_text(f"@.secrets/{label}@\n")
    return load_fleet([str(inventory)])


def write_hostile_files(directory: Path, payload: str) -> Path:
    """Write the files of a host with the text in every element, attribute and file that adopt reads."""
    attribute = payload.replace("'", "&apos;")
    broker = f"""
      <!-- {payload} -->
      <destinationPolicy><policyMap><policyEntries><policyEntry queue="{attribute}"><deadLetterStrategy>
        <individualDeadLetterStrategy queuePrefix="{attribute}"/></deadLetterStrategy></policyEntry>
        <policyEntry queue="!unsafe !vault {attribute}" memoryLimit="{attribute}"/></policyEntries></policyMap>
      </destinationPolicy>
      <destinations><queue physicalName="{attribute}"/><topic physicalName="!!python/object:x"/></destinations>
      <networkConnectors>
        <networkConnector name="{attribute}" uri="static:(tcp://{attribute}:61616)" userName="{attribute}"/>
        <networkConnector name="n" uri="static:(tcp://h:61616)?x={attribute}" password="{{{{{attribute}"/>
      </networkConnectors>
      <plugins><simpleAuthenticationPlugin><users>
        <authenticationUser username="{attribute}" password="{attribute}" groups="{attribute}"/>
      </users></simpleAuthenticationPlugin></plugins>
      <systemUsage><systemUsage>
        <memoryUsage><memoryUsage limit="{attribute}"/></memoryUsage></systemUsage></systemUsage>
      <transportConnectors>
        <transportConnector name="{attribute}" uri="tcp://0.0.0.0:1883?x={attribute}"/>
        <transportConnector name="openwire" uri="tcp://0.0.0.0:61616?x={{%raw%}}{attribute}{{#"/>
      </transportConnectors>"""
    beans = f"""
      <bean id="{attribute}" class="x.{attribute}"><property name="password" value="{{{attribute}"/>
        <property name="text"><value>{payload} {{</value></property></bean>
      <bean class="PropertyPlaceholderConfigurer"><property name="{attribute}" value="{attribute}"/></bean>
      <import resource="camel.xml"/><import resource="sub/other.xml"/>"""
    imported = (
        f'<beans xmlns="{BEANS}"><!-- {payload} {{% {{# !unsafe --><a b="{attribute}">{payload}\n'
        f"  {payload}</a></beans>\n"
    )
    return write_host_files(
        directory,
        {
            "conf/activemq.xml": document(broker, beans, above=f"<!-- {payload} -->"),
            "conf/camel.xml": imported,
            "conf/sub/other.xml": imported,
            "conf/credentials.properties": f"x={payload}\n{payload}=y\n",
            "conf/jetty.xml": f'<a><property name="host" value="{attribute}"/><property name="port" value="1"/></a>',
            "bin/env": f"# written by activemq.fleet\nACTIVEMQ_BASE=/x/{payload}\nACTIVEMQ_HOME={payload}-{RELEASE}\n"
            f'JAVA_HOME="{payload}"\nACTIVEMQ_OPTS="-Xmx512m -Dx={payload}"\n',
            "systemd/activemq.service": f"[Service]\nUser={payload}\n",
        },
    )


@pytest.mark.parametrize(
    "form",
    ["{}", "{{% if {} %}}x{{% endif %}}", "{{# {} #}}", "{{{}", "{{{{{}", "{}}}}}", "${{x:{}}}", "#jinja2: a:b\n{}"],
)
def test_hostile_texts_remain_data_in_adopted_inventory(form: str, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    payload = form.format(template_that_creates(marker)).replace("\n", " ")
    adoption = adoption_of(write_hostile_files(tmp_path / "files", payload))

    assert "lookup('ansible.builtin.pipe'" in text_of(adoption)
    fleet = load_adopted_inventory(tmp_path / "inventory", adoption)

    assert not marker.exists(), "a hostile text was evaluated"
    assert settings_of(fleet) == settings_of(adoption.fleet)
    [broker] = fleet.brokers
    camel = next(file.content for file in broker.settings.extra_files if file.path == "conf/camel.xml")
    assert camel == (tmp_path / "files/hosts" / HOST / "conf/camel.xml").read_text()


def test_imported_file_with_placeholders_of_camel_is_adopted_unchanged(tmp_path: Path) -> None:
    files = {
        "conf/activemq.xml": document(beans='<import resource="camel.xml"/>'),
        "conf/camel.xml": f'<beans xmlns="{BEANS}"><to uri="{{{{msg.prefix}}}}:q"/></beans>',
    }
    adoption = adoption_of(write_host_files(tmp_path / "files", files))

    [broker] = load_adopted_inventory(tmp_path / "inventory", adoption).brokers

    assert [file.content for file in broker.settings.extra_files] == [files["conf/camel.xml"]]


def test_braces_before_password_are_text_and_no_template_in_adopted_inventory(tmp_path: Path) -> None:
    url = (
        '<bean id="x" class="a.B"><property name="url" value="{{password=geheim;{%"/>'
        '<property name="y" value="{"/></bean>'
    )
    adoption = adoption_of(write_host_files(tmp_path / "files", {"conf/activemq.xml": document(beans=url)}))

    assert "geheim" not in text_of(adoption)
    fleet = load_adopted_inventory(tmp_path / "inventory", adoption)

    assert settings_of(fleet) == settings_of(adoption.fleet)
    assert 'value="{{password=@.secrets/' in fleet.brokers[0].settings.xml_fragments[0].xml


@pytest.mark.parametrize("kind", ["link", "link of a directory", "hard link", "above", "absolute"])
def test_private_file_of_operator_is_not_copied_into_adopted_inventory(kind: str, tmp_path: Path) -> None:
    key = tmp_path / "home" / "keys.xml"
    key.parent.mkdir()
    key.write_text("<private>OPERATORS-KEY</private>")
    name = {"link of a directory": "below/keys.xml", "above": "../../../../home/keys.xml", "absolute": str(key)}.get(
        kind, "keys.xml"
    )
    files = write_host_files(tmp_path / "files", {"conf/activemq.xml": document(beans=f'<import resource="{name}"/>')})
    conf = files / "hosts" / HOST / "conf"
    if kind == "link":
        (conf / "keys.xml").symlink_to(key)
    elif kind == "hard link":
        os.link(key, conf / "keys.xml")
    elif kind == "link of a directory":
        (conf / "below").symlink_to(key.parent)
    assert (conf / name).read_text() == key.read_text(), "the attack is not set up: the path does not lead to the key"

    adoption = adoption_of(files)

    assert "OPERATORS-KEY" not in text_of(adoption)
    assert str(key) not in "".join(path for paths in adoption.files_read.values() for path in paths)
    if kind not in ("above", "absolute"):
        reasons = ("keys.xml is", "keys.xml was not opened", "below is")
        assert any(reason in note for note in adoption.notes for reason in reasons)


@pytest.mark.parametrize("name", ["conf/credentials.properties", "bin/env", "systemd/x.service", "conf/jetty.xml"])
def test_adopt_does_not_read_link_in_place_of_file_next_to_activemq_xml(name: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(
        "User=stolen\nx=stolen\n#written by activemq.fleet\nACTIVEMQ_BASE=/s/stolen\n<x name='host' value=\"stolen\"/>"
    )
    files = write_host_files(tmp_path / "files", {"conf/activemq.xml": document(beans='<bean class="a.B" id="${x}"/>')})
    link = files / "hosts" / HOST / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(secret)

    adoption = adoption_of(files)

    assert "stolen" not in text_of(adoption)
    assert any(f"{name} is a link" in note for note in adoption.notes)


@some_situations(1)
@pytest.mark.parametrize("name", ["conf/activemq.xml", "conf/credentials.properties", "conf/jetty.xml", "bin/env"])
def test_fifo_does_not_block_adopt(name: str, tmp_path: Path) -> None:
    files = write_host_files(tmp_path / "files", {"conf/activemq.xml": document()})
    fifo = files / "hosts" / HOST / name
    fifo.parent.mkdir(exist_ok=True)
    fifo.unlink(missing_ok=True)
    os.mkfifo(fifo)

    command = [sys.executable, "-m", "activemq_fleet", "adopt", files, "-o", tmp_path / "out", "--release", RELEASE]
    try:
        finished = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, timeout=COMMAND_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.fail("timed out: adopt waits for a writer of the FIFO")

    assert f"{name} is a FIFO" in finished.stdout + finished.stderr
    assert finished.returncode == (2 if name == "conf/activemq.xml" else 0)


def test_adopt_refuses_activemq_xml_that_is_link_and_names_remedy(tmp_path: Path) -> None:
    (tmp_path / "private.xml").write_text(document())
    conf = tmp_path / "files/hosts" / HOST / "conf"
    conf.mkdir(parents=True)
    (conf / "activemq.xml").symlink_to(tmp_path / "private.xml")

    with pytest.raises(InputError, match=r"activemq\.xml is a link, .*\. Or name the file itself as HOST=FILE"):
        read_adopted_documents([str(tmp_path / "files")], [RELEASE], Naming())

    [named_document] = read_adopted_documents([f"{HOST}={conf / 'activemq.xml'}"], [RELEASE], Naming())
    assert named_document.host == HOST


def test_adopt_lists_each_file_that_it_read(tmp_path: Path) -> None:
    files = {
        "conf/activemq.xml": document(beans='<import resource="camel.xml"/>'),
        "conf/camel.xml": f'<beans xmlns="{BEANS}"/>',
        "conf/unrelated.xml": "x",
        "bin/env": "x=y\n",
    }
    tree = write_host_files(tmp_path, files) / "hosts" / HOST

    adoption = adoption_of(tmp_path)

    expected = ["conf/activemq.xml", "conf/camel.xml", "bin/env"]
    assert adoption.files_read == {HOST: tuple(str(tree / name) for name in expected)}


PASSWORDS = [
    ("<property name='password' value='{}'/>", "<beans xmlns='http://www.springframework.org/schema/beans'>{}</beans>"),
    ("<property name='url' value='jdbc:sqlserver://db:1433;user=u;password={}'/>", "<beans>{}</beans>"),
    ("<!-- password='{}' -->", "<beans>{}</beans>"),
    ("<prop key='db.pwd'>{}</prop>", "<beans>{}</beans>"),
    ("<to uri='ftp://u:{}@h/'/>", "<beans>{}</beans>"),
    ("<property name='password' value='${{PW:{}}}'/>", "<beans>{}</beans>"),
    ("<property name='apiKey' value='{}'/>", "<beans>{}</beans>"),
    ("<value>db.password={}</value>", "<beans>{}</beans>"),
    ("<value>db.password = {}\ndb.user = u</value>", "<beans>{}</beans>"),
    ("<value>db.password: {}</value>", "<beans>{}</beans>"),
    ("<to uri='aws-sqs://q?accessKey=RAW(a)&amp;secretKey=RAW({})'/>", "<beans>{}</beans>"),
    ("<to uri='x:y?authToken={}&amp;z=1'/>", "<beans>{}</beans>"),
    ("<property name=\"u\" value=\"user='u' password='{}'\"/>", "<beans>{}</beans>"),
    ("<property name='url' value='jdbc:oracle:thin:scott/{}@h:1521:x'/>", "<beans>{}</beans>"),
    (
        "<bean><property name='targetMethod' value='setPassword'/>"
        "<property name='arguments'><value>{}</value></property></bean>",
        "<beans>{}</beans>",
    ),
    ("<list><value>javax.net.ssl.keyStorePassword</value><value>{}</value></list>", "<beans>{}</beans>"),
]


@pytest.mark.parametrize(("form", "root_element"), PASSWORDS)
def test_adopt_copies_no_password_of_imported_file(form: str, root_element: str, tmp_path: Path) -> None:
    files = {
        "conf/activemq.xml": document(beans='<import resource="sql.xml"/>'),
        "conf/sql.xml": root_element.format(form.format("geheim7Xq")),
    }
    adoption = adoption_of(write_host_files(tmp_path, files))

    assert "geheim7Xq" not in text_of(adoption)
    assert any(
        "activemq.xml imports sql.xml, which adopt did not copy, because it may contain passwords" in note
        for note in adoption.notes
    )


@pytest.mark.parametrize(("form", "root_element"), PASSWORDS)
def test_adopt_copies_no_password_of_bean(form: str, root_element: str, tmp_path: Path) -> None:
    bean = f'<bean xmlns="{BEANS}" id="b" class="a.B">{form.format("geheim7Xq")}</bean>'
    adoption = adoption_of(write_host_files(tmp_path, {"conf/activemq.xml": document(beans=bean)}))

    assert "geheim7Xq" not in text_of(adoption)
    assert "geheim7Xq" not in "".join(map(repr, adoption.differences))
    assert "<!--" in form or adoption.secrets


@pytest.mark.parametrize(
    "value",
    [
        "${AMQ_PW:geheim}",
        "x${A}geheim",
        "#{'geheim'}",
        "#{systemProperties['pw'] ?: 'geheim'}",
        "${A:${B:geheim}}",
        "geheim",
    ],
)
@pytest.mark.parametrize(
    "bean",
    [
        '<bean id="b" class="a.B"><property name="password" value="${{pw}}"/></bean>',
        '<bean id="b" class="a.B"><property name="password"><value>${{pw}}</value></property></bean>',
        '<bean id="b" class="a.B" p:password="${{pw}}" xmlns:p="http://www.springframework.org/schema/p"/>',
        '<bean id="b" class="a.B"><property name="uri" value="http://h/?password=${{pw}}"/></bean>',
    ],
)
def test_adopt_copies_no_default_of_password_placeholder(value: str, bean: str, tmp_path: Path) -> None:
    if "uri" in bean and "'" in value:
        value = "${AMQ_PW:geheim}"
    files = {
        "conf/activemq.xml": document(beans=bean.replace("${{pw}}", "${pw}")),
        "conf/credentials.properties": f"pw={value}\n",
    }
    adoption = adoption_of(write_host_files(tmp_path / "files", files))

    assert "geheim" not in text_of(adoption)
    assert "geheim" not in "".join(map(repr, adoption.differences))
    assert adoption.secrets
    assert settings_of(load_adopted_inventory(tmp_path / "inventory", adoption)) == settings_of(adoption.fleet)


def test_password_in_java_options_becomes_secret(tmp_path: Path) -> None:
    first_adoption = adoption_of(write_host_files(tmp_path / "first", {"conf/activemq.xml": document()}))
    from activemq_fleet.render.java_command import java_options

    words = [*java_options(first_adoption.fleet.brokers[0]), "-Djavax.net.ssl.keyStorePassword=geheim", "-Dx=y"]
    env = f'# written by activemq.fleet\nACTIVEMQ_BASE=/var/lib/activemq/activemq\nACTIVEMQ_OPTS="{" ".join(words)}"\n'
    adoption = adoption_of(write_host_files(tmp_path / "files", {"conf/activemq.xml": document(), "bin/env": env}))

    assert "-Dx=y" in text_of(adoption)
    assert "geheim" not in text_of(adoption)
    assert settings_of(load_adopted_inventory(tmp_path / "inventory", adoption)) == settings_of(adoption.fleet)


def test_variables_that_command_names_proposes_are_no_templates_for_ansible(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    hosts = [f"{{%{template_that_creates(marker)}{number:02}{node}" for number in (1, 2) for node in "ab"]
    command = [sys.executable, "-m", "activemq_fleet", "names", *hosts, "--node", "a"]
    printed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMMAND_TIMEOUT).stdout
    from activemq_fleet.inventory_yaml import plain_variables_to_yaml

    lines = plain_variables_to_yaml({"activemq_naming_pattern": hosts[0], "activemq_x_a": "5.10", "activemq_x_b": "on"})
    (tmp_path / "hosts.yml").write_text(
        "all:\n  hosts:\n    a:\n  vars:\n" + "".join(f"    {x}\n" for x in lines.splitlines())
    )
    [values] = read_inventory([str(tmp_path / "hosts.yml")]).hosts.values()

    assert not marker.exists()
    assert values == {"activemq_naming_pattern": hosts[0], "activemq_x_a": "5.10", "activemq_x_b": "on"}
    assert "{%" not in "".join(
        line for line in printed.splitlines() if line.startswith("activemq_") and "!unsafe" not in line
    )
