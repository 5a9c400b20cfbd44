"""Telemetry by the million: lines of JSON to checked, identified records in Arrow tables. docs/ingest.md

Needs the extra `firstnan[ingest]` (pyarrow, duckdb); the work itself is done by the core, on all cores.
"""

from firstnan.ingest.read import Records as Records
from firstnan.ingest.read import SourceCounts as SourceCounts
from firstnan.ingest.read import read as read
from firstnan.ingest.sources import Source as Source
from firstnan.ingest.sources import SourceLike as SourceLike
from firstnan.ingest.sources import sources_of as sources_of
