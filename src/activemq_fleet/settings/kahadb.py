"""``activemq_kahadb``: how a kahaDB store is tuned; where it lies and how it is locked other variables decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from activemq_fleet.settings import fields
from activemq_fleet.settings.xml_beans import Count, Milliseconds, RefusingBean, Size

_LOCK = "the lock of a shared store follows from activemq_ha, activemq_fence and activemq_lock_keepalive_interval"
_REFUSED = {
    "directory": "use activemq_store_directory",
    "index_directory": "the index stays in activemq_store_directory, where a take-over and a resync find it",
    "locker": _LOCK,
    "use_lock": _LOCK,
    "lock_keep_alive_period": "use activemq_lock_keepalive_interval",
    "database_locked_wait_delay": "use activemq_lock_acquire_interval",
    "stop_on_error": "a shared store always has it, from the release on that knows it",
    "by_destination": (
        "several stores by destination (mKahaDB) are not made: fencing, resync and upgrades know one journal a broker; "
        "put it into activemq_xml_fragments, with activemq_fence: none"
    ),
}


class KahadbSettings(RefusingBean):
    """The value of ``activemq_kahadb``: sizes such as ``32 mb``, times in milliseconds; omitted keys keep ActiveMQ's
    defaults.
    """

    REFUSED: ClassVar[Mapping[str, str]] = _REFUSED

    ELEMENT: ClassVar[str] = "kahaDB"

    journal_max_file_length: Size | None = None
    journal_max_write_batch_size: Size | None = None
    journal_disk_sync_strategy: Literal["always", "periodic", "never"] | None = None
    journal_disk_sync_interval: Milliseconds | None = None
    enable_journal_disk_syncs: bool | None = None
    preallocation_scope: Literal["entire_journal", "entire_journal_async", "none"] | None = None
    preallocation_strategy: Literal["sparse_file", "os_kernel_copy", "zeros", "chunked_zeros"] | None = None
    checkpoint_interval: Milliseconds | None = None
    cleanup_interval: Milliseconds | None = None
    cleanup_on_stop: bool | None = None
    checksum_journal_files: bool | None = None
    check_for_corrupt_journal_files: bool | None = None
    ignore_missing_journalfiles: bool | None = None
    archive_data_logs: bool | None = None
    directory_archive: fields.AbsolutePath | None = None
    enable_ack_compaction: bool | None = None
    compact_acks_after_no_gc: Count | None = None
    compact_acks_ignores_store_growth: bool | None = None

    index_cache_size: Count | None = None
    index_write_batch_size: Count | None = None
    enable_index_write_async: bool | None = None
    enable_index_disk_syncs: bool | None = None
    enable_index_page_caching: bool | None = None
    enable_index_recovery_file: bool | None = None
    use_index_lfru_eviction: bool | None = None
    index_lfu_eviction_factor: Annotated[float, Field(gt=0, lt=1)] | None = None
    archive_corrupted_index: bool | None = None
    force_recover_index: bool | None = None

    concurrent_store_and_dispatch_queues: bool | None = None
    concurrent_store_and_dispatch_topics: bool | None = None
    max_async_jobs: Count | None = None
    failover_producers_audit_depth: Count | None = None
    max_failover_producers_to_track: Count | None = None
    rewrite_on_redelivery: bool | None = None
    enable_subscription_statistics: bool | None = None
    purge_recovered_xa_transaction_strategy: Literal["never", "commit", "rollback"] | None = None

    @model_validator(mode="after")
    def _archive_has_a_place(self) -> Self:
        if self.archive_data_logs and self.directory_archive is None:
            raise ValueError("archives the journal's files and does not say where: set directory_archive")
        return self
