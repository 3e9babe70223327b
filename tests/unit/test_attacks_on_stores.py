"""Attacks by the broker's account on root, through files in its store and through the output of its process.

Each test shows that the attack reached its target: root's program meets the planted file.
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
from activemq_fleet.render.broker_paths import paths_of_broker
from activemq_fleet.topology import build_fleet
from tests.situations import some_situations
from tests.unit.attackers import BROKER, call_as, create_owned_directory, directory_for_all_accounts, requires_root
from tests.unit.kahadb_journals import add_record, trace_record, write_data_file
from tests.waiting import wait_until

pytestmark = requires_root
DEADLINE = 120
"""Seconds after which a command counts as hung; it usually takes 1 or 2 seconds."""
_RECORDS = ("claims", "ended", "behind", "replayed")
ADVICE = "Run the command as the account that owns the store"


@pytest.fixture
def root_directory() -> Iterator[Path]:
    """Yield a directory with ``store``, a fenced store of the broker's account, and root's directory ``secret``."""
    with directory_for_all_accounts() as root_directory:
        secret = root_directory / "secret"
        secret.mkdir(mode=0o700)
        (secret / "list").write_text('[{"destination": "queue://ROOT-ONLY", "message": "CONTENT"}]')
        make_store(root_directory / "store")
        yield root_directory


def make_store(store: Path) -> None:
    create_owned_directory(store)
    call_as(BROKER, *(lambda name=name: os.makedirs(store / "fence" / name) for name in _RECORDS))
    call_as(BROKER, (store / "generations").mkdir)


def write_claim(store: Path, number: int, directory: str) -> Callable[[], object]:
    claim = {"number": number, "node": "x", "directory": directory, "open_file": "", "ends": {}, "is_whole": True}
    return lambda: (store / "fence" / "claims" / str(number)).write_text(json.dumps(claim))


def run_as_root(code: str, *arguments: object) -> str:
    """Return the output of a program of root after its exit status; fail if the program does not stop in time."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    try:
        process = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DEADLINE, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"timed out: the program of root waits for a planted file. Its arguments are {arguments}")
    return f"exit {process.returncode}: {process.stdout}"


def store_command(*arguments: object) -> str:
    program = "import sys; from activemq_fleet.cli.main import main; sys.exit(main(sys.argv[1:]))"
    return run_as_root(program, "store", *arguments)


def test_store_inspect_as_root_rejects_fifo_in_place_of_claim(root_directory: Path) -> None:
    store = root_directory / "store"
    call_as(BROKER, lambda: os.mkfifo(store / "fence/claims/3"))

    output = store_command("inspect", store)

    assert output.startswith("exit 2: ")
    assert "fence/claims/3 is a FIFO" in output


def test_command_store_behind_as_root_reads_no_list_through_symlink(root_directory: Path) -> None:
    store = root_directory / "store"
    call_as(BROKER, lambda: (store / "fence/behind/1").symlink_to(root_directory / "secret/list"))

    output = store_command("behind", store)

    assert "ROOT-ONLY" not in output
    assert output.startswith("exit 2: ")
    assert "fence/behind/1 is a link" in output


@some_situations(2)
@pytest.mark.parametrize("content", ["7", '[{"destination": 7}]', "[" * 100_000, "{", '["x"]'])
def test_command_store_behind_names_file_of_damaged_message_list(root_directory: Path, content: str) -> None:
    store = root_directory / "store"
    call_as(BROKER, lambda: (store / "fence/behind/1").write_text(content))

    output = store_command("behind", store)

    assert output.startswith("exit 2: ")
    assert "fence/behind/1 is damaged" in output
    assert "is a bug" not in output


