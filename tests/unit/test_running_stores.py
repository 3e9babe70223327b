"""The store of a running broker, and the refusal of the playbook site to give the broker another store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.activemq.fleet.plugins.modules import broker_info

from activemq_fleet.deployment import BrokerFacts, FleetFacts, broker_facts
from activemq_fleet.node.config.broker_configuration import message_store_facts
from activemq_fleet.node.process.proc import Process
from activemq_fleet.node.state.running_store import is_store_fenced, running_store_facts
from activemq_fleet.operations import OperationDecisionRequest, RefusalError, decide_operation
from activemq_fleet.render import render_broker
from tests.unit.fleets import fleet

ROLE = Path(__file__).parents[2] / "roles/broker"
A, B = "orders-mq01-a.example.com", "orders-mq01-b.example.com"
SHARE = "/srv/activemq/orders-mq01"
PROCESS = Process(1, 0.0, "S", ("java",))
JDBC = {"url": "jdbc:postgresql://db/x", "driver": "org.postgresql.Driver", "username": "u", "password": "p"}
MULTIPLE_STORES = {"by_destination": [{"destination": "orders.>", "kind": "queue"}, {}]}
OTHER_STORES = {"by_destination": [{"destination": "news.>", "kind": "topic"}, {}]}
DATABASE = {"ha": "shared-jdbc", "jdbc": JDBC}
SINGLE = {"ha": "none", "nodes": "a"}


def brokers_of(**variables: Any) -> dict[str, BrokerFacts]:
    """Return the facts of brokers as ``compile`` computes them."""
    brokers = fleet("orders-mq01", **variables).brokers
    return {broker.host: broker_facts(broker, render_broker(broker)["conf/activemq.xml"]) for broker in brokers}


def deploy(base: Path, **variables: Any) -> str:
    """Put the rendered configuration of node a in force below a directory, and return the broker's directory."""
    broker = fleet("orders-mq01", base=str(base), **variables).broker(A)
    directory = base / "activemq"
    (directory / "versions" / "v" / "conf").mkdir(parents=True)
    (directory / "versions" / "v" / "conf" / "activemq.xml").write_bytes(render_broker(broker)["conf/activemq.xml"])
    (directory / "current").symlink_to("versions/v")
    return str(directory)


def refusal_of(
    running_store: dict[str, Any] | None, stores: dict[str, Any] | None = None, **variables: Any
) -> tuple[str, ...]:
    """Return the problems with which ``site`` refuses new settings of brokers that run with a store."""
    brokers = brokers_of(**variables)
    release = brokers[A].release.text
    machine = {"pid": 7, "release": release, "home_exists": True, "home_releases": [release]}
    request = OperationDecisionRequest(
        fleet=FleetFacts(brokers=brokers),
        evidence={host: {**machine, "running_store": running_store} for host in brokers},
        options={"stores": stores},
        warn=lambda _: None,
    )
    try:
        decide_operation("preflight", request)
    except RefusalError as error:
        return error.problems
    return ()


