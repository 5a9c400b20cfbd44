"""Telemetry by the million: lines of JSON to checked, identified records in Arrow tables. docs/ingest.md

Needs the extra `firstnan[ingest]` (pyarrow, duckdb); the work itself is done by the core, on all cores.
"""

from firstnan.ingest.compaction import Compacted as Compacted
from firstnan.ingest.compaction import compact as compact
from firstnan.ingest.intake import Summary as Summary
from firstnan.ingest.intake import ingest as ingest
from firstnan.ingest.problems import StoreError as StoreError
from firstnan.ingest.read import Records as Records
from firstnan.ingest.read import SourceCounts as SourceCounts
from firstnan.ingest.read import read as read
from firstnan.ingest.retry import Retried as Retried
from firstnan.ingest.retry import retry as retry
from firstnan.ingest.segments import Segment as Segment
from firstnan.ingest.snapshot import Snapshot as Snapshot
from firstnan.ingest.sources import Source as Source
from firstnan.ingest.sources import SourceLike as SourceLike
from firstnan.ingest.sources import sources_of as sources_of
from firstnan.ingest.store import Counts as Counts
from firstnan.ingest.store import Store as Store
from firstnan.ingest.sweep import Swept as Swept
from firstnan.ingest.sweep import sweep as sweep
