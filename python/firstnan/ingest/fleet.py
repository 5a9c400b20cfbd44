"""The fleet's view: the verdict on every step of every rank, and where a run went non-finite first.

The contracts and the telemetry of a store are brought side by side by run and step (DuckDB sorts, and spills to the disk
where memory ends), and the Rust core puts the evidence of each (contract, attempt, rank) together and judges it, by the
same function as `firstnan.triage_training_incident`. Where a symptom first shows is not why it arose: no cause is claimed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from firstnan import STAGES, _core
from firstnan.arguments import refused_argument
from firstnan.errors import ContractError
from firstnan.ingest.missing import needed
from firstnan.ingest.questions import is_text, name_damage, spill_folder, view_of

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from firstnan.ingest.snapshot import Snapshot

CONTRACTS: Final = "training-incident-contract"
TELEMETRY: Final = "stage-telemetry"

# What is counted before the gradients of several ranks are reduced. Whether `backward` is, is the probe's matter.
BEFORE_REDUCTION: Final = STAGES[:3]


def triage_tables(contracts: Any, telemetry: Any) -> pa.RecordBatchReader:
    """The verdicts on tables of two kinds, each ordered by run_id and step_id.

    Args:
        contracts: whatever has `__arrow_c_stream__`: rows of `training-incident-contract`, as `firstnan.ingest.read` gives.
        telemetry: rows of `stage-telemetry`, likewise.

    Returns:
        A row for each (run_id, step_id, contract, attempt, rank) of which anything is known, in this order:

        run_id, step_id, attempt, rank, world_size
            the last three from the envelopes, null where the lines were bare records.
        status
            `verdict`; `refused` by triage, `refusal` says why; `incomplete`, `missing_stages` says what did not come;
            `ambiguous`, a stage came twice with different contents; `no_contract`; `no_telemetry`.
        decision, earliest_nonfinite_stage, action
            of the report, null without a verdict.
        first_nonfinite_stage, nonfinite_elements
            of the telemetry that came, whether or not there is a verdict.
        missing_stages, refusal, contract_content_id, evidence_id, evidence_content_id
            as their names say. The evidence's id is made here: the same telemetry gets the same id.

    Raises:
        ValueError: the rows are not ordered, or a column is missing or of another type; it is named.
    """
    pa = needed("pyarrow")
    judged = _core.BulkTriage(_as_kind(contracts, CONTRACTS), _as_kind(telemetry, TELEMETRY))
    schema = pa.schema(_core.table_of_verdicts())

    def batches() -> Iterator[Any]:
        while (table := judged.next_table()) is not None:
            yield from pa.table(table).to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())


def verdicts(snapshot: Snapshot, *, run: str | None = None) -> pa.RecordBatchReader:
    """The verdicts on what a store holds: the rows of `triage_tables`.

    Args:
        snapshot: of the store; it must stay open until the last batch is read.
        run: only this run.

    Raises:
        ContractError: `run` holds a lone surrogate.
        StoreError: as `Snapshot.connect`; also from the reader, where a segment cannot be read (`unreadable`).
    """
    return _verdicts(snapshot, run)


def _verdicts(snapshot: Snapshot, run: str | None, steps: str = "") -> pa.RecordBatchReader:
    """As `verdicts`; `steps` is SQL that leaves out the steps which a question does not look at."""
    if run is not None and not is_text(run):
        raise refused_argument("run", "pattern", "holds what is no Unicode text", "no lone surrogate")
    connection = snapshot.connect()
    where, given = ("", []) if run is None else (" WHERE run_id = ?", [run])

    def ordered(kind: str) -> Any:
        # A cursor each: a connection has one result at a time.
        question = f"SELECT {_columns(kind)} FROM {view_of(kind)} {steps}{where} ORDER BY run_id, step_id"
        return connection.cursor().sql(question, params=given)

    with _damage_named(snapshot):
        judged = triage_tables(ordered(CONTRACTS), ordered(TELEMETRY))

    def batches() -> Iterator[Any]:
        with _damage_named(snapshot):
            yield from judged

    return needed("pyarrow").RecordBatchReader.from_batches(judged.schema, batches())


@contextlib.contextmanager
def _damage_named(snapshot: Snapshot) -> Iterator[None]:
    """Where the block cannot read the rows of a segment, a StoreError names it."""
    try:
        yield
    except (needed("duckdb").Error, needed("pyarrow").ArrowException, OSError, ValueError) as error:
        if not isinstance(error, ContractError):
            name_damage(snapshot, error)
        raise


def _schema_of_judged(kind: str) -> pa.Schema:
    """The columns of a kind that the core looks at: not where a line came from, which need not be sorted with the rest."""
    pa = needed("pyarrow")
    schema = pa.schema(_core.table_of_kind(kind))
    return pa.schema([field for field in schema if not field.name.startswith("line_")])


def _columns(kind: str) -> str:
    return ", ".join(_schema_of_judged(kind).names)


def _as_kind(rows: Any, kind: str) -> pa.RecordBatchReader:
    """The rows with the columns and types that the core makes: other engines give dictionaries as text, and so on."""
    pa = needed("pyarrow")
    schema = _schema_of_judged(kind)
    reader = pa.RecordBatchReader.from_stream(rows)
    missing = [name for name in schema.names if name not in reader.schema.names]
    if missing:
        raise ValueError(f"the rows of {kind} have no column {missing[0]}")
    plain = pa.schema([_without_dictionary(field) for field in schema])

    def batches() -> Iterator[Any]:
        for batch in reader:
            yield pa.record_batch([batch.column(field.name).cast(field.type) for field in plain], schema=plain)

    return pa.RecordBatchReader.from_batches(plain, batches())


def _without_dictionary(field: pa.Field) -> pa.Field:
    pa = needed("pyarrow")
    return field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field


def incidents(snapshot: Snapshot, *, run: str | None = None) -> pa.Table:
    """Where each run went non-finite first: by step, then stage, then rank. A row for each run and attempt that did.

    run_id, attempt, step_id, stage, rank
        the first of all; `rank` is the lowest that showed it at this stage, null for bare records.
    nonfinite_elements
        in this stage, over all ranks.
    ranks_before_reduction, ranks_at_backward, ranks_at_optimizer
        by the stage in which each rank showed it first in this step. Input, forward and loss are counted before the
        gradients of several ranks are reduced; whether backward is counted before or after is the probe's matter.
    ranks_finite, ranks_missing, world_size
        ranks whose telemetry of this step is finite, and those of which nothing came.
    verdicts, without_verdict
        how many pieces of evidence of this step were judged, and how many could not be.

    Args:
        snapshot: of the store.
        run: only this run.
    """
    with _judged(snapshot, run, _FIRST_STEPS) as judged:
        # A record that this version does not take is no sign: then the first may be a step that was left out.
        if not judged.sql("FROM judged_steps WHERE status = 'refused' AND place IS NULL LIMIT 1").fetchall():
            return judged.sql(_INCIDENTS).to_arrow_table()
    with _judged(snapshot, run) as judged:
        return judged.sql(_INCIDENTS).to_arrow_table()


def timeline(snapshot: Snapshot, run: str) -> pa.Table:
    """The steps of a run in order, neighbours that look the same folded into one row.

    attempt, first_step, last_step, steps
        the span, and how many steps of it there are telemetry or contracts of.
    stage, ranks
        the first stage that is not finite and the ranks that show it there; null and none where all that came is finite.
    ranks_seen, ranks_missing, world_size
        of how many ranks anything came, which did not come, and how many there are.
    without_verdict
        how many pieces of evidence could not be judged, in the words of `status`.

    Args:
        snapshot: of the store.
        run: the run.
    """
    with _judged(snapshot, run) as judged:
        return judged.sql(_TIMELINE).to_arrow_table()


@contextlib.contextmanager
def _judged(snapshot: Snapshot, run: str | None, steps: str = "") -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with the table `judged_steps`, as of `_verdicts`."""
    with needed("duckdb").connect(":memory:") as connection:
        connection.execute("SET temp_directory = ?", [spill_folder()])
        connection.register("judged", _verdicts(snapshot, run, steps))
        # A table, which DuckDB spills to the disk: the question looks at it more than once.
        with _damage_named(snapshot):
            connection.execute(f"CREATE TABLE judged_steps AS SELECT {_KEPT} FROM judged")
        yield connection