def store_of(base: Path, **variables: Any) -> dict[str, Any] | None:
    """Return the store of node a, which was started with the configuration of these variables."""
    return running_store_facts(deploy(base, **variables), PROCESS, SHARE)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ({}, DATABASE, "the broker stores its messages in kahaDB, but with the settings of the inventory it would use"),
        (DATABASE, {}, "the broker stores its messages in jdbcPersistenceAdapter, but with the settings of the"),
        ({}, {"kahadb": MULTIPLE_STORES}, "it would use mKahaDB without these messages. Set activemq_ha, activemq_kah"),
        ({"kahadb": MULTIPLE_STORES}, {}, "it would use kahaDB without these messages. Set activemq_ha, activemq_kah"),
        (
            {"kahadb": MULTIPLE_STORES},
            {"kahadb": OTHER_STORES},
            "stores for all other destinations, queue orders.>, but with the settings of the inventory it would use "
            "stores for all other destinations, topic news.>, and not deliver",
        ),
        (
            DATABASE,
            {"ha": "shared-jdbc", "jdbc": {**JDBC, "url": "jdbc:postgresql://db2/x"}},
            "in the database jdbc:postgresql://db/x, but with the settings of the inventory it would use "
            "jdbc:postgresql://db2/x. The playbook does not move messages. Set activemq_jdbc.url",
        ),
        (
            {},
            {"store_directory": "/srv/copy"},
            f"in {SHARE}, but with the settings of the inventory it would read them from /srv/copy. The playbook does "
            f"not move the store. Set activemq_store_directory to {SHARE}. To move the store, stop every broker that "
            "uses it, move the directory to /srv/copy, and run the playbook site",
        ),
        (
            {},
            SINGLE,
            f"in {SHARE}, but with the settings of the inventory it would read them from /",
        ),
    ],
)
def test_site_refuses_to_give_running_brokers_another_store(
    tmp_path: Path, old: dict[str, Any], new: dict[str, Any], problem: str
) -> None:
    (line,) = refusal_of(store_of(tmp_path, **old), base=str(tmp_path), **new)
    assert line.startswith(f"{A}: " if new is SINGLE else f"{A}, {B}: ")
    assert problem in line


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {}),
        (SINGLE, SINGLE),
        (DATABASE, {"ha": "shared-jdbc", "jdbc": {**JDBC, "url": "jdbc:postgresql://db/x?ssl=true", "password": "q"}}),
        ({"kahadb": MULTIPLE_STORES}, {"kahadb": {"journal_max_file_length": "8 mb", **MULTIPLE_STORES}}),
        ({}, {"fence": "guard", "uid": 990, "gid": 990}),
        ({"fence": "guard", "uid": 990, "gid": 990}, {}),
        ({"fence": "guard", "uid": 990, "gid": 990}, {"fence": "guard", "uid": 990, "gid": 990}),
        ({}, {**SINGLE, "store_directory": SHARE}),
        ({"ha": "pure", "release": "5.5.1"}, {"ha": "pure", "release": "5.5.1"}),
    ],
)
def test_site_accepts_unchanged_store(tmp_path: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    fence = tmp_path / "activemq" / "data" / "fence"
    if old.get("fence") == "guard":
        fence.mkdir(parents=True)
        (fence / "shared").symlink_to(SHARE)
        (fence / "store").symlink_to(f"{SHARE}/generations/1-{'a' * 32}")
    assert refusal_of(store_of(tmp_path, **old), base=str(tmp_path), **new) == ()


def test_link_and_its_target_are_same_store(tmp_path: Path) -> None:
    (tmp_path / "share").mkdir()
    (tmp_path / "link").symlink_to("share")
    base = deploy(tmp_path, store_directory=str(tmp_path / "share"))
    running_store = running_store_facts(base, PROCESS, str(tmp_path / "link"))
    assert running_store is not None
    assert running_store["directory"] == str(tmp_path / "link")


def test_store_of_inspected_broker_has_path_of_inventory(tmp_path: Path) -> None:
    (tmp_path / "share").mkdir()
    (tmp_path / "link").symlink_to("share")
    base = deploy(tmp_path, store_directory=str(tmp_path / "share"))
    parameters = {"base": base, "unit": None, "wait": 0, "states": ["active"], "required": False}
    for path, store in (("link", "link"), ("share", "share"), ("other", "share")):
        result = broker_info._gather_or_require_state({**parameters, "directory": str(tmp_path / path)}, False)
        assert result["store"] == str(tmp_path / store)
    assert broker_info._gather_or_require_state({**parameters, "directory": None}, False)["store"] == str(
        tmp_path / "share"
    )


@pytest.mark.parametrize("file", ["gather_state.yml", "gather_peer_state.yml"])
def test_inspected_brokers_are_compared_with_store_of_inventory(file: str) -> None:
    (task,) = yaml.safe_load((ROLE / "tasks" / file).read_text())
    assert "directory | default(omit, true)" in task["activemq.fleet.broker_info"]["directory"]


def test_only_running_broker_with_readable_configuration_has_known_store(tmp_path: Path) -> None:
    assert running_store_facts(str(tmp_path / "activemq"), PROCESS, SHARE) is None
    base = deploy(tmp_path)
    assert running_store_facts(base, None, SHARE) is None
    assert running_store_facts(base, PROCESS, SHARE) is not None
    (tmp_path / "activemq" / "current" / "conf" / "activemq.xml").write_text("<beans>")
    assert running_store_facts(base, PROCESS, SHARE) is None


def test_brokers_with_unknown_store_are_not_refused() -> None:
    assert refusal_of(None, store_directory="/srv/copy") == ()


def test_new_shared_store_of_running_pair_is_reported_once(tmp_path: Path) -> None:
    marker = {"exists": True, "mounted": True, "used": False, "fenced": False, "marked": None}
    (line,) = refusal_of(store_of(tmp_path), {A: marker, B: marker}, store_directory="/srv/copy")
    assert line.startswith(f"{A}, {B}: the broker stores its messages in {SHARE}, but")


@pytest.mark.parametrize(
    ("url", "database"),
    [
        ("jdbc:postgresql://u:pw@db/x?password=pw&amp;ssl=1", "jdbc:postgresql://db/x"),
        ("jdbc:oracle:thin:scott/tiger@h:1521:S", "jdbc:oracle:thin:@h:1521:S"),
        ("jdbc:oracle:thin:scott/ti@ger@h:1521:S", "jdbc:oracle:thin:@h:1521:S"),
        ("jdbc:oracle:thin:@//h:1521/s", "jdbc:oracle:thin:@//h:1521/s"),
        ("jdbc:oracle:oci:scott/tiger@S", "jdbc:oracle:oci:@S"),
        ("jdbc:db2://h:50000/db:user=x;password=y;", "jdbc:db2://h:50000/db"),
        ("jdbc:db2://h:50000/db:sslTrustStoreLocation=/etc/x:y;", "jdbc:db2://h:50000/db"),
        ("jdbc:mysql:loadbalance://a:3306,b:3306/x", "jdbc:mysql:loadbalance://a:3306,b:3306/x"),
        ("jdbc:sqlserver://h:1433;databaseName=x;password=pw", "jdbc:sqlserver://h:1433;databaseName=x"),
        ("jdbc:derby:/srv/x;create=true", "jdbc:derby:/srv/x"),
    ],
)
def test_database_of_store_is_its_url_without_login_and_parameters(url: str, database: str) -> None:
    bean = f'<bean id="store"><property name="url" value="{url}"/></bean>'
    store = '<persistenceAdapter><jdbcPersistenceAdapter dataSource="#store"/></persistenceAdapter>'
    document = f"<beans>{bean}<broker>{store}</broker></beans>"
    assert message_store_facts(document.encode(), "/base")["database"] == database


def test_single_broker_cannot_use_store_of_guards(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    assert is_store_fenced(str(tmp_path), "no-such-account")
    brokers = brokers_of(**SINGLE)
    request = OperationDecisionRequest(
        fleet=FleetFacts(brokers=brokers),
        evidence={A: {"home_exists": True, "home_releases": ["5.18.3"], "store_fenced": True}},
        warn=lambda _: None,
    )
    with pytest.raises(RefusalError, match=r"was made with activemq_fence: guard, .* run the playbook unfence"):
        decide_operation("preflight", request)


def test_store_with_lock_file_is_not_fenced(tmp_path: Path) -> None:
    assert not is_store_fenced(str(tmp_path / "none"), "no-such-account")
    (tmp_path / "lock").touch()
    assert not is_store_fenced(str(tmp_path), "no-such-account")
