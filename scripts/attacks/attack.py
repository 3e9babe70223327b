"""Run an attack on a separate pair, from the start of the pair to the count of the messages in its store."""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass, field
from pathlib import Path

from activemq_fleet.lab.lab import Lab
from activemq_fleet.node.config.probe_account import Login
from activemq_fleet.node.fence.old_generations import uncopied_messages
from activemq_fleet.node.fence.replay import MessageReplayConnection
from activemq_fleet.node.fence.shared_store import SharedStore
from activemq_fleet.node.timeouts import READY
from scripts.attacks.clients import FILLER_QUEUE, Sender, consume, sending, wait_until
from scripts.attacks.filled_pair import HOSTS, PAIR, start_filled, write_inventory
from scripts.attacks.forms import FORMS, ON_AN_IMAGE, Target, allocated_size
from scripts.attacks.store_image import StoreImage, store_image

# Small journal files and short intervals: an attack of some seconds includes rolls, checkpoints, cleanups, compactions.
_KAHADB = {"checkpointInterval": "1000", "cleanupInterval": "2000"}
_COMPACTED = 6.0
"""Seconds in which an idle broker of 5.14 or later moves acknowledgements, after two cleanups without effect."""
_CHECK_INTERVAL = 0.25
"""Seconds between two checks which nodes can write to the current store."""
_JOURNAL_FILES = 300  # the maximum in the store before the attack
_COMPACTION = {"compactAcksAfterNoGC": "2", "compactAcksIgnoresStoreGrowth": "true"}


@dataclass(frozen=True)
class Attack:
    """An attack: the release, the size of the store, the form, and the value of ``activemq_fence``.

    ``seconds`` is the duration of a form that repeats its faults.
    """

    release: str
    megabytes: int
    form: str
    fence: str
    number: int
    seconds: float = 60.0

    @property
    def name(self) -> str:
        """Return the unique name of the attack, which is the seed of all random choices."""
        return f"{self.release}/{self.megabytes}mb/{self.form}/{self.fence}/{self.number}"

    @property
    def has_aged_store(self) -> bool:
        """Return whether the store had takeovers and restarts before, and clients consume its messages."""
        return self.number % 2 == 1


@dataclass
class Result:
    """The result of an attack. ``lost`` messages were acknowledged, are not in the store, and no report lists them.

    ``delivered_after_restart`` messages were in the store, but the first broker delivered no message to its consumer
    for 30 s, and the restarted broker delivered them. ``first_and_last_lost`` are the numbers of lost messages by
    queue. A node acknowledged the messages of ``behind`` after its successor served: an old generation contained and
    listed them, and they were sent to the pair again before the count. ``two_masters`` names both nodes if both could
    write to the current store at a time. ``moment`` is the operation of the broker on its store when the attack began.
    ``room`` is the size of the store in bytes before a loop of crashes, and ``most_room`` the maximum during the loop.
    ``problem`` is the reason why the attack was not possible, or why the pair does not serve afterwards.
    """

    accepted: int = 0
    lost: int = 0
    behind: int = 0
    filler_lost: int = 0
    delivered_after_restart: int = 0
    silence: float = 0.0
    seconds: float = 0.0
    problem: str = ""
    two_masters: str = ""
    moment: str = ""
    room: int = 0
    most_room: int = 0
    queues: dict[str, int] = field(default_factory=dict)
    named: dict[str, int] = field(default_factory=dict)
    first_and_last_lost: dict[str, list[int]] = field(default_factory=dict)

    @property
    def is_sound(self) -> bool:
        """Return whether no message is lost, only one node could write at a time, and the pair serves."""
        return not (self.lost or self.filler_lost or self.problem or self.two_masters)


def carry_out(attack: Attack, parent: Path, heap: str, stores: Path | None = None, *, keep: bool) -> Result:
    """Start a pair below ``parent``, attack it under load, and count the messages that remain in its store.

    With ``keep``, the lab of a damaged store is not removed. ``stores`` is the directory of filled stores, which later
    attacks with the same release and size use again.
    """
    began = time.monotonic()
    result = Result()
    directory = Path(tempfile.mkdtemp(prefix="attack-", dir=parent))
    try:
        with ExitStack() as stack:
            image = None
            if attack.form in ON_AN_IMAGE:
                size = 400 + 4 * attack.megabytes
                image = stack.enter_context(store_image(directory / "image", directory / "lab/stores", size))
            lab = stack.enter_context(Lab.open(_inventory(directory, attack), directory / "lab", heap=heap))
            _attack(lab, attack, result, image, stores)
    except Exception as error:  # noqa: BLE001 - any error is the result of this attack, and the next attack runs
        result.problem = f"{type(error).__name__}: {error}"
        (parent / f"{attack.name.replace('/', '_')}.txt").write_text(traceback.format_exc())
    finally:  # also after an interrupted attack
        if result.is_sound or not keep:
            shutil.rmtree(directory, ignore_errors=True)
    result.seconds = time.monotonic() - began
    return result


