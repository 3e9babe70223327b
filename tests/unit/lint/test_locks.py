"""Tests of the L rules beyond their examples: signs of a shared store, positions, severities and profiles."""

from __future__ import annotations

import pytest

from activemq_fleet.lint import file_findings, fleet_findings
from activemq_fleet.releases import Release
from activemq_fleet.render import render_broker
from activemq_fleet.schema import XmlDocument
from tests.rule_examples import complete
from tests.support.rule_findings import fleet_rule_findings, rule_findings
from tests.unit.fleets import fleet

LOCKER = "<locker><shared-file-locker/></locker>"
LEASE = '<locker><lease-database-locker lockAcquireSleepInterval="10000"/></locker>'
HANDLER = "<leaseLockerIOExceptionHandler/>"
SAFE_LEASE = (
    '<jdbcPersistenceAdapter dataSource="#db" lockKeepAlivePeriod="5000" stopOnError="true">'
    f"{LEASE}</jdbcPersistenceAdapter>"
)


def severities(rule: str, snippet: str, release: str = "5.18.3") -> list[str]:
    return [finding.severity for finding in rule_findings(rule, snippet, release)]


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
def test_store_with_sign_of_sharing_requires_keep_alive(store: str, severity: str) -> None:
    assert severities("L003", store) == [severity]


@pytest.mark.parametrize(
    "store",
    [
        '<kahaDB directory="${activemq.data}/kahadb"/>',
        '<kahaDB directory="/var/lib/activemq/kahadb"/>',
        '<kahaDB directory="/srv/happy/sharing-is-not-a-word-of-it/kahadb"/>',
        '<kahaDB directory="/srv/shared/kahadb" lockKeepAlivePeriod="${keep.alive}"/>',
        '<kahaDB directory="/srv/shared/kahadb" locker="#mine"/>',
        '<kahaDB directory="/srv/shared/kahadb" useLock="false"/>',  # reported by L007
        "<memoryPersistenceAdapter/>",
    ],
)
def test_store_without_sign_of_sharing_is_not_reported(store: str) -> None:
    assert rule_findings("L003", store) == []


def test_finding_about_lock_keep_alive_has_position_of_period() -> None:
    snippet = '<kahaDB directory="/srv/shared/kahadb" lockKeepAlivePeriod="0"/>'
    lines = complete(snippet, Release.of("5.18.3")).decode().splitlines()
    problem = rule_findings("L003", snippet)[0]
    assert problem.line is not None
    assert problem.column is not None
    assert lines[problem.line - 1][problem.column - 1 :].startswith("lockKeepAlivePeriod")


@pytest.mark.parametrize("release", ["5.5.1", "5.6.0", "5.7.0", "5.8.0"])
def test_release_that_does_not_detect_lost_lock_file_is_reported(release: str) -> None:
    assert severities("L004", '<kahaDB directory="/srv/shared/kahadb"/>', release) == ["warning"]
    assert severities("L004", '<kahaDB directory="/mnt/kahadb"/>', release) == ["info"]


def test_lock_problem_without_remedy_in_release_is_info() -> None:
    store = '<kahaDB directory="/srv/shared/kahadb" lockKeepAlivePeriod="5000"/>'
    assert severities("L005", store, "5.9.1") == ["info"]
    assert (
        rule_findings("L004", store, "5.9.0")
        == rule_findings("L005", store, "5.12.0")
        == rule_findings("L003", store)
        == []
    )


def test_embedded_database_requires_no_lock() -> None:
    source = '<bean id="db" class="org.apache.derby.jdbc.EmbeddedDataSource"/>'
    assert (
        rule_findings("L007", f'{source}<jdbcPersistenceAdapter dataSource="#db" useDatabaseLock="false"/>', "5.5.1")
        == []
    )
    assert rule_findings("L014", f'{source}<jdbcPersistenceAdapter dataSource="#db"/>') == []
    assert rule_findings("L015", "<jdbcPersistenceAdapter/>") == []


def test_disabled_lock_on_probable_share_is_warning() -> None:
    assert severities("L007", '<kahaDB directory="/mnt/data/kahadb" useLock="false"/>') == ["warning"]