# Whether a step has an incident is told by its telemetry alone; only the first of a run is judged by its contract.
_FIRST_STEPS = f"""SEMI JOIN (
    SELECT run_id, min(step_id) AS step_id FROM {view_of(TELEMETRY)}
    WHERE state = 'OBSERVED' AND nonfinite_elements > 0 GROUP BY run_id, envelope_attempt
) USING (run_id, step_id)"""

_KEPT = f"""run_id, attempt, step_id, rank, world_size, status, nonfinite_elements,
    list_position({list(STAGES)}, first_nonfinite_stage) AS place"""

_INCIDENTS = f"""
WITH first AS (
    SELECT run_id, attempt, min(step_id) AS step_id FROM judged_steps WHERE place IS NOT NULL GROUP BY ALL
), step AS (
    SELECT *, min(place) OVER (PARTITION BY run_id, attempt) AS earliest FROM (
        SELECT judged_steps.* FROM judged_steps JOIN first
        ON judged_steps.run_id = first.run_id AND judged_steps.step_id = first.step_id
        AND judged_steps.attempt IS NOT DISTINCT FROM first.attempt)
), ranks AS (
    SELECT run_id, attempt, rank, min(place) AS place FROM step GROUP BY ALL
), sides AS (
    SELECT run_id, attempt,
        {{before}} AS ranks_before_reduction, {{backward}} AS ranks_at_backward,
        {{optimizer}} AS ranks_at_optimizer, {{finite}} AS ranks_finite
    FROM ranks GROUP BY ALL
), facts AS (
    SELECT run_id, attempt, step_id, {list(STAGES)}[earliest] AS stage,
        min(rank) FILTER (place = earliest) AS rank,
        CAST(sum(nonfinite_elements) FILTER (place = earliest) AS BIGINT) AS nonfinite_elements,
        max(world_size) AS world_size,
        count(*) FILTER (status = 'verdict') AS verdicts,
        count(*) FILTER (status <> 'verdict') AS without_verdict,
        coalesce(list(DISTINCT rank) FILTER (rank IS NOT NULL), []) AS seen
    FROM step GROUP BY ALL
)
SELECT facts.run_id, facts.attempt, step_id, stage, rank, nonfinite_elements,
    ranks_before_reduction, ranks_at_backward, ranks_at_optimizer, ranks_finite,
    list_filter(range(coalesce(world_size, 0)), lambda one: NOT list_contains(seen, one)) AS ranks_missing,
    world_size, verdicts, without_verdict
FROM facts JOIN sides ON facts.run_id = sides.run_id AND facts.attempt IS NOT DISTINCT FROM sides.attempt
ORDER BY facts.run_id, facts.attempt NULLS FIRST
""".format(
    **{
        name: f"coalesce(list(rank ORDER BY rank) FILTER (rank IS NOT NULL AND {condition}), [])"
        for name, condition in {
            "before": f"place <= {len(BEFORE_REDUCTION)}",
            "backward": f"place = {STAGES.index('backward') + 1}",
            "optimizer": f"place = {STAGES.index('optimizer') + 1}",
            "finite": "place IS NULL",
        }.items()
    }
)

