"""Attacks by the broker's account on root: what it plants in its store, and where root reads what its process prints.

Each test shows that the attack reached its target: the planted file is the one that root's program meets.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from activemq_fleet import deployment
from activemq_fleet.node.collect import thread_dumps
from activemq_fleet.node.process import proc as processes
from activemq_fleet.render.broker_paths import broker_directory_paths
from activemq_fleet.topology import build_fleet
from tests.situations import some_situations
from tests.unit.attackers import BROKER, common_directory, do_as, needs_root, owned_directory
from tests.unit.kahadb_journals import add, trace, write
from tests.waiting import wait_until

pytestmark = needs_root
DEADLINE = 120
"""Seconds after which a command hangs; it usually takes one or two."""
_RECORDS = ("claims", "ended", "behind", "replayed")
ADVICE = "Run the command as the account that owns the store"


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory of root's: ``store`` is a fenced store of the broker's account, ``secret`` a directory of root's."""
    with common_directory() as place:
        secret = place / "secret"
        secret.mkdir(mode=0o700)
        (secret / "list").write_text('[{"destination": "queue://ROOT-ONLY", "message": "CONTENT"}]')
        make_store(place / "store")
        yield place


def make_store(store: Path) -> None:
    owned_directory(store)
    do_as(BROKER, *(lambda name=name: os.makedirs(store / "fence" / name) for name in _RECORDS))
    do_as(BROKER, (store / "generations").mkdir)


def write_claim(store: Path, number: int, directory: str) -> Callable[[], object]:
    claim = {"number": number, "node": "x", "directory": directory, "open_file": "", "ends": {}, "is_whole": True}
    return lambda: (store / "fence" / "claims" / str(number)).write_text(json.dumps(claim))