@pytest.mark.parametrize(
    ("keep_alive", "locker", "release", "severities_of_findings"),
    [
        ('lockKeepAlivePeriod="10000"', 'lockAcquireSleepInterval="10000"', "5.18.3", ["error"]),
        ('lockKeepAlivePeriod="9999"', 'lockAcquireSleepInterval="10000"', "5.18.3", ["warning"]),
        ('lockKeepAlivePeriod="5001"', "", "5.18.3", ["warning"]),
        ('lockKeepAlivePeriod="5000"', "", "5.18.3", []),
        ("", 'lockAcquireSleepInterval="40000"', "5.18.3", ["warning"]),
        ("", 'lockAcquireSleepInterval="60000"', "5.18.3", []),
        ("", "", "5.18.3", ["error"]),
        ('lockKeepAlivePeriod="0"', "", "5.18.3", ["error"]),
        ('lockKeepAlivePeriod="${p}"', "", "5.18.3", []),
        ('lockKeepAlivePeriod="5000"', 'lockAcquireSleepInterval="60000"', "5.7.0", ["error"]),
        ('lockKeepAlivePeriod="2500"', 'lockAcquireSleepInterval="1"', "5.7.0", []),
    ],
)
def test_lease_that_may_expire_before_renewal_is_reported(
    keep_alive: str, locker: str, release: str, severities_of_findings: list[str]
) -> None:
    store = (
        f'<jdbcPersistenceAdapter dataSource="#db" {keep_alive}>'
        f"<locker><lease-database-locker {locker}/></locker></jdbcPersistenceAdapter>"
    )
    assert severities("L009", store, release) == severities_of_findings


def test_late_renewal_that_lease_outlasts_is_named() -> None:
    store = (
        '<jdbcPersistenceAdapter dataSource="#db" lockKeepAlivePeriod="9900">'
        "<locker><lease-database-locker/></locker></jdbcPersistenceAdapter>"
    )
    (finding,) = rule_findings("L009", store)
    assert "a renewal that is 100 ms late lets the slave open the store while the master runs" in finding.message


def test_kahadb_lease_without_renewal_by_default_is_reported() -> None:
    wired = '<lease-database-locker dataSource="#db"><statements><statements/></statements></lease-database-locker>'
    store = f"<kahaDB><locker>{wired}</locker></kahaDB>"
    assert "the master never renews it by default (lockKeepAlivePeriod)" in rule_findings("L009", store)[0].message
    assert rule_findings("L013", store) == []


def test_lease_interval_of_store_element_is_read() -> None:
    store = (
        '<jdbcPersistenceAdapter dataSource="#db" lockKeepAlivePeriod="5000" lockAcquireSleepInterval="4000">'
        "<locker><lease-database-locker/></locker></jdbcPersistenceAdapter>"
    )
    assert "4000" in rule_findings("L009", store)[0].message


def test_default_lock_of_database_is_info() -> None:
    assert severities("L012", '<jdbcPersistenceAdapter dataSource="#db"/>') == ["info"]
    assert severities("L012", SAFE_LEASE) == []


def test_database_locker_of_kahadb_is_reported_before_5_9() -> None:
    store = "<kahaDB><locker><lease-database-locker/></locker></kahaDB>"
    assert "cannot be used" in rule_findings("L013", store, "5.8.0")[0].message


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
def test_database_lock_requires_handler_that_stops_broker(handler: str, release: str, expected: list[str]) -> None:
    assert severities("L014", f"{handler}{SAFE_LEASE}", release) == expected


def test_ignored_failure_of_lease_renewal_is_info_with_lease_handler() -> None:
    store = SAFE_LEASE.replace('stopOnError="true"', "")
    assert severities("L015", store) == ["warning"]
    assert severities("L015", HANDLER + store) == ["info"]
    assert severities("L015", store, "5.15.12") == []


def test_lock_problems_masked_by_other_settings_are_reported() -> None:
    snippet = (
        '<broker persistent="false" deleteAllMessagesOnStartup="true" schedulerSupport="true"/>'
        '<kahaDB directory="/srv/shared/kahadb" lockKeepAlivePeriod="0" useLock="false"/>'
    )
    target_release = Release.of("5.18.3")
    reported_rules = {finding.rule for finding in file_findings(complete(snippet, target_release), target_release)}
    assert {"L003", "L007", "L018", "L019", "L020"} <= reported_rules