def _attack(lab: Lab, attack: Attack, result: Result, image: StoreImage | None, stores: Path | None) -> None:
    fillers = start_filled(lab, attack.release, attack.megabytes, stores)
    active = lab.wait_active(PAIR, READY)
    credentials = lab.credentials(PAIR)
    if image:
        image.sync()
    if attack.has_aged_store:
        active = _age_store(lab, active)
    peer = next(host for host in HOSTS if host != active)
    dice = random.Random(attack.name)  # noqa: S311 - a moment, not a secret
    target = Target(lab, active, peer, attack.fence != "none", dice, image, attack.seconds)
    target.most_room = result.room = allocated_size(str(lab.fleet.broker(active).shared_store_directory))
    with (
        _record_two_masters(lab, result),
        sending(
            lab.addresses(PAIR, "stomp"),
            lab.addresses(active, "stomp"),
            credentials,
            consumed=attack.has_aged_store,
            has_topic=True,
        ) as senders,
    ):
        try:
            FORMS[attack.form](target)
        finally:
            result.moment, result.most_room = target.moment, target.most_room
        roaming, before = senders[0], senders[0].accepted
        wait_until(lambda: roaming.accepted > before + 20, "the pair accepts messages again")
        # The attacked node starts again, as its service unit would start it, and the pair continues.
        wait_until(lambda: _restart_if_dead(lab, active), f"{active} is active or standby")
        time.sleep(2)
    result.accepted = sum(sender.accepted for sender in senders)
    result.silence = senders[0].silence
    for host in HOSTS:
        if lab.is_alive(host):
            lab.kill(host)
    lab.up(timeout=READY)
    _count(lab, senders, fillers, result)


def _age_store(lab: Lab, active: str) -> str:
    """Cause a takeover, restart the new active node, start the first node as standby, and return the active node.

    A broker that starts continues in the last file of its journal, with any content.
    """
    time.sleep(_COMPACTED)
    lab.kill(active)
    successor = lab.wait_active(PAIR, READY)
    time.sleep(_COMPACTED)
    lab.kill(successor)
    lab.start(successor, timeout=READY)
    active = lab.wait_active(PAIR, READY)
    time.sleep(_COMPACTED)
    for host in HOSTS:
        if not lab.is_alive(host):
            lab.start(host, timeout=READY)
    return active


@contextmanager
def _record_two_masters(lab: Lab, result: Result) -> Iterator[None]:
    """Check repeatedly which nodes can write to the current store, and record the case that both can."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_CHECK_INTERVAL) and not result.two_masters:
            result.two_masters = lab.describe_two_masters(PAIR)

    thread = threading.Thread(target=watch, name="masters")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _restart_if_dead(lab: Lab, host: str) -> bool:
    """Start a node if its process is dead, and return whether the node is active or standby."""
    if not lab.is_alive(host):
        lab.start(host, wait=False)
    return lab.state(host) in ("active", "standby")


def _count(lab: Lab, senders: Sequence[Sender], fillers: int, result: Result) -> None:
    active = lab.wait_active(PAIR, READY)
    if lab.fleet.broker(active).has_guard:
        result.named = dict(_replay(lab, active))
        result.behind = sum(result.named.values())
    for sender in senders:
        result.queues[sender.queue] = _lost(lab, sender.queue, sender.accepted, sender.arrived, result)
    result.lost = sum(result.queues.values())
    result.filler_lost = _lost(lab, FILLER_QUEUE, fillers, set(), result)


def _lost(lab: Lab, queue: str, count: int, arrived: set[int], result: Result) -> int:
    """Return the number of messages of a queue that are not in the store, and record the first and the last of them.

    A message is lost if a consumer does not receive it, nor a consumer of the restarted broker.
    """
    active = lab.wait_active(PAIR, READY)
    lost = _missing(lab, active, queue, count, arrived)
    if lost:
        first_count = len(lost)
        lab.kill(active)
        lab.start(active, timeout=READY, wait=False)
        lost = _missing(lab, lab.wait_active(PAIR, READY), queue, count, set(range(count)) - set(lost))
        result.delivered_after_restart += first_count - len(lost)
    if lost:
        result.first_and_last_lost[queue] = [lost[0], lost[-1]]
    return len(lost)


def _missing(lab: Lab, active: str, queue: str, count: int, arrived: set[int]) -> list[int]:
    return consume(lab.addresses(active, "stomp")[0], queue, lab.credentials(PAIR), count, arrived)


def _replay(lab: Lab, active: str) -> Counter[str]:
    """Send the messages that only old generations contain to the pair; return their number by destination.

    A guard lists those messages, or removes the generation, some seconds after it detected that its broker is dead.
    """
    store = SharedStore(lab.fleet.broker(active).store_directory)
    wait_until(
        lambda: _old_generations(store) <= set(store.generation_numbers_with_uncopied_messages()),
        "the guards removed the old generations, or listed their messages",
    )
    login = lab.credentials(PAIR)
    counts: Counter[str] = Counter()
    for number in store.generation_numbers_with_uncopied_messages():
        with MessageReplayConnection(
            lab.addresses(active, "openwire")[0], Login(*astuple(login) if login else ("", ""))
        ) as connection:
            sent = connection.resend_uncopied_messages(uncopied_messages(store, number))
        counts.update(message.destination for message in uncopied_messages(store, number))
        store.record_uncopied_messages_replayed(number, sent)
    return counts


def _old_generations(store: SharedStore) -> set[int]:
    highest = store.highest_claim()
    return {number for number in store.generation_names_by_number() if highest and number < highest.number}


def _inventory(directory: Path, attack: Attack) -> Path:
    length = {"journalMaxFileLength": f"{max(1, attack.megabytes // _JOURNAL_FILES)}mb"}
    attributes = length | _KAHADB | (_COMPACTION if tuple(map(int, attack.release.split("."))) >= (5, 14) else {})
    text = " ".join(f"{name}='{value}'" for name, value in attributes.items())
    fragment = {"xml": f"<persistenceAdapter><kahaDB {text}/></persistenceAdapter>"}
    return write_inventory(directory, attack.release, attack.fence, activemq_xml_fragments=[fragment])