def run_as_root(code: str, *arguments: object) -> str:
    """What a program of root's prints, with its exit status in front; it must end in time."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DEADLINE, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"timed out: root waits for what was planted: {arguments}")
    return f"exit {done.returncode}: {done.stdout}"


def store_command(*arguments: object) -> str:
    code = "import sys; from activemq_fleet.cli.main import main; sys.exit(main(sys.argv[1:]))"
    return run_as_root(code, "store", *arguments)


def test_store_inspect_as_root_does_not_wait_for_a_fifo_in_place_of_a_claim(place: Path) -> None:
    store = place / "store"
    do_as(BROKER, lambda: os.mkfifo(store / "fence/claims/3"))

    printed = store_command("inspect", store)

    assert printed.startswith("exit 2: ")
    assert "fence/claims/3 is a FIFO" in printed


def test_store_behind_as_root_reads_no_list_through_a_link(place: Path) -> None:
    store = place / "store"
    do_as(BROKER, lambda: (store / "fence/behind/1").symlink_to(place / "secret/list"))

    printed = store_command("behind", store)

    assert "ROOT-ONLY" not in printed
    assert printed.startswith("exit 2: ")
    assert "fence/behind/1 is a link" in printed


@some_situations(2)
@pytest.mark.parametrize("content", ["7", '[{"destination": 7}]', "[" * 100_000, "{", '["x"]'])
def test_store_behind_names_a_list_that_is_broken(place: Path, content: str) -> None:
    store = place / "store"
    do_as(BROKER, lambda: (store / "fence/behind/1").write_text(content))

    printed = store_command("behind", store)

    assert printed.startswith("exit 2: ")
    assert "fence/behind/1 is damaged" in printed
    assert "is a bug" not in printed


def test_removing_old_generations_as_root_follows_no_link_of_the_account(place: Path) -> None:
    store, victim = place / "store", place / "secret/1-abcdef0123456789"
    victim.mkdir()
    (store / "generations").rmdir()
    do_as(
        BROKER,
        write_claim(store, 1, victim.name),
        write_claim(store, 2, "2-abcdef0123456789"),
        lambda: (store / "generations").symlink_to(place / "secret"),
        (store / "fence/replayed/1").touch,
        lambda: (store / "fence/behind/1").write_text("[]"),
    )
    code = """if True:
        import sys
        from activemq_fleet.node.fence.old_generations import remove_and_describe_old_store_copies
        from activemq_fleet.node.fence.shared_store import SharedStore
        print(list(remove_and_describe_old_store_copies(SharedStore(sys.argv[1]))))
    """

    printed = run_as_root(code, store)

    assert victim.exists(), printed
    assert ADVICE in printed


def test_root_writes_no_record_through_a_link_of_the_account(place: Path) -> None:
    store = place / "store"
    (store / "fence/replayed").rmdir()
    do_as(BROKER, lambda: (store / "fence/replayed").symlink_to(place / "secret"))
    code = """if True:
        import sys
        from activemq_fleet.node.fence.shared_store import SharedStore
        SharedStore(sys.argv[1]).record_uncopied_messages_replayed(5, 0)
    """

    printed = run_as_root(code, store)

    assert os.listdir(place / "secret") == ["list"], printed
    assert ADVICE in printed


@pytest.mark.parametrize("option", [("--confirm", "1"), ("--unfence",), ("--mend",), ("--tidy",)])
def test_a_guard_command_of_root_names_the_account_to_run_it_as(place: Path, option: tuple[str, ...]) -> None:
    store = place / "store"
    do_as(BROKER, write_claim(store, 1, "1-abcdef0123456789"), (store / "lock").mkdir)

    code = "import sys; from activemq_fleet.node.fence.guard import main; main()"
    printed = run_as_root(code, "--store", store, *option)

    assert printed.startswith("exit 1: ")
    assert ADVICE in printed
    assert os.listdir(store / "fence/ended") == []


def test_store_inspect_of_root_reads_a_sound_store_as_its_account(place: Path) -> None:
    store = place / "plain"
    owned_directory(store)
    do_as(BROKER, lambda: write(store, trace(), add("m1"), add("m2")))

    printed = store_command("inspect", store)

    assert printed.startswith("exit 0: ")
    assert "queue://work  2" in printed


def make_unfenced_broker(place: Path) -> Path:
    """The directory of an installed broker of 5.5.1 whose account planted a fenced store next to its own."""
    from activemq_fleet.node.config.configuration_archive import ConfigurationFile
    from activemq_fleet.node.install.configuration_install import (
        Owners,
        install_configuration,
    )

    variables = {
        "activemq_release": "5.5.1",
        "activemq_ha": "none",
        "activemq_base": f"{place}/base",
        "activemq_install": "none",
        "activemq_service": "none",
        "activemq_authentication": "none",
    }
    host = "orders-mq01-a.example.com"
    broker = build_fleet({host: variables}, {}).broker(host)
    base = Path(broker_directory_paths(broker).base)
    base.parent.mkdir(parents=True, exist_ok=True)
    files = {
        path: ConfigurationFile(f.content, f.mode, f.masked, f.hidden)
        for path, f in deployment.files_to_deploy(broker).items()
    }
    install_configuration(str(base), files, Owners(user=BROKER, root=0, group=BROKER))
    data = base / "data"
    do_as(
        BROKER,
        (data / "kahadb").mkdir,
        lambda: write(data / "kahadb", trace(), add("m1")),
        lambda: os.makedirs(data / "evil/fence/claims"),
        lambda: (data / "shared").symlink_to(data / "evil"),
    )
    return base


COUNT = """if True:
    import json, sys
    from activemq_fleet.node.state.backlog import count_backlog
    print(json.dumps(count_backlog(sys.argv[1])))
