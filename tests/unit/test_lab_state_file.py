from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import SecretStr

from activemq_fleet import artifacts
from activemq_fleet.cli.main import main
from activemq_fleet.errors import ArtifactError, InputError, LabError
from activemq_fleet.inventory import InventoryData, read_inventory
from activemq_fleet.lab import Lab, preparation, processes
from activemq_fleet.lab.address_reservation import AddressBlockReservations
from activemq_fleet.lab.lab_paths import LabPaths, write_lab_file
from activemq_fleet.lab.lab_state_file import LabState, load_lab_state
from activemq_fleet.lab.loopback_overlay import MARK
from activemq_fleet.settings.encrypted import UndecryptedVaultValue
from activemq_fleet.topology import build_fleet
from tests.unit.lab_fleets import PAIR, variables

A, B = PAIR


@pytest.fixture(autouse=True)
def software(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace each download of a release with an empty directory."""
    home = tmp_path / "software"
    home.mkdir()
    monkeypatch.setattr(artifacts, "java_executable", lambda _minimum: Path("/usr/lib/jvm/bin/java"))
    monkeypatch.setattr(artifacts, "fetch_and_unpack_distribution", lambda _release, progress: None)
    monkeypatch.setattr(artifacts, "fetch_jar_directory", lambda _release, progress: home)
    return home


@pytest.fixture
def lab_paths(tmp_path: Path) -> LabPaths:
    return LabPaths(tmp_path / "lab")


def prepare(lab_paths: LabPaths, hosts: dict[str, dict[str, Any]], **groups: list[str]) -> LabState:
    inventory = InventoryData(hosts, groups)
    return preparation.prepare_lab(
        lab_paths, inventory, AddressBlockReservations(lab_paths.directory.parent / "claims"), lambda _line: None
    )[0]


def test_saved_state_of_lab_is_that_of_its_preparation(lab_paths: LabPaths) -> None:
    assert load_lab_state(lab_paths) is None
    prepared = prepare(lab_paths, variables())
    assert load_lab_state(lab_paths) == prepared


@pytest.mark.parametrize(
    ("releases", "minimum"),
    [(("5.5.1", "5.5.1"), 11), (("5.18.3", "5.18.3"), 11), (("5.18.3", "6.3.1"), 17), (("6.3.1", "6.3.1"), 17)],
)
def test_lab_requires_java_of_its_newest_release(
    lab_paths: LabPaths, monkeypatch: pytest.MonkeyPatch, releases: tuple[str, str], minimum: int
) -> None:
    required: list[int] = []

    def find_java(oldest: int) -> Path:
        required.append(oldest)
        return Path("/usr/lib/jvm/bin/java")

    monkeypatch.setattr(artifacts, "java_executable", find_java)
    first_release, second_release = releases
    hosts = variables(release=first_release, ha="shared-file", store_directory="/srv/a")
    other_hosts = variables(
        "sales-mq01-a", "sales-mq01-b", release=second_release, ha="shared-file", store_directory="/srv/b"
    )
    prepare(lab_paths, hosts | other_hosts)
    assert required == [minimum]


def test_lab_files_with_secrets_are_private(lab_paths: LabPaths) -> None:
    prepare(lab_paths, variables())
    files = [lab_paths.state, *lab_paths.host_vars.iterdir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE(lab_paths.directory.stat().st_mode) == 0o700


def test_lab_of_inventory_with_date_as_key_is_saved(lab_paths: LabPaths) -> None:
    dates = {date(2026, 11, 30): [{date(2026, 12, 1): "6.3.1"}], 2026: UndecryptedVaultValue("x")}
    prepare(lab_paths, variables(x_release_dates=dates))
    saved_state = load_lab_state(lab_paths)
    assert saved_state is not None
    assert saved_state.hosts[A]["activemq_x_release_dates"]["2026-11-30"] == [{"2026-12-01": "6.3.1"}]


def test_lab_brokers_have_generated_secret_for_encrypted_password_of_load_balancer(lab_paths: LabPaths) -> None:
    encrypted_password = UndecryptedVaultValue("x")
    hosts = variables(vip="10.0.0.5", vip_interface="eth0")
    hosts |= variables("lb1", vip_interface="eth0", vip_username="lb", vip_password=encrypted_password)
    prepare(lab_paths, hosts, activemq_loadbalancers=["lb1"])
    saved_state = load_lab_state(lab_paths)
    assert saved_state is not None
    (password,) = (account.password for account in saved_state.fleet().broker(A).accounts if account.name == "lb")
    assert isinstance(password, SecretStr)
    overlay = yaml.safe_load((lab_paths.host_vars / "lb1.yml").read_text())
    assert overlay == {
        "ansible_host": "not-part-of-the-lab.invalid",
        "activemq_vip_password": password.get_secret_value(),
    }, "no playbook may set the password of the lab on the real load balancer"
    assert "lb1" in yaml.safe_load(lab_paths.overlay_inventory_path.read_text())["all"]["hosts"]


def test_repeated_preparation_of_lab_changes_nothing(lab_paths: LabPaths) -> None:
    first_state = prepare(lab_paths, variables(network_password=UndecryptedVaultValue("x")))
    assert prepare(lab_paths, variables(network_password=UndecryptedVaultValue("x"))) == first_state


def test_host_that_was_removed_from_inventory_has_no_overlay(lab_paths: LabPaths) -> None:
    prepare(lab_paths, variables(*PAIR, "archive-mq01-a.example.com", ha="none"))
    prepare(lab_paths, variables())
    assert {path.stem for path in lab_paths.host_vars.iterdir()} == set(PAIR)


def test_lab_status_warns_if_lab_was_started_with_other_inventory(
    lab_paths: LabPaths, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab_inventory, other_inventory = tmp_path / "own.yml", tmp_path / "other.yml"
    preparation.prepare_lab(
        lab_paths,
        InventoryData(variables(), {}),
        AddressBlockReservations(tmp_path / "claims"),
        print,
        [str(lab_inventory)],
    )
    monkeypatch.chdir(tmp_path)
    for source, warning in (
        ("own.yml", ""),
        (
            str(other_inventory),
            f"in the directory {lab_paths.directory} was started with another inventory ({lab_inventory}), "
            "and the output shows ",
        ),
    ):
        capsys.readouterr()
        assert main(["lab", "status", "-i", source, "--dir", str(lab_paths.directory), "--format", "json"]) == 0
        captured = capsys.readouterr()
        assert [host["host"] for host in json.loads(captured.out)] == list(PAIR)
        assert warning in captured.err
        assert len(captured.err.splitlines()) == (1 if warning else 0)


def test_saved_state_of_lab_without_sources_of_inventory_is_read(lab_paths: LabPaths) -> None:
    prepare(lab_paths, variables())
    state = json.loads(lab_paths.state.read_text())
    del state["sources"]
    lab_paths.state.write_text(json.dumps(state))
    assert Lab(lab_paths, sources=["/x"]).original_sources_if_different() == ()


def test_lab_error_about_full_disk_names_file(small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(b"x" * 60_000)
    with pytest.raises(LabError, match=rf"{small_disk}/state cannot be written \(No space left on device\)"):
        write_lab_file(small_disk / "state", b"x" * 20_000)
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


@pytest.mark.parametrize("content", ['{"format": 0}', "[" * 100_000])
def test_lab_state_of_other_version_is_error_and_replaced_by_preparation(content: str, lab_paths: LabPaths) -> None:
    prepare(lab_paths, variables())
    lab_paths.state.write_text(content)
    with pytest.raises(InputError, match="of the lab is damaged, or another version"):
        load_lab_state(lab_paths)
    prepare(lab_paths, variables())
    assert load_lab_state(lab_paths) is not None


def test_lab_refuses_fleet_with_errors_and_names_first_error(lab_paths: LabPaths) -> None:
    with pytest.raises(LabError, match=r"T002 .* has only one node"):
        prepare(lab_paths, variables(A))
    assert not lab_paths.directory.exists()


def test_two_listeners_with_one_port_on_different_addresses_are_refused_in_lab(lab_paths: LabPaths) -> None:
    connectors = [
        {"name": "openwire", "scheme": "nio", "port": 61616, "bind": "10.0.0.5"},
        {"name": "local", "scheme": "tcp", "port": 61616, "bind": "127.0.0.1"},
    ]
    hosts = variables(connectors=connectors)
    assert not build_fleet(hosts, {}).blocking_findings
    with pytest.raises(LabError, match=f"that only the lab uses; T006 {A}, {B}: the listeners .* both use port 61616"):
        prepare(lab_paths, hosts)


def test_lab_preparation_prints_rule_findings_as_warnings(lab_paths: LabPaths) -> None:
    lines: list[str] = []
    inventory = InventoryData(variables(broker_attributes={"deleteAllMessagesOnStartup": "true"}), {})
    reservations = AddressBlockReservations(lab_paths.directory.parent / "claims")
    preparation.prepare_lab(lab_paths, inventory, reservations, lines.append)

    assert [line.partition(" (conf/activemq.xml:")[0] for line in lines] == [
        f"warning: L020 {A}, {B}",
    ]


def local_release(directory: Path, release: str) -> Path:
    """Create a directory with the jar that identifies a release, and return it."""
    directory.mkdir(parents=True)
    (directory / f"activemq-broker-{release}.jar").touch()
    return directory


@pytest.mark.parametrize("install", ["archive", "none"])
def test_directory_of_local_distribution_is_software_of_lab(lab_paths: LabPaths, tmp_path: Path, install: str) -> None:
    library = local_release(tmp_path / "apache-activemq-6.3.1" / "lib", "6.3.1")
    state = prepare(lab_paths, variables(archive={"6.3.1": str(library.parent)}, install=install))

    assert (state.software["6.3.1"].home, state.software["6.3.1"].whole) == (str(library.parent), True)


def test_directory_of_local_jars_is_library_of_lab(lab_paths: LabPaths, tmp_path: Path) -> None:
    jars = local_release(tmp_path / "jars", "6.3.1")
    state = prepare(lab_paths, variables(archive=str(jars), install="jars"))

    assert (Path(state.software["6.3.1"].home) / "lib").resolve() == jars
    assert not state.software["6.3.1"].whole


def test_lab_refuses_local_distribution_of_other_release(lab_paths: LabPaths, tmp_path: Path) -> None:
    library = local_release(tmp_path / "apache-activemq-6.3.0" / "lib", "6.3.0")
    with pytest.raises(ArtifactError, match=r"the broker of ActiveMQ 6\.3\.0, but activemq_release is 6\.3\.1"):
        prepare(lab_paths, variables(archive=str(library.parent)))


@pytest.mark.parametrize("archive", ["https://example.org/activemq.tar.gz", "/nonexistent/activemq.tar.gz"])
def test_lab_fetches_release_of_archive_that_is_not_on_this_machine(
    lab_paths: LabPaths, software: Path, archive: str
) -> None:
    state = prepare(lab_paths, variables(archive=archive))
    assert (Path(state.software["6.3.1"].home) / "lib").resolve() == software


def test_error_about_unavailable_release_names_variable_for_local_archive(
    lab_paths: LabPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_release: object, progress: object) -> None:
        raise ArtifactError("no network")

    monkeypatch.setattr(artifacts, "fetch_and_unpack_distribution", fail)
    monkeypatch.setattr(type(build_fleet(variables()).brokers[0].release), "jars_available", False)
    with pytest.raises(ArtifactError, match=r"no network\. If you have release [0-9.]+, add -e activemq_archive=FILE"):
        prepare(lab_paths, variables())


def test_lab_uses_jars_if_distribution_cannot_be_fetched(lab_paths: LabPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_release: object, progress: object) -> None:
        raise ArtifactError("no network")

    monkeypatch.setattr(artifacts, "fetch_and_unpack_distribution", fail)
    prepared = prepare(lab_paths, variables(release="5.18.3"))
    assert not prepared.software["5.18.3"].whole
    assert prepared.hosts[A]["activemq_console"] is False


def test_lab_of_release_without_available_jars_is_error(lab_paths: LabPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_release: object, progress: object) -> None:
        raise ArtifactError("the jars of 6.3.1 are not available: no network")

    monkeypatch.setattr(artifacts, "fetch_jar_directory", fail)
    with pytest.raises(ArtifactError, match="no network"):
        prepare(lab_paths, variables())


@contextmanager
def _inventory(tmp_path: Path) -> Iterator[Path]:
    source = tmp_path / "inventory"
    (source / "host_vars").mkdir(parents=True)
    (source / "hosts.yml").write_text(
        json.dumps(
            {
                "all": {
                    "hosts": {host: {} for host in PAIR},
                    "vars": {
                        "activemq_release": "6.3.1",
                        "activemq_network_username": "net",
                        "activemq_network_password": "s3cret-net",
                    },
                }
            }
        )
    )
    (source / "host_vars" / f"{A}.yml").write_text(json.dumps({"activemq_heap": "4g", "activemq_bind": "10.0.0.1"}))
    yield source


def test_lab_overlay_outranks_host_variables_of_inventory(tmp_path: Path, lab_paths: LabPaths) -> None:
    with _inventory(tmp_path) as source:
        prepared = prepare(lab_paths, read_inventory([str(source)]).hosts)
        inventory = read_inventory([str(source), str(lab_paths.overlay_inventory_path)])
    assert inventory.hosts == prepared.hosts


def test_error_about_lab_that_was_never_started_names_lab_up(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lab up"):
        Lab.open("x", tmp_path / "lab").status()


def test_lab_of_fleet_has_brokers_and_agents_of_fleet(tmp_path: Path) -> None:
    names = ("orders1x", "orders1y")
    pattern = r"(?P<group>[a-z]+)(?P<number>[0-9])(?P<node>[xy])"
    broker_variables = {"activemq_release": "6.3.1", "activemq_ha": "shared-file", "activemq_master_node": "x"}
    agents = {"activemq_agents": ["shop1"]}
    hosts = {
        **dict.fromkeys(names, broker_variables),
        "shop1": {"activemq_agent_username": "shop", "activemq_agent_password": "s3cret-shop"},
    }
    fleet = build_fleet(hosts, agents, naming_pattern=pattern)
    lab = Lab.of_fleet(fleet, tmp_path / "lab")
    lab.prepare()
    assert [broker.host for broker in lab.fleet.brokers] == list(names)
    assert [agent.host for agent in lab.fleet.agents] == ["shop1"]
    assert [broker.role for broker in lab.fleet.brokers] == ["master", "slave"]
    first_uri, second_uri = lab.uris("orders-mq1")
    assert first_uri.startswith("tcp://127.")
    assert lab.uris("orders1y") == (second_uri,)
    assert str(lab.store_directory("orders1x")).startswith(f"{tmp_path}/lab/stores/")


@contextmanager
def _guarded_broker(lab_directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process of a lab, with a child process of the same lab, in a separate session."""
    sleep = "import sys, time; print(flush=True); time.sleep(600)"
    mark = f"{MARK}{lab_directory}"
    start_child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {sleep!r}, {mark!r}])"
    guard = subprocess.Popen([sys.executable, "-c", start_child, mark], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert guard.stdout is not None
        guard.stdout.readline()
        yield guard
    finally:
        with suppress(ProcessLookupError):
            os.killpg(guard.pid, signal.SIGKILL)
        guard.communicate()


def test_lab_down_terminates_processes_of_lab_with_damaged_state(tmp_path: Path) -> None:
    lab = Lab.open("x", tmp_path / "lab")
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab/lab.json").write_text("no JSON")
    with _guarded_broker(tmp_path / "lab") as guard:
        assert lab.down() == 1, "a broker and its guard count as one"
        assert guard.wait(10) == -signal.SIGKILL
    assert processes.lab_processes(LabPaths(tmp_path / "lab")) == []


def test_lab_down_terminates_processes_of_lab_with_deleted_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "lab"
    with _guarded_broker(directory) as guard:
        assert main(["lab", "down", "--dir", str(directory)]) == 0
        assert guard.wait(10) == -signal.SIGKILL
    captured = capsys.readouterr()
    assert captured.out == "1 broker stopped\n"
    assert captured.err == ""
    assert processes.lab_processes(LabPaths(directory)) == []
    assert not directory.exists()


def test_lab_in_moved_directory_is_error_that_names_both_directories(lab_paths: LabPaths, tmp_path: Path) -> None:
    before = prepare(lab_paths, variables())
    moved = LabPaths(tmp_path / "moved")
    lab_paths.directory.rename(moved.directory)
    message = (
        f"directory {moved.directory} was moved or copied from {lab_paths.directory}, .* `activemq-fleet lab down "
        f"--dir {lab_paths.directory}`.* --dir {moved.directory}"
    )
    with pytest.raises(InputError, match=message):
        load_lab_state(moved)
    with pytest.raises(InputError, match=message):
        Lab(moved).down()
    after = prepare(moved, variables())
    assert load_lab_state(moved) == after
    assert (after.seed, after.addresses) == (before.seed, before.addresses), "the lab got other secrets or addresses"


def test_lab_down_without_lab_changes_nothing(tmp_path: Path) -> None:
    assert Lab.open("x", tmp_path / "lab").down() == 0
    assert not (tmp_path / "lab").exists()


def test_lab_prints_each_warning_about_inventory_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inventory = tmp_path / "hosts.yml"
    variables_of_all = "activemq_release: 5.18.3, activemq_ha: none, activemqq_heap: 1g"
    inventory.write_text(f"all: {{hosts: {{orders-mq01-a: , mqkiel: }}, vars: {{{variables_of_all}}}}}\n")
    lab = Lab.open(inventory, tmp_path / "lab", progress=print)
    for _ in range(2):
        lab.prepare()
    lines = capsys.readouterr().out.splitlines()
    for beginning in ("warning: T036 mqkiel, orders-mq01-a: ", "warning: T037 mqkiel: "):
        assert len([line for line in lines if line.startswith(beginning)]) == 1