def test_local_scheduler_directory_of_shared_store_is_reported() -> None:
    store = '<kahaDB directory="${activemq.data}/kahadb" lockKeepAlivePeriod="5000"/>'
    assert rule_findings("L018", f'<broker schedulerSupport="true"/>{store}') == []
    assert len(rule_findings("L018", f'<broker schedulerSupport="true" schedulerDirectory="/var/s"/>{store}')) == 1


def test_scheduler_of_database_store_is_reported() -> None:
    assert len(rule_findings("L018", f'<broker schedulerSupport="true"/>{SAFE_LEASE}')) == 1


@pytest.mark.parametrize(
    ("attribute", "store", "is_reported"),
    [
        ('schedulerDirectory="/srv/shared/scheduler/orders"', SAFE_LEASE, False),
        ('dataDirectory="file:/srv/shared/orders"', SAFE_LEASE, False),
        ('schedulerDirectory="/data/scheduler"', SAFE_LEASE, False),
        ('dataDirectory="/data/orders"', SAFE_LEASE, True),
        ('schedulerDirectory="/var/scheduler"', SAFE_LEASE, True),
        ('schedulerDirectory="${activemq.data}/scheduler"', SAFE_LEASE, True),
        ('schedulerDirectory="/mnt/nfs/scheduler"', '<kahaDB directory="/srv/shared/activemq"/>', False),
        ('schedulerDirectory="/data/scheduler"', '<kahaDB directory="/srv/shared/activemq"/>', True),
        ('schedulerDirectory="file:///var/scheduler"', SAFE_LEASE, True),
        ('dataDirectory="/opt/activemq-ha/data"', '<kahaDB directory="/srv/shared/activemq"/>', True),
        ('dataDirectory="/var/lib/activemq-cluster"', SAFE_LEASE, True),
        ('dataDirectory="/mnt/cluster/activemq"', SAFE_LEASE, False),
    ],
)
def test_delayed_messages_in_directory_that_may_be_shared_are_not_reported(
    attribute: str, store: str, is_reported: bool
) -> None:
    findings = rule_findings("L018", f'<broker schedulerSupport="true" {attribute}/>{store}')
    assert bool(findings) is is_reported


def test_deletion_of_messages_at_start_of_local_store_is_warning() -> None:
    assert severities("L020", '<broker deleteAllMessagesOnStartup="true"/>') == ["warning"]


def test_deletion_of_messages_without_store_is_not_reported() -> None:
    assert rule_findings("L020", '<broker deleteAllMessagesOnStartup="true" persistent="false"/>') == []
    slave = '<masterConnector remoteURI="nio://a:61618"/>'
    assert rule_findings("L020", f'<broker deleteAllMessagesOnStartup="true"/>{slave}', "5.5.1") == []


def test_exit_on_shutdown_of_shared_store_is_warning() -> None:
    store = f'<kahaDB directory="/srv/x" lockKeepAlivePeriod="5000">{LOCKER}</kahaDB>'
    assert severities("L021", f'<broker systemExitOnShutdown="true"/>{store}') == ["warning"]
    assert rule_findings("L021", '<broker systemExitOnShutdown="true"/>') == []


@pytest.mark.parametrize(
    ("store", "release"),
    [
        ('<kahaDB directory="/srv/x" databaseLockedWaitDelay="30000"/>', "5.5.1"),
        ('<jdbcPersistenceAdapter dataSource="#db" lockAcquireSleepInterval="45000"/>', "5.6.0"),
    ],
)
def test_long_lock_retry_interval_is_info(store: str, release: str) -> None:
    assert severities("L022", store, release) == ["info"]


def test_console_imported_before_broker_is_not_reported() -> None:
    document = b"""<beans xmlns="http://www.springframework.org/schema/beans"><import resource="jetty.xml"/>
<broker xmlns="http://activemq.apache.org/schema/core"><persistenceAdapter>
<kahaDB directory="/srv/shared/a" lockKeepAlivePeriod="5000"/></persistenceAdapter></broker></beans>"""
    target_release = Release.of("5.18.3")
    assert "L023" not in {finding.rule for finding in file_findings(document, target_release)}


def test_ignored_missing_journal_files_are_warning() -> None:
    assert severities("L024", '<kahaDB directory="d" ignoreMissingJournalfiles="true"/>') == ["warning"]