def test_removal_of_old_generations_as_root_follows_no_symlink_of_account(root_directory: Path) -> None:
    store, victim = root_directory / "store", root_directory / "secret/1-abcdef0123456789"
    victim.mkdir()
    (store / "generations").rmdir()
    call_as(
        BROKER,
        write_claim(store, 1, victim.name),
        write_claim(store, 2, "2-abcdef0123456789"),
        lambda: (store / "generations").symlink_to(root_directory / "secret"),
        (store / "fence/replayed/1").touch,
        lambda: (store / "fence/behind/1").write_text("[]"),
    )
    program = """if True:
        import sys
        from activemq_fleet.node.fence.old_generations import remove_and_describe_old_store_copies
        from activemq_fleet.node.fence.shared_store import SharedStore
        print(list(remove_and_describe_old_store_copies(SharedStore(sys.argv[1]))))
    """

    output = run_as_root(program, store)

    assert victim.exists(), output
    assert ADVICE in output


def test_root_writes_no_fence_record_through_symlink_of_account(root_directory: Path) -> None:
    store = root_directory / "store"
    (store / "fence/replayed").rmdir()
    call_as(BROKER, lambda: (store / "fence/replayed").symlink_to(root_directory / "secret"))
    program = """if True:
        import sys
        from activemq_fleet.node.fence.shared_store import SharedStore
        SharedStore(sys.argv[1]).record_uncopied_messages_replayed(5, 0)
    """

    output = run_as_root(program, store)

    assert os.listdir(root_directory / "secret") == ["list"], output
    assert ADVICE in output


@pytest.mark.parametrize("option", [("--confirm", "1"), ("--unfence",), ("--mend",), ("--tidy",)])
def test_guard_command_of_root_advises_account_of_store(root_directory: Path, option: tuple[str, ...]) -> None:
    store = root_directory / "store"
    call_as(BROKER, write_claim(store, 1, "1-abcdef0123456789"), (store / "lock").mkdir)

    program = "import sys; from activemq_fleet.node.fence.guard_cli import main; main()"
    output = run_as_root(program, "--store", store, *option)

    assert output.startswith("exit 1: ")
    assert ADVICE in output
    assert os.listdir(store / "fence/ended") == []


def test_store_inspect_as_root_reads_healthy_store_of_account(root_directory: Path) -> None:
    store = root_directory / "plain"
    create_owned_directory(store)
    call_as(BROKER, lambda: write_data_file(store, trace_record(), add_record("m1"), add_record("m2")))

    output = store_command("inspect", store)

    assert output.startswith("exit 0: ")
    assert "queue://work  2" in output


def make_unfenced_broker(root_directory: Path) -> Path:
    """Install a broker of 5.5.1 whose account planted a fenced store next to its store; return its base directory."""
    from activemq_fleet.node.config.configuration_archive import ConfigurationFile
    from activemq_fleet.node.install.configuration_install import (
        Owners,
        install_configuration,
    )

    variables = {
        "activemq_release": "5.5.1",
        "activemq_ha": "none",
        "activemq_base": f"{root_directory}/base",
        "activemq_install": "none",
        "activemq_service": "none",
        "activemq_authentication": "none",
    }
    host = "orders-mq01-a.example.com"
    broker = build_fleet({host: variables}, {}).broker(host)
    base = Path(paths_of_broker(broker).base)
    base.parent.mkdir(parents=True, exist_ok=True)
    files = {
        path: ConfigurationFile(file.content, file.mode, file.masked, file.hidden)
        for path, file in deployment.files_to_deploy(broker).items()
    }
    install_configuration(str(base), files, Owners(user=BROKER, root=0, group=BROKER))
    data_directory = base / "data"
    call_as(
        BROKER,
        (data_directory / "kahadb").mkdir,
        lambda: write_data_file(data_directory / "kahadb", trace_record(), add_record("m1")),
        lambda: os.makedirs(data_directory / "evil/fence/claims"),
        lambda: (data_directory / "shared").symlink_to(data_directory / "evil"),
    )
    return base


COUNT_BACKLOG = """if True:
    import json, sys
    from activemq_fleet.node.state.backlog import count_backlog
    print(json.dumps(count_backlog(sys.argv[1])))
"""


