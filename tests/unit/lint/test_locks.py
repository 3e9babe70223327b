"""What the examples of the L rules do not show: signs of sharing, places, severities, profiles."""

from __future__ import annotations

import pytest

from activemq_fleet.findings import Finding
from activemq_fleet.lint import file_findings, fleet_findings
from activemq_fleet.releases import Release
from activemq_fleet.render import render_broker
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import Fleet
from tests.rule_examples import complete
from tests.unit.fleets import fleet

LOCKER = "<locker><shared-file-locker/></locker>"
LEASE = '<locker><lease-database-locker lockAcquireSleepInterval="10000"/></locker>'
HANDLER = "<leaseLockerIOExceptionHandler/>"
SAFE_LEASE = (
    '<jdbcPersistenceAdapter dataSource="#db" lockKeepAlivePeriod="5000" stopOnError="true">'
    f"{LEASE}</jdbcPersistenceAdapter>"
)


def found(rule: str, snippet: str, release: str = "5.18.3") -> list[Finding]:
    known = Release.of(release)
    return [finding for finding in file_findings(complete(snippet, known), known) if finding.rule == rule]


def severities(rule: str, snippet: str, release: str = "5.18.3") -> list[str]:
    return [finding.severity for finding in found(rule, snippet, release)]


def of_fleet(rule: str, some: Fleet) -> list[Finding]:
    documents = {broker.host: XmlDocument(render_broker(broker)["conf/activemq.xml"]) for broker in some.brokers}
    return [finding for finding in fleet_findings(some, documents) if finding.rule == rule]


@pytest.mark.parametrize(
    ("store", "severity"),
    [
        (f'<kahaDB directory="${{activemq.data}}/kahadb">{LOCKER}</kahaDB>', "error"),
        ('<kahaDB directory="/var/lib/activemq/kahadb" databaseLockedWaitDelay="1000"/>', "error"),
        ('<kahaDB directory="${activemq.data}/kahadb" lockKeepAlivePeriod="0"/>', "error"),
        ('<kahaDB directory="/data/nfs/kahadb"/>', "error"),
        ('<kahaDB directory="//filer/activemq"/>', "error"),
        ('<kahaDB directory="${shared.storage}/kahadb"/>', "warning"),
        ('<kahaDB directory="/mnt/data/kahadb"/>', "warning"),
        (f'<mKahaDB directory="/srv/x">{LOCKER}</mKahaDB>', "error"),
    ],
)
def test_a_store_that_a_sign_calls_shared_needs_a_keep_alive(store: str, severity: str) -> None:
    assert severities("L003", store) == [severity]


@pytest.mark.parametrize(
    "store",
    [
        '<kahaDB directory="${activemq.data}/kahadb"/>',
        '<kahaDB directory="/var/lib/activemq/kahadb"/>',
        '<kahaDB directory="/srv/happy/sharing-is-not-a-word-of-it/kahadb"/>',
        '<kahaDB directory="/srv/shared/kahadb" lockKeepAlivePeriod="${keep.alive}"/>',
        '<kahaDB directory="/srv/shared/kahadb" locker="#mine"/>',
        '<kahaDB directory="/srv/shared/kahadb" useLock="false"/>',  # L007 says more
        "<memoryPersistenceAdapter/>",
    ],
)
def test_a_store_that_nothing_calls_shared_is_left_alone(store: str) -> None:
    assert found("L003", store) == []


def test_the_place_is_the_period_itself() -> None:
    snippet = '<kahaDB directory="/srv/shared/kahadb" lockKeepAlivePeriod="0"/>'
    data = complete(snippet, Release.of("5.18.3")).decode().splitlines()
    problem = found("L003", snippet)[0]
    assert problem.line is not None
    assert problem.column is not None
    assert data[problem.line - 1][problem.column - 1 :].startswith("lockKeepAlivePeriod")


@pytest.mark.parametrize("release", ["5.5.1", "5.6.0", "5.7.0", "5.8.0"])
def test_a_release_that_does_not_see_its_lock_file_gone_is_warned_of(release: str) -> None:
    assert severities("L004", '<kahaDB directory="/srv/shared/kahadb"/>', release) == ["warning"]
    assert severities("L004", '<kahaDB directory="/mnt/kahadb"/>', release) == ["info"]


def test_what_no_setting_of_the_release_mends_is_a_hint() -> None:
    store = '<kahaDB directory="/srv/shared/kahadb" lockKeepAlivePeriod="5000"/>'
    assert severities("L005", store, "5.9.1") == ["info"]
    assert found("L004", store, "5.9.0") == found("L005", store, "5.12.0") == found("L003", store) == []


