"""Host rules about the account that runs the broker, and its numeric ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from activemq_fleet.lint.document import Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.hosts import HostView
from activemq_fleet.node.process.service_names import watchdog_service_name

if TYPE_CHECKING:
    from activemq_fleet.node.state.evidence import MachineFacts

_EFFECT_OF_DIFFERENT_IDS = (
    "the nodes may use different ids, and one then cannot read what the other writes to the shared store"
)


@rule("L037", "error", scope="host")
def shared_store_account_ids_may_differ(host: HostView) -> Iterator[Problem]:
    """The broker's account has different numeric ids on the two nodes of a shared store, or ids that no variable sets.

    Why: a file belongs to a numeric id. One node cannot read the store that a different id on the other node writes. If
        no variable sets the ids, each host chooses the next free ids, which can differ.
    Fix: set activemq_uid and activemq_gid to the same numbers on both nodes.
    Source: measured: the account got the id 999 on one host and 997 on the other

    Fires on 5.18.3::

        broker: {peer: orders-mq01-b}
        facts: {account_exists: true, account_uid: 999, account_gid: 999}
        peer: {account_exists: true, account_uid: 997, account_gid: 997}

    Fires on 5.18.3::

        broker: {peer: orders-mq01-b}
        facts: {account_exists: true, account_uid: 999, account_gid: 999}
        peer: {account_exists: false}

    Fires on 5.18.3::

        broker: {peer: orders-mq01-b}
        facts: {account_exists: false}
        peer: {account_exists: false}

    Silent on 5.18.3::

        broker: {peer: orders-mq01-b}
        facts: {account_exists: true, account_uid: 999, account_gid: 999}
        peer: {account_exists: true, account_uid: 999, account_gid: 999}

    Silent on 5.18.3::

        broker: {peer: orders-mq01-b, uid: 990, gid: 990}
        facts: {account_exists: false}
        peer: {account_exists: false}
    """
    broker, facts, peer = host.broker, host.facts, host.peer
    is_first = broker.peer is not None and broker.host < broker.peer
    is_shared = broker.ha_profile.shares_store_directory and broker.owner is not None and broker.uid is None
    is_known = facts.account_exists is not None and peer.account_exists is not None
    is_one_machine = facts.boot is not None and facts.boot == peer.boot
    if not (is_first and is_shared and is_known) or is_one_machine or _have_same_id(facts, peer):
        return
    ids = {broker.host: facts, str(broker.peer): peer}
    known = {
        name: (machine.account_uid, machine.account_gid) for name, machine in ids.items() if machine.account_exists
    }
    if len(known) == 2:
        uids = " and ".join(f"{uid} on {name}" for name, (uid, _gid) in known.items())
        yield Problem(
            f"the account {broker.user} has uid {uids}: one node cannot read what the other writes to the shared store",
            fix="choose numbers UID and GID that are free on both nodes. Then "
            + _id_change_instruction(host, "UID", "GID", "set activemq_uid: UID and activemq_gid: GID on both nodes"),
        )
    elif known:
        ((name, (uid, gid)),) = known.items()
        host_without_account = next(other for other in ids if other != name)
        yield Problem(
            f"the account {broker.user} has uid {uid} on {name} and does not exist on {host_without_account}, and "
            f"activemq_uid is not set: {_EFFECT_OF_DIFFERENT_IDS}",
            fix=f"set activemq_uid: {uid} and activemq_gid: {gid if gid is not None else uid} for both nodes",
        )
    else:
        yield Problem(
            f"the account {broker.user} exists neither on {broker.host} nor on {broker.peer}, and activemq_uid is not "
            f"set: {_EFFECT_OF_DIFFERENT_IDS}",
            fix="set activemq_uid and activemq_gid to numbers that are free on both nodes, such as 990",
        )


def _have_same_id(facts: MachineFacts, peer: MachineFacts) -> bool:
    return facts.account_uid is not None and facts.account_uid == peer.account_uid


def _id_change_instruction(host: HostView, uid: int | str | None, gid: int | str | None, last_step: str) -> str:
    """Return an instruction to change the numeric ids of the broker's account; an id that is None is not changed.

    ``last_step`` is the instruction after the commands.
    """
    commands = [
        *_group_creation_commands(host, host.broker.gid if gid is None else gid),
        *([f"groupmod -g {gid} {host.broker.user}"] if gid is not None and host.facts.account_gid is not None else []),
        *([f"usermod -u {uid} {host.broker.user}"] if uid is not None else []),
    ]
    return _owner_change_instruction(host, commands, last_step)


def _owner_change_instruction(host: HostView, account_commands: Sequence[str], last_step: str) -> str:
    """Return an instruction to stop the broker, change its account, and give the account the broker's files.

    ``account_commands`` are the commands that change or create the account. ``last_step`` is the instruction after the
    commands.
    """
    broker = host.broker
    is_shared = broker.ha_profile.shares_store_directory and broker.peer is not None
    hosts = f"{broker.host} and {broker.peer}" if is_shared else broker.host
    directories = " ".join(dict.fromkeys([broker.base, *([broker.directory] if broker.directory else [])]))
    commands = [*account_commands, f"chown -R {broker.user}:{broker.user} {directories}"]
    stop_step = f"stop the services {broker.instance} and {watchdog_service_name(broker.instance)} on {hosts}"
    return f"{stop_step}, run `{'; '.join(commands)}` on {hosts}, and {last_step}"


@rule("L038", "error", scope="host")
def account_cannot_get_configured_id(host: HostView) -> Iterator[Problem]:
    """The broker's account cannot get the numeric id that the inventory sets.

    Why: usermod refuses to change an account whose processes run, and the files of the account keep its old id. An id
        that belongs to another account cannot be used.
    Fix: set activemq_uid and activemq_gid to the ids that the account has. To change these ids instead, stop the broker
        and run the commands that the finding names (groupmod, usermod, chown). If an id belongs to another account, set
        an id that is free on both nodes.
    Source: usermod of shadow-utils; measured on Debian 12

    Fires on 5.18.3::

        broker: {uid: 990, gid: 990}
        facts: {account_exists: true, account_uid: 999, account_gid: 990, account_processes: [7389]}

    Fires on 5.18.3::

        broker: {uid: 990, gid: 990}
        facts: {account_exists: false, uid_holder: sshd}

    Silent on 5.18.3::

        broker: {uid: 990, gid: 990}
        facts: {account_exists: true, account_uid: 990, account_gid: 990, account_processes: [7389]}
    """
    broker, facts = host.broker, host.facts
    if broker.owner is None:
        return
    for name, number, holder in (("uid", broker.uid, facts.uid_holder), ("gid", broker.gid, facts.gid_holder)):
        if holder:
            yield Problem(
                f"activemq_{name} is {number}, but this {name} already belongs to {holder}",
                fix=f"set activemq_{name} to a number that is free on both nodes",
                why=f"the playbook cannot give the account of the broker a {name} that belongs to another account",
            )
    uid = _id_to_change(broker.uid, facts.account_uid)
    gid = _id_to_change(broker.gid, facts.account_gid)
    wrong_ids = [
        f"{name} {number} instead of {configured} (activemq_{name})"
        for name, number, configured in (("uid", facts.account_uid, uid), ("gid", facts.account_gid, gid))
        if configured is not None
    ]
    if wrong_ids and (facts.account_processes or facts.base_exists):
        processes = ", ".join(map(str, facts.account_processes))
        reason = (
            f"the account has running processes (process ids: {processes})"
            if processes
            else f"files in {broker.base} belong to the current id"
        )
        yield Problem(
            f"the account {broker.user} has {' and '.join(wrong_ids)}: the playbook cannot change the id while "
            f"{reason}",
            fix=f"set {_actual_ids(host)}, if the other node of the pair has the same ids. To change the account "
            "instead, " + _id_change_instruction(host, uid, gid, "run the playbook again"),
        )


def _actual_ids(host: HostView) -> str:
    """Return the inventory variables that set the ids of the broker's account, each with the account's actual id."""
    broker, facts = host.broker, host.facts
    actual = (("uid", broker.uid, facts.account_uid), ("gid", broker.gid, facts.account_gid))
    return " and ".join(
        f"activemq_{name} to {number}"
        for name, configured, number in actual
        if _id_to_change(configured, number) is not None
    )


def _id_to_change(configured: int | None, actual: int | None) -> int | None:
    return configured if configured is not None and actual is not None and actual != configured else None


@rule("V070", "error", scope="host")
def data_of_other_account(host: HostView) -> Iterator[Problem]:
    """The data directory of the broker belongs to another account than activemq_user.

    Why: the playbook gives the directories of the broker to the new account, but not the files in them. The running
        broker then cannot create files in its own directories, and the restarted broker cannot write to its store.
    Fix: set activemq_user to the account that owns the files. To change the account instead, stop the broker, run the
        commands that the finding names (chown), and run the playbook again.
    Cannot see: files below the data directory that belong to another account than the directory.
    Source: measured: after a change of activemq_user, neither account can read the configuration and the store

    Fires on 5.18.3::

        broker: {user: mq}
        facts: {account_exists: false, data_uid: 999, data_account: activemq}

    Fires on 5.18.3::

        broker: {user: activemq}
        facts: {account_exists: true, account_uid: 999, data_uid: 0, data_account: root}

    Silent on 5.18.3::

        broker: {user: activemq}
        facts: {account_exists: true, account_uid: 999, data_uid: 999, data_account: activemq}

    Silent on 5.18.3::

        broker: {user: activemq}
        facts: {account_exists: true, account_uid: 999, data_uid: null}
    """
    broker, facts = host.broker, host.facts
    uid = facts.account_uid if facts.account_exists else broker.uid
    if broker.owner is None or facts.account_exists is None or facts.data_uid in (None, uid):
        return
    owner = f"the account {facts.data_account}" if facts.data_account else f"the uid {facts.data_uid}"
    fix = _owner_change_instruction(host, _account_creation_commands(host), "run the playbook again")
    if facts.data_account and facts.data_account != "root":
        fix = f"set activemq_user: {facts.data_account}. To change the account instead, {fix}"
    elif not facts.data_account and not facts.account_exists:
        fix = f"set activemq_uid: {facts.data_uid}, so that the account gets this id. To change the id instead, {fix}"
    yield Problem(
        f"{broker.base}/data belongs to {owner}, but activemq_user is {broker.user}: the broker of the new account "
        "cannot write to the files in this directory",
        fix=fix,
    )


def _group_creation_commands(host: HostView, gid: int | str | None) -> list[str]:
    """Return the command that creates the group of the broker's account, with an id unless it is None, if missing."""
    gid_option = "" if gid is None else f" -g {gid}"
    return [f"groupadd -r{gid_option} {host.broker.user}"] if host.facts.account_gid is None else []


def _account_creation_commands(host: HostView) -> list[str]:
    """Return the commands that create the missing ones of the broker's account and its group, as the playbook does."""
    broker, commands = host.broker, _group_creation_commands(host, host.broker.gid)
    if not host.facts.account_exists:
        uid_option = "" if broker.uid is None else f" -u {broker.uid}"
        commands.append(f"useradd -r{uid_option} -g {broker.user} -M -s /usr/sbin/nologin {broker.user}")
    return commands


@rule("S013", "warning", scope="host")
def broker_runs_as_root(host: HostView) -> Iterator[Problem]:
    """The broker runs as root.

    Why: an attacker who exploits a vulnerability of the broker controls the whole host.
    Fix: stop the broker, and give the files of its directory and of its store that belong to root to the account in
        activemq_user (chown -R). Then run the playbook site: its service unit runs the broker as this account.
    Source: SECURITY.md of the project, and common sense

    Fires on 5.18.3::

        facts: {user: root}

    Silent on 5.18.3::

        facts: {user: activemq}
    """
    if host.facts.user == "root":
        yield Problem("the broker runs as root")