def plant_fifo(claim: Path, _secret: Path) -> None:
    os.mkfifo(claim)


def plant_link(claim: Path, secret: Path) -> None:
    claim.symlink_to(secret / "list")


@pytest.mark.parametrize("plant", [plant_fifo, plant_link])
def test_store_backlog_as_root_reads_no_claim_next_to_unfenced_store(
    root_directory: Path, plant: Callable[[Path, Path], None]
) -> None:
    base = make_unfenced_broker(root_directory)
    call_as(BROKER, lambda: plant(base / "data/evil/fence/claims/7", root_directory / "secret"))

    output = run_as_root(COUNT_BACKLOG, base)

    assert output.startswith("exit 0: "), output
    assert json.loads(output.partition(": ")[2])["queues"] == {"work": 1}


@pytest.mark.parametrize("plant", [plant_fifo, plant_link])
def test_store_backlog_as_root_reads_no_claim_through_symlink_of_account(
    root_directory: Path, plant: Callable[[Path, Path], None]
) -> None:
    """The account also replaces its store by a symbolic link, as a guard does."""
    base = make_unfenced_broker(root_directory)
    call_as(
        BROKER,
        lambda: (base / "data/kahadb").rename(base / "data/moved"),
        lambda: (base / "data/kahadb").symlink_to("moved"),
        lambda: plant(base / "data/evil/fence/claims/7", root_directory / "secret"),
    )

    output = run_as_root(COUNT_BACKLOG, base)

    assert "NodeError" in output
    assert "cannot be counted, because the directory of its current files cannot be determined" in output
    assert "ROOT-ONLY" not in output


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
def running_fake_broker(root_directory: Path, secret: Path) -> Iterator[subprocess.Popen[bytes]]:
    create_owned_directory(root_directory / "data")
    command = [
        "/usr/bin/python3",
        "-c",
        FAKE_BROKER,
        str(secret),
        str(root_directory),
        f"-Dactivemq.base={root_directory}",
        "start",
    ]
    fake_process = subprocess.Popen(command, user=BROKER, group=BROKER, extra_groups=[])
    try:
        wait_for(root_directory / "data/ready")
        yield fake_process
    finally:
        fake_process.send_signal(signal.SIGKILL)
        fake_process.wait()


def wait_for(path: Path) -> None:
    wait_until(path.exists, f"{path} exists", pause=0.05)


def test_thread_dump_contains_nothing_of_file_unreadable_to_process(root_directory: Path) -> None:
    """A descriptor opened with O_PATH requires no read permission, and root opens the target of /proc/PID/fd/1."""
    secret = root_directory / "shadow"
    secret.write_text("root:ROOT-ONLY-HASH:19000::::::\n" * 5)
    secret.chmod(0o600)
    with running_fake_broker(root_directory, secret) as fake_process:
        broker = processes.find_broker_process(str(root_directory))
        assert broker is not None
        assert broker.pid == fake_process.pid
        dumps = thread_dumps.take_thread_dumps(broker, count=1)
        assert (root_directory / "data/exchanged").exists(), (
            "the fake broker did not exchange its descriptor: the attack did not run"
        )
        assert dumps.texts == ["Full thread dump\n"]
        later = thread_dumps.take_thread_dumps(broker, count=1)

    assert later.texts == []
    assert "neither the journal of systemd nor a file of the broker's account" in later.notes[0]


def test_release_of_jar_is_read_from_its_name_when_descriptor_is_device(root_directory: Path) -> None:
    """A descriptor that is a device, or becomes a device, is not opened."""
    from activemq_fleet.node.install.jars import release_of_jar_at

    device = os.open("/dev/zero", os.O_RDONLY)
    try:
        assert release_of_jar_at(f"/proc/self/fd/{device}", "activemq-broker-5.18.3.jar") == "5.18.3"
    finally:
        os.close(device)