def test_an_embedded_database_needs_no_lock() -> None:
    source = '<bean id="db" class="org.apache.derby.jdbc.EmbeddedDataSource"/>'
    assert found("L007", f'{source}<jdbcPersistenceAdapter dataSource="#db" useDatabaseLock="false"/>', "5.5.1") == []
    assert found("L014", f'{source}<jdbcPersistenceAdapter dataSource="#db"/>') == []
    assert found("L015", "<jdbcPersistenceAdapter/>") == []


def test_a_lock_that_is_switched_off_on_a_likely_share_is_a_warning() -> None:
    assert severities("L007", '<kahaDB directory="/mnt/data/kahadb" useLock="false"/>') == ["warning"]


@pytest.mark.parametrize(
    ("keep_alive", "locker", "release", "fires"),
    [
        ('lockKeepAlivePeriod="10000"', 'lockAcquireSleepInterval="10000"', "5.18.3", True),
        ('lockKeepAlivePeriod="9999"', 'lockAcquireSleepInterval="10000"', "5.18.3", False),
        ('lockKeepAlivePeriod="5000"', "", "5.18.3", False),
        ("", 'lockAcquireSleepInterval="40000"', "5.18.3", False),
        ("", "", "5.18.3", True),
        ('lockKeepAlivePeriod="0"', "", "5.18.3", True),
        ('lockKeepAlivePeriod="${p}"', "", "5.18.3", False),
        ('lockKeepAlivePeriod="5000"', 'lockAcquireSleepInterval="60000"', "5.7.0", True),
        ('lockKeepAlivePeriod="2500"', 'lockAcquireSleepInterval="1"', "5.7.0", False),
    ],
)
def test_a_lease_must_be_renewed_before_it_ends(keep_alive: str, locker: str, release: str, fires: bool) -> None:
    store = (
        f'<jdbcPersistenceAdapter dataSource="#db" {keep_alive}>'
        f"<locker><lease-database-locker {locker}/></locker></jdbcPersistenceAdapter>"
    )
    assert bool(found("L009", store, release)) is fires


def test_a_lease_of_kahadb_is_not_renewed_by_default() -> None:
    wired = '<lease-database-locker dataSource="#db"><statements><statements/></statements></lease-database-locker>'
    store = f"<kahaDB><locker>{wired}</locker></kahaDB>"
    assert "the master never renews it by default (lockKeepAlivePeriod)" in found("L009", store)[0].message
    assert found("L013", store) == []


def test_the_interval_of_a_lease_may_stand_on_the_store() -> None:
    store = (
        '<jdbcPersistenceAdapter dataSource="#db" lockKeepAlivePeriod="5000" lockAcquireSleepInterval="4000">'
        "<locker><lease-database-locker/></locker></jdbcPersistenceAdapter>"
    )
    assert "4000" in found("L009", store)[0].message


def test_the_default_lock_is_a_hint_where_the_database_looks_plain() -> None:
    assert severities("L012", '<jdbcPersistenceAdapter dataSource="#db"/>') == ["info"]
    assert severities("L012", SAFE_LEASE) == []


def test_before_5_9_no_locker_of_kahadb_takes_a_database() -> None:
    store = "<kahaDB><locker><lease-database-locker/></locker></kahaDB>"
    assert "cannot be used" in found("L013", store, "5.8.0")[0].message


@pytest.mark.parametrize(
    ("handler", "release", "expected"),
    [
        ("", "5.18.3", ["warning"]),
        ("<defaultIOExceptionHandler/>", "5.18.3", ["warning"]),
        ('<defaultIOExceptionHandler ignoreSQLExceptions="false"/>', "5.18.3", []),
        ("<jDBCIOExceptionHandler/>", "5.18.3", ["info"]),
        ("<jDBCIOExceptionHandler/>", "5.10.2", []),
        (HANDLER, "5.18.3", []),
        ('<broker ioExceptionHandler="#mine"/>', "5.18.3", []),
    ],
)
def test_a_database_lock_wants_a_handler_that_does_not_ignore_it(
    handler: str, release: str, expected: list[str]
) -> None:
    assert severities("L014", f"{handler}{SAFE_LEASE}", release) == expected


def test_a_keep_alive_that_the_handler_covers_is_a_hint() -> None:
    store = SAFE_LEASE.replace('stopOnError="true"', "")
    assert severities("L015", store) == ["warning"]
    assert severities("L015", HANDLER + store) == ["info"]
    assert severities("L015", store, "5.15.12") == []