"""


def plant_fifo(claim: Path, _secret: Path) -> None:
    os.mkfifo(claim)


def plant_link(claim: Path, secret: Path) -> None:
    claim.symlink_to(secret / "list")


@pytest.mark.parametrize("plant", [plant_fifo, plant_link])
def test_store_backlog_of_root_reads_no_claim_next_to_an_unfenced_store(
    place: Path, plant: Callable[[Path, Path], None]
) -> None:
    base = make_unfenced_broker(place)
    do_as(BROKER, lambda: plant(base / "data/evil/fence/claims/7", place / "secret"))

    printed = run_as_root(COUNT, base)

    assert printed.startswith("exit 0: "), printed
    assert json.loads(printed.partition(": ")[2])["queues"] == {"work": 1}


@pytest.mark.parametrize("plant", [plant_fifo, plant_link])
def test_store_backlog_of_root_reads_no_claim_behind_a_link_of_the_account(
    place: Path, plant: Callable[[Path, Path], None]
) -> None:
    """The account also makes its store look like the link of a guard."""
    base = make_unfenced_broker(place)
    do_as(
        BROKER,
        lambda: (base / "data/kahadb").rename(base / "data/moved"),
        lambda: (base / "data/kahadb").symlink_to("moved"),
        lambda: plant(base / "data/evil/fence/claims/7", place / "secret"),
    )

    printed = run_as_root(COUNT, base)

    assert "NodeError" in printed
    assert "cannot be counted, because the directory of its current files cannot be determined" in printed
    assert "ROOT-ONLY" not in printed


FAKE_BROKER = r"""
import os, signal, sys, time
secret, base = sys.argv[1], sys.argv[2]
os.dup2(os.open(base + "/data/console.log", os.O_RDWR | os.O_CREAT, 0o600), 1)
def dump(*_):
    try:
        os.write(1, b"Full thread dump\n")
    except OSError:
        return
    time.sleep(0.7)
    os.dup2(os.open(secret, os.O_PATH), 1)
    open(base + "/data/exchanged", "w").close()
signal.signal(signal.SIGQUIT, dump)
open(base + "/data/ready", "w").close()
while True:
    time.sleep(0.1)
"""


@contextmanager
def running_fake_broker(place: Path, secret: Path) -> Iterator[subprocess.Popen[bytes]]:
    owned_directory(place / "data")
    command = ["/usr/bin/python3", "-c", FAKE_BROKER, str(secret), str(place), f"-Dactivemq.base={place}", "start"]
    fake = subprocess.Popen(command, user=BROKER, group=BROKER, extra_groups=[])
    try:
        wait_for(place / "data/ready")
        yield fake
    finally:
        fake.send_signal(signal.SIGKILL)
        fake.wait()


def wait_for(path: Path) -> None:
    wait_until(path.exists, f"{path} exists", pause=0.05)


def test_a_thread_dump_holds_nothing_of_a_file_that_the_process_may_not_read(place: Path) -> None:
    """A descriptor opened with O_PATH needs no right to read, and root opens what /proc/PID/fd/1 leads to."""
    secret = place / "shadow"
    secret.write_text("root:ROOT-ONLY-HASH:19000::::::\n" * 5)
    secret.chmod(0o600)
    with running_fake_broker(place, secret) as fake:
        broker = processes.find_broker_process(str(place))
        assert broker is not None
        assert broker.pid == fake.pid
        dumps = thread_dumps.take_thread_dumps(broker, count=1)
        assert (place / "data/exchanged").exists(), "the attack did not run"
        assert dumps.texts == ["Full thread dump\n"]
        later = thread_dumps.take_thread_dumps(broker, count=1)

    assert later.texts == []
    assert "neither the journal of systemd nor a file of the broker's account" in later.notes[0]


def test_the_release_of_an_open_jar_is_read_through_one_descriptor(place: Path) -> None:
    """A descriptor that is a device, or becomes one, is not opened."""
    from activemq_fleet.node.install.jars import release_of_jar_at

    device = os.open("/dev/zero", os.O_RDONLY)
    try:
        assert release_of_jar_at(f"/proc/self/fd/{device}", "activemq-broker-5.18.3.jar") == "5.18.3"
    finally:
        os.close(device)