@pytest.mark.parametrize("release", ["5.5.1", "5.8.0", "5.11.4", "5.18.3", "6.3.1"])
@pytest.mark.parametrize("ha", ["shared-file", "none"])
def test_rendered_file_has_no_lock_problem(release: str, ha: str) -> None:
    built_fleet = fleet("orders-mq01", "orders-mq02", release=release, ha=ha)
    documents = {broker.host: XmlDocument(render_broker(broker)["conf/activemq.xml"]) for broker in built_fleet.brokers}
    findings = [finding for finding in fleet_findings(built_fleet, documents) if finding.rule[0] in "LVP"]
    without_remedy = ("L004", "L027")
    problems = [finding for finding in findings if finding.severity != "info" and finding.rule not in without_remedy]
    assert problems == []


def test_store_of_single_broker_requires_no_lock_keep_alive() -> None:
    assert fleet_rule_findings("L003", fleet("orders-mq01", ha="none", store_directory="/mnt/shared/store")) == []


def test_fragment_that_disables_keep_alive_is_error() -> None:
    fragment = {"parent": "broker/persistenceAdapter", "xml": '<kahaDB lockKeepAlivePeriod="0"/>'}
    problems = fleet_rule_findings("L003", fleet("orders-mq01", xml_fragments=[fragment]))
    assert [(problem.host, problem.severity) for problem in problems] == [
        ("orders-mq01-a.example.com", "error"),
        ("orders-mq01-b.example.com", "error"),
    ]


@pytest.mark.parametrize(
    ("directory", "index", "severity"),
    [
        ("/srv/shared/activemq", "/var/lib/activemq/index", ["error"]),
        ("/srv/shared/activemq", "file:/var/lib/activemq/index", ["error"]),
        ("/srv/shared/activemq", "/fast/index", ["warning"]),
        ("/srv/shared/activemq", "index", ["warning"]),
        ("/srv/shared/activemq", "${activemq.data}/index", ["warning"]),
        ("/mnt/orders/kahadb", "/var/lib/activemq/index", ["warning"]),
        ("/srv/shared/activemq", "/srv/shared/activemq/index", []),
        ("/srv/shared/activemq", "/data/nfs/index", []),
        ("/var/lib/activemq/kahadb", "/opt/activemq/index", []),
    ],
)
def test_local_index_of_shared_store_is_reported(directory: str, index: str, severity: list[str]) -> None:
    store = f'<kahaDB directory="{directory}" indexDirectory="{index}"/>'
    assert severities("L045", store) == severity
    inner_store = f'<filteredKahaDB><persistenceAdapter><kahaDB indexDirectory="{index}"/></persistenceAdapter>'
    stores = f"<filteredPersistenceAdapters>{inner_store}</filteredKahaDB></filteredPersistenceAdapters>"
    assert severities("L045", f'<mKahaDB directory="{directory}">{stores}</mKahaDB>') == severity


@pytest.mark.parametrize(
    ("index", "location"),
    [
        ("/var/lib/index", ", outside of the share: the other"),
        ("/data/index", "which may be outside of the share. If it is, the"),
    ],
)
def test_message_about_index_is_certain_only_for_local_directory(index: str, location: str) -> None:
    store = f'<kahaDB directory="/data/kahadb" lockKeepAlivePeriod="5000" indexDirectory="{index}"/>'
    (problem,) = rule_findings("L045", store)
    assert location in problem.message


def test_message_about_local_index_doubts_only_whether_store_is_shared() -> None:
    store = '<kahaDB directory="/mnt/orders/kahadb" indexDirectory="/var/lib/index"/>'
    (problem,) = rule_findings("L045", store)
    assert problem.message.startswith("the index of this possibly shared store (/mnt/orders/kahadb may be on a shared")
    assert "is in /var/lib/index, which is a local directory. If the store is shared, the other node" in problem.message


@pytest.mark.parametrize(("variables", "count"), [({}, 2), ({"fence": "guard"}, 0), ({"ha": "none"}, 0)])
def test_local_index_by_fragment_is_error_of_pair_without_guard(variables: dict[str, str], count: int) -> None:
    fragment = {"xml": '<persistenceAdapter><kahaDB indexDirectory="/var/lib/index"/></persistenceAdapter>'}
    pair = fleet("orders-mq01", xml_fragments=[fragment], **variables)
    findings = fleet_rule_findings("L045", pair)
    assert [finding.severity for finding in findings] == ["error"] * count
