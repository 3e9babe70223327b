"""Tests of ``activemq_kahadb`` on one running store: files in the archive, and settings that only the store reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.lab.lab import Lab
from activemq_fleet.releases import Release
from tests.integration.setting_clients import HOST, broker_with, connect_client
from tests.situations import further
from tests.waiting import wait_until

KAHADB: dict[str, Any] = {
    "journal_max_file_length": "1 mb",
    "checkpoint_interval": 200,
    "cleanup_interval": 400,
    "archive_data_logs": True,
    # Otherwise, messages that are consumed at once are never written, and no file becomes obsolete.
    "concurrent_store_and_dispatch_queues": False,
    "enable_index_recovery_file": False,
    "journal_max_write_batch_size": "64 kb",
    "index_cache_size": 2000,
    "index_write_batch_size": 77,
    "enable_index_page_caching": False,
    "use_index_lfru_eviction": True,
    "index_lfu_eviction_factor": 0.25,
    "max_async_jobs": 123,
    "failover_producers_audit_depth": 44,
    "max_failover_producers_to_track": 45,
    "compact_acks_ignores_store_growth": True,
    "enable_subscription_statistics": True,
    "purge_recovered_xa_transaction_strategy": "commit",
}
STORE_PROPERTIES = {
    "journalMaxWriteBatchSize": ("store.journal.writeBatchSize", "65536"),
    "indexCacheSize": ("store.pageFile.pageCacheSize", "2000"),
    "indexWriteBatchSize": ("store.pageFile.writeBatchSize", "77"),
    "enableIndexPageCaching": ("store.pageFile.enablePageCaching", "false"),
    "useIndexLFRUEviction": ("store.pageFile.useLFRUEviction", "true"),
    "indexLFUEvictionFactor": ("store.pageFile.LFUEvictionFactor", "0.25"),
    "maxAsyncJobs": ("store.maxAsyncJobs", "123"),
    "failoverProducersAuditDepth": ("store.failoverProducersAuditDepth", "44"),
    "maxFailoverProducersToTrack": ("store.maxFailoverProducersToTrack", "45"),
    "compactAcksIgnoresStoreGrowth": ("store.compactAcksIgnoresStoreGrowth", "true"),
    "enableSubscriptionStatistics": ("store.enableSubscriptionStatistics", "true"),
    "purgeRecoveredXATransactionStrategy": ("store.purgeRecoveredXATransactionStrategy", "COMMIT"),
}
"""By attribute: the property path in the running store, its journal or its index, and the expected value."""
BEANS = """<beans xmlns="http://www.springframework.org/schema/beans"
    xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
    xsi:schemaLocation="http://www.springframework.org/schema/beans
      http://www.springframework.org/schema/beans/spring-beans.xsd">
  <bean id="registry" class="org.apache.activemq.broker.BrokerRegistry" factory-method="getInstance"/>
  <bean id="running" factory-bean="registry" factory-method="findFirst"/>
  <bean id="answers" class="org.springframework.beans.factory.config.PropertiesFactoryBean">
    <property name="properties"><props>%s</props></property>
  </bean>
  <bean class="org.springframework.beans.factory.config.MethodInvokingFactoryBean">
    <property name="targetObject" ref="answers"/>
    <property name="targetMethod" value="store"/>
    <property name="arguments">
      <list>
        <bean class="java.io.FileOutputStream"><constructor-arg value="%s"/></bean>
        <value>answers</value>
      </list>
    </property>
  </bean>
</beans>
"""
"""Beans that query the broker's store after its start, and write the answers to a file."""


def store_properties_of(release: str) -> dict[str, tuple[str, str]]:
    """Return the store properties of a release, which may lack some attributes."""
    return {
        name: path_and_value
        for name, path_and_value in STORE_PROPERTIES.items()
        if Release.of(release).supports("kahaDB", name)
    }


@pytest.fixture(scope="module", params=["6.3.1", *further("5.8.0", "5.18.3")])
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    directory: Path = tmp_path_factory.mktemp("store")
    paths = ((name, path) for name, (path, _) in store_properties_of(request.param).items())
    props = "".join(f"<prop key='{name}'>#{{'' + running.persistenceAdapter.{path}}}</prop>" for name, path in paths)
    variables = {
        "kahadb": {**KAHADB, "directory_archive": "/srv/archive"},
        "imports": ["beans.xml"],
        "extra_files": [{"path": "conf/beans.xml", "content": BEANS % (props, directory / "answers")}],
    }
    with broker_with(directory, request.param, **variables) as lab:
        yield lab


def test_running_store_uses_values_of_variable_activemq_kahadb(lab: Lab) -> None:
    lines = (lab.directory.parent / "answers").read_text().splitlines()
    answers = dict(line.split("=") for line in lines if not line.startswith("#"))
    assert answers == {
        name: value for name, (_, value) in store_properties_of(lab.fleet.broker(HOST).release.text).items()
    }


def test_obsolete_files_of_store_are_moved_to_archive(lab: Lab) -> None:
    for _ in range(2):
        with connect_client(lab) as client:
            for _ in range(8):
                client.send("/queue/through", "x" * 300_000)
            client.follow("/queue/through")
            assert len(client.bodies(8)) == 8
    archive = lab.log(HOST).parent / "archive"  # a lab uses a separate directory
    wait_until(lambda: any(archive.glob("db-*.log")), "files are archived", patience=60)
    assert not (lab.log(HOST).parent / "kahadb/db.redo").exists()
