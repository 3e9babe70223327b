"""Run one attack on a separate pair, from its start to the count of the messages that remain in its store."""

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
from activemq_fleet.node.fence.replay import ReplayConnection
from activemq_fleet.node.fence.shared_store import SharedStore
from activemq_fleet.node.timeouts import READY
from scripts.attacks.clients import FILLER_QUEUE, Sender, consume, sending, wait_until
from scripts.attacks.filled_pair import HOSTS, PAIR, start_filled, write_inventory
from scripts.attacks.forms import FORMS, ON_AN_IMAGE, Target, room_of
from scripts.attacks.store_image import StoreImage, store_image

# Small journal files and short intervals: an attack of some seconds meets rolls, checkpoints, clean-ups, compactions.
_KAHADB = {"checkpointInterval": "1000", "cleanupInterval": "2000"}
_COMPACTED = 6.0
"""Seconds in which an idle broker of 5.14 or later moves acknowledgements, which two clean-ups without effect begin."""
_LOOK = 0.25
"""Seconds between two looks at who can write to the store in force."""
_JOURNAL_FILES = 300  # at most, so many that the store holds beforehand
_COMPACTION = {"compactAcksAfterNoGC": "2", "compactAcksIgnoresStoreGrowth": "true"}


@dataclass(frozen=True)
class Attack:
    """One attack: on which release and how large a store, in which form, with which ``activemq_fence``.

    ``seconds``: how long a form takes that goes on and on.
    """

    release: str
    megabytes: int
    form: str
    fence: str
    number: int
    seconds: float = 60.0

    @property
    def name(self) -> str:
        """A name that no other attack has; it is the seed of all that is drawn by chance."""
        return f"{self.release}/{self.megabytes}mb/{self.form}/{self.fence}/{self.number}"

    @property
    def has_aged_store(self) -> bool:
        """True where the store has had takeovers and restarts before, and its messages are taken all the while."""
        return self.number % 2 == 1


@dataclass
class Result:
    """The result of an attack. ``lost`` messages were acknowledged, are not in the store, and no report lists them.

    ``delivered_after_restart`` ones came to a consumer of the broker that served next only: they were in the store, and
    the first broker gave its consumer nothing for 30 s. ``first_and_last_lost`` are their numbers, by queue. ``behind``
    were acknowledged by a node after its successor served: an old generation contained and listed them, and they were
    sent to the pair again before the count. ``two_masters`` names both nodes if they ever could both write to the store
    in force. ``moment`` is the operation of the broker on its store when the attack began. ``room`` is the size of the
    store in bytes before a loop of crashes, ``most_room`` the maximum during the loop. ``problem`` is the reason why
    the attack was not possible, or why the pair does not serve afterwards.
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
        """True where every acknowledged message is in the store or named, one node wrote at a time, and it serves."""
        return not (self.lost or self.filler_lost or self.problem or self.two_masters)


def carry_out(attack: Attack, parent: Path, heap: str, stores: Path | None = None, *, keep: bool) -> Result:
    """Start a pair below ``parent``, attack it under load, and count what is left in its store.

    ``keep`` leaves the lab of a damaged store where it is. ``stores`` is where filled stores are kept for later attacks
    on one of the same release and size.
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
    except Exception as error:  # noqa: BLE001 - whatever went wrong is the result of this attack, and the next one runs
        result.problem = f"{type(error).__name__}: {error}"
        (parent / f"{attack.name.replace('/', '_')}.txt").write_text(traceback.format_exc())
    finally:  # also of an interrupted attack
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
        active = _wear(lab, active)
    other = next(host for host in HOSTS if host != active)
    chance = random.Random(attack.name)  # noqa: S311 - a moment, not a secret
    target = Target(lab, active, other, attack.fence != "none", chance, image, attack.seconds)
    target.most_room = result.room = room_of(str(lab.fleet.broker(active).shared_store_directory))
    with (
        _watched(lab, result),
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
        wait_until(lambda: roaming.accepted > before + 20, "messages are taken again")
        # The node that was attacked comes back, as its unit would bring it, and the pair goes on.
        wait_until(lambda: _is_back(lab, active), f"{active} is back")
        time.sleep(2)
    result.accepted = sum(sender.accepted for sender in senders)
    result.silence = senders[0].silence
    for host in HOSTS:
        if lab.is_alive(host):
            lab.kill(host)
    lab.up(timeout=READY)
    _count(lab, senders, fillers, result)


def _wear(lab: Lab, active: str) -> str:
    """Let the other node take over and the first one stand by, and restart the active one; return which is active.

    A broker that starts goes on in the last file of its journal, whatever that holds.
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
def _watched(lab: Lab, result: Result) -> Iterator[None]:
    """Look again and again which nodes can write to the store in force, and note it if both can."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_LOOK) and not result.two_masters:
            result.two_masters = lab.describe_two_masters(PAIR)

    thread = threading.Thread(target=watch, name="masters")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _is_back(lab: Lab, host: str) -> bool:
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
    """Return how many messages of a queue are not in the store, and note which.

    Those that a consumer does not get count once a consumer of a broker that was started after it does not either.
    """
    active = lab.wait_active(PAIR, READY)
    lost = _missing(lab, active, queue, count, arrived)
    if lost:
        missed = len(lost)
        lab.kill(active)
        lab.start(active, timeout=READY, wait=False)
        lost = _missing(lab, lab.wait_active(PAIR, READY), queue, count, set(range(count)) - set(lost))
        result.delivered_after_restart += missed - len(lost)
    if lost:
        result.first_and_last_lost[queue] = [lost[0], lost[-1]]
    return len(lost)


def _missing(lab: Lab, active: str, queue: str, count: int, arrived: set[int]) -> list[int]:
    return consume(lab.addresses(active, "stomp")[0], queue, lab.credentials(PAIR), count, arrived)


def _replay(lab: Lab, active: str) -> Counter[str]:
    """Send to the pair what only old generations hold; return the number of messages by destination.

    Guards name those messages, or remove the generation, some seconds after they know that its broker is dead.
    """
    store = SharedStore(lab.fleet.broker(active).store_directory)
    wait_until(
        lambda: _old_generations(store) <= set(store.generation_numbers_with_uncopied_messages()),
        "old generations are gone or named",
    )
    login = lab.credentials(PAIR)
    named: Counter[str] = Counter()
    for number in store.generation_numbers_with_uncopied_messages():
        with ReplayConnection(
            lab.addresses(active, "openwire")[0], Login(*astuple(login) if login else ("", ""))
        ) as connection:
            sent = connection.resend_uncopied_messages(uncopied_messages(store, number))
        named.update(message.destination for message in uncopied_messages(store, number))
        store.record_uncopied_messages_replayed(number, sent)
    return named


def _old_generations(store: SharedStore) -> set[int]:
    highest = store.highest_claim()
    return {number for number in store.generation_names_by_number() if highest and number < highest.number}


def _inventory(directory: Path, attack: Attack) -> Path:
    length = {"journalMaxFileLength": f"{max(1, attack.megabytes // _JOURNAL_FILES)}mb"}
    attributes = length | _KAHADB | (_COMPACTION if tuple(map(int, attack.release.split("."))) >= (5, 14) else {})
    text = " ".join(f"{name}='{value}'" for name, value in attributes.items())
    fragment = {"xml": f"<persistenceAdapter><kahaDB {text}/></persistenceAdapter>"}
    return write_inventory(directory, attack.release, attack.fence, activemq_xml_fragments=[fragment])
