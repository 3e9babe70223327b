"""Rules L about several stores by destination (mKahaDB)."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.lint.document import Element, Problem
from activemq_fleet.lint.engine import rule
from activemq_fleet.lint.shared_store_signs import sharing_reason_of_store


@rule("L035", "error", each="mKahaDB", releases="5.13.0 !5.18.5 6.0.0 !6.1.3")
def mkahadb_mixes_named_and_per_destination_stores(mkahadb: Element) -> Iterator[Problem]:
    """An mKahaDB has a store with queue= or topic=, and a perDestination store: only the broker's first start succeeds.

    Why: once the stores exist on the disk, the broker opens the store of the queue or topic twice. Its start fails with
        InstanceAlreadyExistsException, also on a standby that takes over.
    Fix: remove perDestination="true", so that one store contains all other destinations. Or upgrade to 5.18.5, 6.1.3 or
        later.
    Source: measured on 5.13.5 and 5.18.3; AMQ-9504

    Fires on 5.18.3::

        <mKahaDB directory="${activemq.data}/kahadb">
          <filteredPersistenceAdapters>
            <filteredKahaDB queue="orders.>"><persistenceAdapter><kahaDB/></persistenceAdapter></filteredKahaDB>
            <filteredKahaDB perDestination="true"><persistenceAdapter><kahaDB/></persistenceAdapter></filteredKahaDB>
          </filteredPersistenceAdapters>
        </mKahaDB>

    Silent on 5.18.3::

        <mKahaDB directory="${activemq.data}/kahadb">
          <filteredPersistenceAdapters>
            <filteredKahaDB perDestination="true"><persistenceAdapter><kahaDB/></persistenceAdapter></filteredKahaDB>
          </filteredPersistenceAdapters>
        </mKahaDB>
    """
    stores = mkahadb.descendants("filteredKahaDB")
    if any(store.has_attribute("queue") or store.has_attribute("topic") for store in stores):
        for store in stores:
            if store.boolean_attribute("perDestination", False):
                yield store.problem(
                    'this mKahaDB has a <filteredKahaDB> with perDestination="true" and another '
                    "<filteredKahaDB> for a queue or topic: only the first start of the broker succeeds",
                    "perDestination",
                )


@rule("L036", "error", each="mKahaDB", releases="5.6.0 !5.13.0")
def shared_mkahadb_on_5_12_or_older(mkahadb: Element) -> Iterator[Problem]:
    """The nodes of a pair share an mKahaDB on 5.12 or older.

    Why: before 5.9 only the stores inside the mKahaDB have locks. From 5.9 to 5.12 a node that loses the lock does not
        stop, because the keep-alive of the lock ends with a NullPointerException.
    Fix: upgrade to 5.13 or later, or use one <kahaDB> instead of <mKahaDB>. In an inventory, remove by_destination from
        activemq_kahadb.
    Cannot see: whether another broker uses the directory, see L003.
    Source: MultiKahaDBPersistenceAdapter and LockableServiceSupport of the release tags; AMQ-6033

    Fires on 5.11.4::

        <mKahaDB directory="/srv/shared/activemq" lockKeepAlivePeriod="5000"/>

    Silent on 5.11.4::

        <mKahaDB directory="${activemq.data}/kahadb"/>
    """
    sharing = sharing_reason_of_store(mkahadb)
    if sharing is not None:
        text = (
            f"the nodes of a pair share this mKahaDB ({sharing.reason}), but its lock is unreliable in ActiveMQ "
            f"{mkahadb.document.release.text}: both nodes can become active"
        )
        fix = "upgrade to 5.13 or later, or use one <kahaDB> instead of <mKahaDB>"
        if mkahadb.document.broker is not None:
            fix = "upgrade to 5.13 or later, or remove by_destination from activemq_kahadb"
        yield mkahadb.problem(text, severity=None if sharing.certain else "warning", fix=fix)