_TIMELINE = f"""
WITH placed AS (
    SELECT *, min(place) OVER (PARTITION BY attempt, step_id) AS earliest FROM judged_steps
), steps AS (
    SELECT attempt, step_id, earliest, max(world_size) AS world_size,
        coalesce(list(DISTINCT rank ORDER BY rank) FILTER (rank IS NOT NULL), []) AS seen,
        coalesce(list(DISTINCT rank ORDER BY rank) FILTER (rank IS NOT NULL AND place = earliest), []) AS ranks,
        coalesce(list(status ORDER BY status) FILTER (status <> 'verdict'), []) AS without_verdict
    FROM placed GROUP BY ALL
), shown AS (
    SELECT * EXCLUDE seen, len(seen) AS ranks_seen,
        list_filter(range(coalesce(world_size, 0)), lambda one: NOT list_contains(seen, one)) AS ranks_missing
    FROM steps
), spans AS (
    SELECT *, row_number() OVER (PARTITION BY attempt ORDER BY step_id) - row_number() OVER (
        PARTITION BY attempt, earliest, ranks, ranks_seen, ranks_missing, world_size, without_verdict ORDER BY step_id) AS span
    FROM shown
)
SELECT attempt, min(step_id) AS first_step, max(step_id) AS last_step, count(*) AS steps, {list(STAGES)}[earliest] AS stage,
    ranks, ranks_seen, ranks_missing, world_size, without_verdict
FROM spans GROUP BY attempt, earliest, ranks, ranks_seen, ranks_missing, world_size, without_verdict, span
ORDER BY attempt NULLS FIRST, first_step
"""
