from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet import artifacts
from activemq_fleet.cli.main import main
from activemq_fleet.errors import ArtifactError, LabError
from activemq_fleet.inventory import InventoryData, read_inventory
from activemq_fleet.lab import Lab, preparation, processes
from activemq_fleet.lab.address_reservation import AddressBlockReservations
from activemq_fleet.lab.layout import LabLayout, write_lab_file
from activemq_fleet.lab.state import LabState, load_lab_state
from activemq_fleet.settings.encrypted import UndecryptedVaultValue
from activemq_fleet.topology import build_fleet
from tests.unit.lab_fleets import PAIR, variables

A, B = PAIR


@pytest.fixture(autouse=True)
def software(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing is fetched: a release is an empty directory."""
    home = tmp_path / "software"
    home.mkdir()
    monkeypatch.setattr(artifacts, "java_executable", lambda _minimum: Path("/usr/lib/jvm/bin/java"))
    monkeypatch.setattr(artifacts, "fetch_and_unpack_distribution", lambda _release, progress: None)
    monkeypatch.setattr(artifacts, "fetch_jar_directory", lambda _release, progress: home)
    return home


@pytest.fixture
def layout(tmp_path: Path) -> LabLayout:
    return LabLayout(tmp_path / "lab")


def prepare(layout: LabLayout, hosts: dict[str, dict[str, Any]]) -> LabState:
    data = InventoryData(hosts, {})
    return preparation.prepare_lab(
        layout, data, AddressBlockReservations(layout.directory.parent / "claims"), lambda _line: None
    )[0]


def test_what_is_saved_is_what_was_prepared(layout: LabLayout) -> None:
    assert load_lab_state(layout) is None
    prepared = prepare(layout, variables())
    assert load_lab_state(layout) == prepared


@pytest.mark.parametrize(
    ("releases", "minimum"),
    [(("5.5.1", "5.5.1"), 11), (("5.18.3", "5.18.3"), 11), (("5.18.3", "6.3.1"), 17), (("6.3.1", "6.3.1"), 17)],
)
def test_lab_requires_the_java_of_its_newest_release(
    layout: LabLayout, monkeypatch: pytest.MonkeyPatch, releases: tuple[str, str], minimum: int
) -> None:
    required: list[int] = []

    def find_java(oldest: int) -> Path:
        required.append(oldest)
        return Path("/usr/lib/jvm/bin/java")

    monkeypatch.setattr(artifacts, "java_executable", find_java)
    first, second = releases
    hosts = variables(release=first, ha="shared-file", store_directory="/srv/a")
    others = variables("sales-mq01-a", "sales-mq01-b", release=second, ha="shared-file", store_directory="/srv/b")
    prepare(layout, hosts | others)
    assert required == [minimum]


def test_everything_with_secrets_is_private(layout: LabLayout) -> None:
    prepare(layout, variables())
    files = [layout.state, *layout.host_vars.iterdir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE(layout.directory.stat().st_mode) == 0o700


def test_preparing_again_changes_nothing(layout: LabLayout) -> None:
    first = prepare(layout, variables(network_password=UndecryptedVaultValue("x")))
    assert prepare(layout, variables(network_password=UndecryptedVaultValue("x"))) == first


def test_a_host_that_left_the_inventory_leaves_the_layer(layout: LabLayout) -> None:
    prepare(layout, variables(*PAIR, "archive-mq01-a.example.com", ha="none"))
    prepare(layout, variables())
    assert {path.stem for path in layout.host_vars.iterdir()} == set(PAIR)


def test_status_says_that_the_lab_is_that_of_another_inventory(
    layout: LabLayout, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = tmp_path / "own.yml", tmp_path / "other.yml"
    preparation.prepare_lab(
        layout, InventoryData(variables(), {}), AddressBlockReservations(tmp_path / "claims"), print, [str(own)]
    )
    monkeypatch.chdir(tmp_path)
    for source, said in (
        ("own.yml", ""),
        (
            str(other),
            f"in the directory {layout.directory} was started with another inventory ({own}), and the output shows ",
        ),
    ):
        capsys.readouterr()
        assert main(["lab", "status", "-i", source, "--dir", str(layout.directory), "--format", "json"]) == 0
        shown = capsys.readouterr()
        assert [host["host"] for host in json.loads(shown.out)] == list(PAIR)
        assert said in shown.err
        assert len(shown.err.splitlines()) == bool(said)


def test_a_lab_of_before_inventories_were_kept_is_read(layout: LabLayout) -> None:
    prepare(layout, variables())
    known = json.loads(layout.state.read_text())
    del known["sources"]
    layout.state.write_text(json.dumps(known))
    assert Lab(layout, sources=["/x"]).original_sources_if_different() == ()


def test_a_full_disk_is_named(small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(b"x" * 60_000)
    with pytest.raises(LabError, match=rf"{small_disk}/state cannot be written \(No space left on device\)"):
        write_lab_file(small_disk / "state", b"x" * 20_000)
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


def test_a_file_of_another_version_is_one_line_and_prepared_anew(layout: LabLayout) -> None:
    prepare(layout, variables())
    layout.state.write_text(json.dumps({"format": 0}))
    with pytest.raises(LabError, match="of the lab is damaged, or another version"):
        load_lab_state(layout)
    prepare(layout, variables())
    assert load_lab_state(layout) is not None


def test_a_fleet_with_errors_is_refused_with_the_first_of_them(layout: LabLayout) -> None:
    with pytest.raises(LabError, match=r"T002 .* has only one node"):
        prepare(layout, variables(A))
    assert not layout.directory.exists()


def test_errors_of_the_rules_are_told_and_the_fleet_can_be_tried_all_the_same(layout: LabLayout) -> None:
    told: list[str] = []
    data = InventoryData(variables(broker_attributes={"deleteAllMessagesOnStartup": "true"}), {})
    preparation.prepare_lab(layout, data, AddressBlockReservations(layout.directory.parent / "claims"), told.append)

    assert [line.partition(" (conf/activemq.xml:")[0] for line in told] == [
        f"warning: L020 {A}, {B}",
    ]


def local_release(directory: Path, release: str) -> Path:
    """Return a directory with the jar by which a release is recognized."""
    directory.mkdir(parents=True)
    (directory / f"activemq-broker-{release}.jar").touch()
    return directory


@pytest.mark.parametrize("install", ["archive", "none"])
def test_directory_of_local_distribution_is_the_software(layout: LabLayout, tmp_path: Path, install: str) -> None:
    library = local_release(tmp_path / "apache-activemq-6.3.1" / "lib", "6.3.1")
    state = prepare(layout, variables(archive={"6.3.1": str(library.parent)}, install=install))

    assert (state.software["6.3.1"].home, state.software["6.3.1"].whole) == (str(library.parent), True)


def test_directory_of_local_jars_is_the_library(layout: LabLayout, tmp_path: Path) -> None:
    jars = local_release(tmp_path / "jars", "6.3.1")
    state = prepare(layout, variables(archive=str(jars), install="jars"))

    assert (Path(state.software["6.3.1"].home) / "lib").resolve() == jars
    assert not state.software["6.3.1"].whole


def test_local_distribution_of_another_release_is_refused(layout: LabLayout, tmp_path: Path) -> None:
    library = local_release(tmp_path / "apache-activemq-6.3.0" / "lib", "6.3.0")
    with pytest.raises(ArtifactError, match=r"the broker of ActiveMQ 6\.3\.0, but activemq_release is 6\.3\.1"):
        prepare(layout, variables(archive=str(library.parent)))


@pytest.mark.parametrize("archive", ["https://example.org/activemq.tar.gz", "/nonexistent/activemq.tar.gz"])
def test_archive_that_is_not_on_this_machine_is_fetched(layout: LabLayout, software: Path, archive: str) -> None:
    state = prepare(layout, variables(archive=archive))
    assert (Path(state.software["6.3.1"].home) / "lib").resolve() == software


def test_release_that_cannot_be_fetched_names_variable_for_local_archive(
    layout: LabLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_release: object, progress: object) -> None:
        raise ArtifactError("no network")

    monkeypatch.setattr(artifacts, "fetch_and_unpack_distribution", fail)
    monkeypatch.setattr(type(build_fleet(variables()).brokers[0].release), "jars_available", False)
    with pytest.raises(ArtifactError, match=r"no network\. If you have release [0-9.]+, add -e activemq_archive=FILE"):
        prepare(layout, variables())


def test_jars_do_where_a_distribution_does_not_come(layout: LabLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_release: object, progress: object) -> None:
        raise ArtifactError("no network")

    monkeypatch.setattr(artifacts, "fetch_and_unpack_distribution", fail)
    prepared = prepare(layout, variables(release="5.18.3"))
    assert not prepared.software["5.18.3"].whole
    assert prepared.hosts[A]["activemq_console"] is False


def test_a_release_that_cannot_be_had_is_refused(layout: LabLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_release: object, progress: object) -> None:
        raise ArtifactError("the jars of 6.3.1 are not available: no network")

    monkeypatch.setattr(artifacts, "fetch_jar_directory", fail)
    with pytest.raises(ArtifactError, match="no network"):
        prepare(layout, variables())


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


def test_the_layer_wins_over_the_inventorys_own_host_variables(tmp_path: Path, layout: LabLayout) -> None:
    with _inventory(tmp_path) as source:
        prepared = prepare(layout, read_inventory([str(source)]).hosts)
        layered = read_inventory([str(source), str(layout.overlay_inventory_path)])
    assert layered.hosts == prepared.hosts


def test_a_lab_that_was_never_started_says_how_to(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="lab up"):
        Lab.open("x", tmp_path / "lab").status()


def test_lab_of_fleet_has_the_brokers_of_that_fleet(tmp_path: Path) -> None:
    names = ("orders1x", "orders1y")
    pattern = r"(?P<group>[a-z]+)(?P<number>[0-9])(?P<node>[xy])"
    known = {"activemq_release": "6.3.1", "activemq_ha": "shared-file", "activemq_master_node": "x"}
    agents = {"activemq_agents": ["shop1"]}
    hosts = {
        **dict.fromkeys(names, known),
        "shop1": {"activemq_agent_username": "shop", "activemq_agent_password": "s3cret-shop"},
    }
    fleet = build_fleet(hosts, agents, naming_pattern=pattern)
    lab = Lab.of_fleet(fleet, tmp_path / "lab")
    lab.prepare()
    assert [broker.host for broker in lab.fleet.brokers] == list(names)
    assert [agent.host for agent in lab.fleet.agents] == ["shop1"]
    assert [broker.role for broker in lab.fleet.brokers] == ["master", "slave"]
    first, second = lab.uris("orders-mq1")
    assert first.startswith("tcp://127.")
    assert lab.uris("orders1y") == (second,)
    assert str(lab.store_directory("orders1x")).startswith(f"{tmp_path}/lab/stores/")


def test_down_ends_stray_processes_of_a_lab_whose_state_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[object] = []
    lab = Lab.open("x", tmp_path / "lab")
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab/lab.json").write_text("no JSON")
    monkeypatch.setattr(processes, "lab_processes", lambda _layout: ["a process"])
    monkeypatch.setattr(processes, "terminate_processes", lambda strays, grace: ended.extend(strays))
    with pytest.raises(LabError, match="of the lab is damaged, or another version"):
        lab.down()
    assert ended == ["a process"]


def test_taking_down_what_is_not_there_is_nothing(tmp_path: Path) -> None:
    assert Lab.open("x", tmp_path / "lab").down() == 0
    assert not (tmp_path / "lab").exists()


def test_lab_warns_once_of_what_check_finds_in_the_inventory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = tmp_path / "hosts.yml"
    variables_of_all = "activemq_release: 5.18.3, activemq_ha: none, activemqq_heap: 1g"
    inventory.write_text(f"all: {{hosts: {{orders-mq01-a: , mqkiel: }}, vars: {{{variables_of_all}}}}}\n")
    lab = Lab.open(inventory, tmp_path / "lab", progress=print)
    for _ in range(2):
        lab.prepare()
    lines = capsys.readouterr().out.splitlines()
    for beginning in ("warning: T036 mqkiel, orders-mq01-a: ", "warning: T037 mqkiel: "):
        assert len([line for line in lines if line.startswith(beginning)]) == 1
