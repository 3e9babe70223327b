"""``activemq_kahadb``: how kahaDB stores are tuned, one for all destinations or several by destination (mKahaDB)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from activemq_fleet.settings.usage import StoreUsage
from activemq_fleet.settings.variable_types import (
    AbsolutePath,
    Count,
    Destination,
    Milliseconds,
    PositiveCount,
    Size,
)
from activemq_fleet.settings.xml_beans import BeanWithForbiddenKeys, XmlBean

_LOCK = "remove the key, because activemq_ha and activemq_fence determine the lock of a shared store"
_REFUSED = {
    "directory": "use activemq_store_directory",
    "index_directory": "remove the key, because after a failover the standby reads the index in "
    "activemq_store_directory",
    "locker": _LOCK,
    "use_lock": _LOCK,
    "lock_keep_alive_period": "use activemq_lock_keepalive_interval",
    "database_locked_wait_delay": "use activemq_lock_acquire_interval",
    "stop_on_error": "remove the key, because activemq.fleet sets it for each shared store if the release supports it",
}


class StoreTuning(BeanWithForbiddenKeys):
    """The tuning attributes of one kahaDB store.

    Sizes are as ``32 mb``, times are in milliseconds, and omitted keys keep ActiveMQ's defaults.
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
    directory_archive: AbsolutePath | None = None
    enable_ack_compaction: bool | None = None
    compact_acks_after_no_gc: Count | None = None
    compact_acks_ignores_store_growth: bool | None = None

    index_cache_size: Count | None = None
    index_write_batch_size: PositiveCount | None = None  # PageFile divides by it
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
    max_async_jobs: PositiveCount | None = None  # the size of a queue, which Java refuses below 1
    failover_producers_audit_depth: Count | None = None
    max_failover_producers_to_track: Count | None = None
    rewrite_on_redelivery: bool | None = None
    enable_subscription_statistics: bool | None = None
    purge_recovered_xa_transaction_strategy: Literal["never", "commit", "rollback"] | None = None

    @model_validator(mode="after")
    def _archive_has_a_place(self) -> Self:
        if self.archive_data_logs and self.directory_archive is None:
            raise ValueError(
                "archive_data_logs is true, but directory_archive is not set: set directory_archive to a directory for "
                "the archived files"
            )
        return self


class DestinationStore(XmlBean):
    """A separate kahaDB store for the destinations that ``destination`` and ``kind`` match.

    Without them, it is for all other destinations. ``per_destination``: each of these others has a separate store,
    created at first use. Other keys are those of :class:`StoreTuning`.
    """

    ELEMENT: ClassVar[str] = "filteredKahaDB"
    NOT_WRITTEN: ClassVar[frozenset[str]] = frozenset({"destination", "kind"})
    IMPLIED: ClassVar[frozenset[str]] = frozenset({"persistence_adapter"})

    destination: Destination | None = None
    kind: Literal["queue", "topic"] | None = None
    per_destination: bool | None = None
    persistence_adapter: StoreTuning = Field(default_factory=StoreTuning)  # its keys are written as the entry's own
    usage: StoreUsage | None = None

    @model_validator(mode="before")
    @classmethod
    def _nest_adapter_keys(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or "persistence_adapter" in value:
            return value
        top_level_keys = {key: value[key] for key in cls.model_fields if key in value}
        return {
            **top_level_keys,
            "persistence_adapter": {key: value[key] for key in value if key not in top_level_keys},
        }

    @model_validator(mode="after")
    def _check_sets_something(self) -> Self:
        if (self.destination is None) != (self.kind is None):
            given, missing = ("destination", "kind") if self.destination else ("kind", "destination")
            raise ValueError(
                f"an entry of activemq_kahadb.by_destination sets {given}, but not {missing}: set {missing}. "
                f"If the entry must apply to all destinations that no other entry names, remove {given} instead"
            )
        if self.per_destination and self.destination is not None:
            # MultiKahaDBPersistenceAdapter.getMatchingPersistenceAdapter makes stores for that entry alone.
            raise ValueError(
                "an entry of activemq_kahadb.by_destination sets per_destination and destination, which exclude each "
                "other: remove destination and kind if each destination must have its own store, otherwise remove "
                "per_destination"
            )
        if self.persistence_adapter.directory_archive:
            raise ValueError(
                "an entry of activemq_kahadb.by_destination sets directory_archive: several stores would overwrite "
                "each other's archived files. Remove directory_archive"
            )
        return self

    def leading_xml_attribute_pairs(self) -> tuple[tuple[str, str], ...]:
        """Return the attributes to render first in a store's XML element, as a tuple of (name, value) tuples.

        The single attribute names the store's destinations. The store of all remaining destinations has none.
        """
        return ((self.kind, self.destination),) if self.kind and self.destination else ()


class CrossStoreTransactionJournal(XmlBean):
    """The settings of the journal that records how transactions across several stores ended."""

    ELEMENT: ClassVar[str] = "mKahaDB"
    journal_max_file_length: Size | None = None
    journal_write_batch_size: Size | None = None
    journal_cleanup_interval: Milliseconds | None = None
    check_for_corruption: bool | None = None


class StoresByDestination(XmlBean):
    """The settings of several kahaDB stores, selected by destination: the XML element mKahaDB."""

    ELEMENT: ClassVar[str] = "mKahaDB"
    PROPERTIES: ClassVar[Mapping[str, str]] = {"by_destination": "filteredPersistenceAdapters"}
    by_destination: tuple[DestinationStore, ...] = ()


class KahadbSettings(StoreTuning):
    """The kahaDB settings of a broker: the value of ``activemq_kahadb``.

    The keys of :class:`StoreTuning` are the defaults of each store of ``by_destination``. ``transaction_journal`` is of
    those stores together.
    """

    NOT_WRITTEN: ClassVar[frozenset[str]] = frozenset({"by_destination", "transaction_journal"})
    by_destination: tuple[DestinationStore, ...] = ()
    transaction_journal: CrossStoreTransactionJournal | None = None

    @model_validator(mode="after")
    def _stores_take_every_destination(self) -> Self:
        if not self.by_destination:
            if self.transaction_journal:
                raise ValueError(
                    "transaction_journal of activemq_kahadb requires by_destination, which is not set: set "
                    "by_destination, or remove transaction_journal"
                )
            return self
        named = [(store.kind, store.destination) for store in self.by_destination]
        for number, (kind, destination) in enumerate(named):
            if (kind, destination) in named[:number]:
                subject = f"the {kind} {destination}" if kind else "all other destinations"
                raise ValueError(
                    f"by_destination of activemq_kahadb has two entries for {subject}: merge the two entries"
                )
        if (None, None) not in named and not {("queue", ">"), ("topic", ">")} <= set(named):
            # MultiKahaDBPersistenceAdapter: "No matching persistence adapter configured for destination".
            raise ValueError(
                "by_destination of activemq_kahadb leaves some destinations without a store: add an entry without the "
                "keys destination and kind. This entry then applies to all other destinations"
            )
        if self.directory_archive:
            raise ValueError(
                "directory_archive and by_destination of activemq_kahadb are both set: several stores would "
                "overwrite each other's archived files. Remove directory_archive"
            )
        return self

    def mkahadb_bean(self) -> StoresByDestination | None:
        """Return the bean of the XML element mKahaDB, which has several stores by destination.

        It is None for a broker with a single kahaDB store.
        """
        return StoresByDestination(by_destination=self.by_destination) if self.by_destination else None