def test_mistakes_that_hide_behind_another_are_told_as_well() -> None:
    snippet = (
        '<broker persistent="false" deleteAllMessagesOnStartup="true" schedulerSupport="true"/>'
        '<kahaDB directory="/srv/shared/kahadb" lockKeepAlivePeriod="0" useLock="false"/>'
    )
    known = Release.of("5.18.3")
    told = {finding.rule for finding in file_findings(complete(snippet, known), known)}
    assert {"L003", "L007", "L018", "L019", "L020"} <= told


def test_a_schedule_below_the_same_variable_is_on_the_share() -> None:
    store = '<kahaDB directory="${activemq.data}/kahadb" lockKeepAlivePeriod="5000"/>'
    assert found("L018", f'<broker schedulerSupport="true"/>{store}') == []
    assert len(found("L018", f'<broker schedulerSupport="true" schedulerDirectory="/var/s"/>{store}')) == 1


def test_a_schedule_beside_a_database_is_on_one_node() -> None:
    assert len(found("L018", f'<broker schedulerSupport="true"/>{SAFE_LEASE}')) == 1


def test_a_store_that_nobody_shares_is_emptied_with_a_warning() -> None:
    assert severities("L020", '<broker deleteAllMessagesOnStartup="true"/>') == ["warning"]


def test_a_broker_without_messages_on_disk_may_delete_them() -> None:
    assert found("L020", '<broker deleteAllMessagesOnStartup="true" persistent="false"/>') == []
    slave = '<masterConnector remoteURI="nio://a:61618"/>'
    assert found("L020", f'<broker deleteAllMessagesOnStartup="true"/>{slave}', "5.5.1") == []


def test_a_demoted_master_that_exits_stays_down() -> None:
    store = f'<kahaDB directory="/srv/x" lockKeepAlivePeriod="5000">{LOCKER}</kahaDB>'
    assert severities("L021", f'<broker systemExitOnShutdown="true"/>{store}') == ["warning"]
    assert found("L021", '<broker systemExitOnShutdown="true"/>') == []


@pytest.mark.parametrize(
    ("store", "release"),
    [
        ('<kahaDB directory="/srv/x" databaseLockedWaitDelay="30000"/>', "5.5.1"),
        ('<jdbcPersistenceAdapter dataSource="#db" lockAcquireSleepInterval="45000"/>', "5.6.0"),
    ],
)
def test_a_slow_look_at_the_lock_is_told_wherever_it_is_set(store: str, release: str) -> None:
    assert severities("L022", store, release) == ["info"]


def test_a_console_that_is_imported_before_the_broker_is_open_on_a_slave() -> None:
    document = b"""<beans xmlns="http://www.springframework.org/schema/beans"><import resource="jetty.xml"/>
<broker xmlns="http://activemq.apache.org/schema/core"><persistenceAdapter>
<kahaDB directory="/srv/shared/a" lockKeepAlivePeriod="5000"/></persistenceAdapter></broker></beans>"""
    known = Release.of("5.18.3")
    assert "L023" not in {finding.rule for finding in file_findings(document, known)}


def test_missing_journal_files_alone_may_be_ignored_with_a_warning() -> None:
    assert severities("L024", '<kahaDB directory="d" ignoreMissingJournalfiles="true"/>') == ["warning"]


@pytest.mark.parametrize("release", ["5.5.1", "5.8.0", "5.11.4", "5.18.3", "6.3.1"])
@pytest.mark.parametrize("ha", ["shared-file", "none"])
def test_what_we_render_has_no_mistake_of_its_lock(release: str, ha: str) -> None:
    some = fleet("orders-mq01", "orders-mq02", release=release, ha=ha)
    documents = {broker.host: XmlDocument(render_broker(broker)["conf/activemq.xml"]) for broker in some.brokers}
    told = [finding for finding in fleet_findings(some, documents) if finding.rule[0] in "LVP"]
    without_remedy = ("L004", "L027")
    mistakes = [finding for finding in told if finding.severity != "info" and finding.rule not in without_remedy]
    assert mistakes == []


def test_a_store_of_a_single_broker_is_not_shared_whatever_its_name() -> None:
    assert of_fleet("L003", fleet("orders-mq01", ha="none", store_directory="/mnt/shared/store")) == []


def test_a_fleet_that_takes_the_keep_alive_away_is_told() -> None:
    fragment = {"parent": "broker/persistenceAdapter", "xml": '<kahaDB lockKeepAlivePeriod="0"/>'}
    problems = of_fleet("L003", fleet("orders-mq01", xml_fragments=[fragment]))
    assert [(problem.host, problem.severity) for problem in problems] == [
        ("orders-mq01-a.example.com", "error"),
        ("orders-mq01-b.example.com", "error"),
    ]
