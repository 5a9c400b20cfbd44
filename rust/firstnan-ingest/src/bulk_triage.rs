//! The verdict on every step of a fleet, from the tables of contracts and telemetry.
//!
//! Both tables come ordered by run and step, as any engine sorts them, and are read side by side, so that memory is
//! that of one piece (some steps) a thread. The evidence of a (contract, attempt, rank) is put together from its telemetry, and the
//! verdict on it is that of [`firstnan_core::triage`], which asks for five stages, of one scope, within bounds.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::thread;

use arrow_array::cast::AsArray;
use arrow_array::{Array, FixedSizeBinaryArray, Int64Array, RecordBatch};
use arrow_schema::ArrowError;
use firstnan_core::triage::{contract_content_id, evidence_content_id, foreign_scope, triage};
use firstnan_core::{
    Error, Record, StageName, StageTelemetry, StageTelemetryState as State, TrainingIncidentContract, TrainingRunEvidence,
};

use crate::flat_rows::{FlatRows, Texts, integers, unlike};
use crate::verdicts::{Status, Verdict, Verdicts};

/// Rows of a piece, the unit of work of a thread, more only where one step has more: its verdicts are a batch.
const PIECE_ROWS: usize = 8192;

/// A run and a step of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    run: String,
    step: i64,
}

/// A batch of one of the two tables.
struct Batch {
    records: FlatRows,
    runs: Texts,
    steps: Int64Array,
    sent: Option<Sent>,
}

/// What tells the rows of a fleet apart.
struct Sent {
    digests: FixedSizeBinaryArray,
    ranks: Int64Array,
    world_sizes: Int64Array,
    attempts: Int64Array,
}

type Row = (Arc<Batch>, usize);

/// The rows of a sorted table, a step of a run at a time.
struct Cursor<I> {
    batches: I,
    open: Option<Row>,
    next: Option<Key>,
    telemetry: bool,
}

impl<I: Iterator<Item = Result<RecordBatch, ArrowError>>> Cursor<I> {
    fn new(batches: I, telemetry: bool) -> Result<Self, ArrowError> {
        let mut cursor = Self { batches, open: None, next: None, telemetry };
        cursor.advance()?;
        Ok(cursor)
    }

    fn read(&self, batch: &RecordBatch) -> Result<Batch, ArrowError> {
        let info = if self.telemetry { &StageTelemetry::INFO } else { &TrainingIncidentContract::INFO };
        let sent = if self.telemetry {
            let digests = batch.column_by_name("record_sha256").and_then(|array| array.as_fixed_size_binary_opt());
            Some(Sent {
                digests: digests.cloned().ok_or_else(|| unlike("record_sha256", "fixed_size_binary[32]"))?,
                ranks: integers(batch, "envelope_rank")?,
                world_sizes: integers(batch, "envelope_world_size")?,
                attempts: integers(batch, "envelope_attempt")?,
            })
        } else {
            None
        };
        Ok(Batch {
            records: FlatRows::new(batch, info)?,
            runs: Texts::new(batch, "run_id")?,
            steps: integers(batch, "step_id")?,
            sent,
        })
    }

    /// Moves to the next row; its key is in `next`, none at the end.
    fn advance(&mut self) -> Result<(), ArrowError> {
        let mut place = self.open.take().map(|(batch, row)| (batch, row + 1));
        let last = self.next.take();
        loop {
            match place {
                Some((batch, row)) if row < batch.records.len() => {
                    let (run, step) = (batch.runs.get(row).unwrap_or_default(), batch.steps.value(row));
                    // Most rows are of the step before: no new key is made for them.
                    let key = match last {
                        Some(last) if last.run == run && last.step == step => last,
                        last => {
                            let key = Key { run: run.to_owned(), step };
                            if last.is_some_and(|last| key < last) {
                                let words = "the rows are not ordered by run_id and step_id";
                                return Err(ArrowError::InvalidArgumentError(words.into()));
                            }
                            key
                        }
                    };
                    (self.open, self.next) = (Some((batch, row)), Some(key));
                    return Ok(());
                }
                _ => match self.batches.next() {
                    Some(batch) => place = Some((Arc::new(self.read(&batch?)?), 0)),
                    None => return Ok(()),
                },
            }
        }
    }

    /// The rows of this step, none where the cursor stands at another.
    fn take(&mut self, key: &Key) -> Result<Vec<Row>, ArrowError> {
        let mut rows = Vec::new();
        while self.next.as_ref() == Some(key) {
            if let Some((batch, row)) = &self.open {
                rows.push((Arc::clone(batch), *row));
            }
            self.advance()?;
        }
        Ok(rows)
    }
}

/// All that is known of a step of a run.
struct Step {
    key: Key,
    contracts: Vec<Row>,
    telemetry: Vec<Row>,
}

/// Reads both tables and gives the verdicts, ordered by run, step, contract, attempt and rank.
pub struct BulkTriage<C, T> {
    contracts: Cursor<C>,
    telemetry: Cursor<T>,
    threads: usize,
    judged: VecDeque<RecordBatch>,
}

impl<C, T> BulkTriage<C, T>
where
    C: Iterator<Item = Result<RecordBatch, ArrowError>>,
    T: Iterator<Item = Result<RecordBatch, ArrowError>>,
{
    /// Begins with the tables of `training-incident-contract` and `stage-telemetry`, each ordered by run and step.
    ///
    /// # Errors
    ///
    /// A table cannot be read, or has not the columns of its kind.
    pub fn new(contracts: C, telemetry: T, threads: usize) -> Result<Self, ArrowError> {
        let (contracts, telemetry) = (Cursor::new(contracts, false)?, Cursor::new(telemetry, true)?);
        Ok(Self { contracts, telemetry, threads, judged: VecDeque::new() })
    }

    /// The next verdicts, none at the end. How they are cut into batches does not depend on the number of threads.
    ///
    /// # Errors
    ///
    /// A table cannot be read further, or is not ordered.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        while self.judged.is_empty() {
            let mut pieces = Vec::with_capacity(self.threads);
            while pieces.len() < self.threads.max(1) {
                let piece = self.next_piece()?;
                if piece.is_empty() {
                    break;
                }
                pieces.push(piece);
            }
            match pieces.as_slice() {
                [] => return Ok(None),
                [piece] => self.judged.extend(judge(piece)?),
                _ => thread::scope(|scope| {
                    let workers: Vec<_> = pieces.iter().map(|piece| scope.spawn(|| judge(piece))).collect();
                    for worker in workers {
                        let batch = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                        self.judged.extend(batch);
                    }
                    Ok::<_, ArrowError>(())
                })?,
            }
        }
        Ok(self.judged.pop_front())
    }

    /// The next steps, none at the end.
    fn next_piece(&mut self) -> Result<Vec<Step>, ArrowError> {
        let (mut steps, mut rows) = (Vec::new(), 0);
        while rows < PIECE_ROWS {
            let key = match (&self.contracts.next, &self.telemetry.next) {
                (Some(one), Some(other)) => one.min(other).clone(),
                (Some(one), None) | (None, Some(one)) => one.clone(),
                (None, None) => break,
            };
            let contracts = self.contracts.take(&key)?;
            let telemetry = self.telemetry.take(&key)?;
            rows += contracts.len() + telemetry.len();
            steps.push(Step { key, contracts, telemetry });
        }
        Ok(steps)
    }
}

/// The verdicts on the steps, none where nothing is to be said of them.
fn judge(steps: &[Step]) -> Result<Option<RecordBatch>, ArrowError> {
    let mut out = Verdicts::default();
    for Step { key, contracts, telemetry } in steps {
        judge_step(key, contracts, telemetry, &mut out);
    }
    if out.rows() == 0 { Ok(None) } else { out.finish().map(Some) }
}

/// The contract of a row, and its content id.
struct Promise<'a> {
    contract: TrainingIncidentContract<'a>,
    content_id: String,
}

/// The telemetry that one rank sent in one attempt.
#[derive(Default)]
struct Sender<'a> {
    world_size: Option<i64>,
    stages: Vec<StageTelemetry<'a>>,
    digests: HashSet<&'a [u8]>,
    refusals: Vec<Error>,
}

fn judge_step(key: &Key, contracts: &[Row], telemetry: &[Row], out: &mut Verdicts) {
    let mut promises = BTreeMap::new();
    for (batch, row) in contracts {
        match read::<TrainingIncidentContract>(batch, *row).and_then(|contract| Ok((contract_content_id(&contract)?, contract))) {
            Ok((content_id, contract)) => {
                promises.insert(content_id.clone(), Promise { contract, content_id });
            }
            Err(error) => out.push(&Verdict { refusal: Some(&error), ..Verdict::new(&key.run, key.step, Status::Refused) }),
        }
    }
    let senders = senders(telemetry);
    let mut unused: Vec<&Promise<'_>> = promises.values().collect();
    for ((attempt, rank), sender) in &senders {
        let about = |status| Verdict {
            attempt: *attempt,
            rank: *rank,
            world_size: sender.world_size,
            ..Verdict::new(&key.run, key.step, status)
        };
        for error in &sender.refusals {
            out.push(&Verdict { refusal: Some(error), ..about(Status::Refused) });
        }
        let mut homeless: Vec<&StageTelemetry<'_>> = sender.stages.iter().collect();
        for promise in promises.values() {
            let of = |stage: &&StageTelemetry<'_>| foreign_scope(&promise.contract, stage).is_none();
            let stages: Vec<&StageTelemetry<'_>> = sender.stages.iter().filter(|stage| of(stage)).collect();
            homeless.retain(|stage| !of(stage));
            if stages.is_empty() {
                continue;
            }
            unused.retain(|other| other.content_id != promise.content_id);
            judge_evidence(promise, stages, about(Status::Verdict), out);
        }
        if !homeless.is_empty() {
            let differs = promises.values().find_map(|promise| foreign_scope(&promise.contract, homeless[0]));
            out.push(&Verdict { differs, ..seen(&homeless, about(Status::NoContract)) });
        }
    }
    for promise in unused {
        let contract = Some(promise.content_id.as_str());
        out.push(&Verdict { contract, missing: &StageName::ALL, ..Verdict::new(&key.run, key.step, Status::NoTelemetry) });
    }
}

fn read<'a, R: Record<'a>>(batch: &'a Batch, row: usize) -> Result<R, Error> {
    let record = R::extract(batch.records.row(row)).map_err(|error| error.in_record(R::KIND))?;
    record.check_rules().map_err(|error| error.in_record(R::KIND))?;
    Ok(record)
}

/// The telemetry by attempt and rank; a record that came twice counts once.
fn senders(telemetry: &[Row]) -> BTreeMap<(Option<i64>, Option<i64>), Sender<'_>> {
    let mut senders = BTreeMap::<_, Sender<'_>>::new();
    for (batch, row) in telemetry {
        let Some(sent) = &batch.sent else { continue };
        let number = |array: &Int64Array| array.is_valid(*row).then(|| array.value(*row));
        let sender = senders.entry((number(&sent.attempts), number(&sent.ranks))).or_default();
        if !sender.digests.insert(sent.digests.value(*row)) {
            continue;
        }
        sender.world_size = sender.world_size.max(number(&sent.world_sizes));
        match read::<StageTelemetry>(batch, *row) {
            Ok(stage) => sender.stages.push(stage),
            Err(error) => sender.refusals.push(error),
        }
    }
    senders
}

/// Fills in what the stages show by themselves, whatever else is missing.
fn seen<'v>(stages: &[&StageTelemetry<'_>], verdict: Verdict<'v>) -> Verdict<'v> {
    let bad = stages.iter().filter(|stage| stage.state == State::Observed && stage.nonfinite_elements > 0);
    let first = bad.min_by_key(|stage| stage.stage as usize);
    Verdict {
        first_nonfinite_stage: first.map(|stage| stage.stage),
        nonfinite_elements: first.map(|stage| stage.nonfinite_elements),
        ..verdict
    }
}

fn judge_evidence(promise: &Promise<'_>, mut stages: Vec<&StageTelemetry<'_>>, about: Verdict<'_>, out: &mut Verdicts) {
    stages.sort_by_key(|stage| stage.stage as usize);
    let mut about = seen(&stages, about);
    about.contract = Some(&promise.content_id);
    let missing: Vec<StageName> =
        StageName::ALL.into_iter().filter(|name| stages.iter().all(|stage| stage.stage != *name)).collect();
    if let Some(twice) = stages.windows(2).find(|pair| pair[0].stage == pair[1].stage) {
        let differs = Some(twice[0].stage.as_str());
        out.push(&Verdict { status: Status::Ambiguous, missing: &missing, differs, ..about });
        return;
    }
    if !missing.is_empty() {
        out.push(&Verdict { status: Status::Incomplete, missing: &missing, ..about });
        return;
    }
    let evidence_id = evidence_id(about.step, about.attempt, about.rank);
    let stages: Vec<StageTelemetry<'_>> = stages.into_iter().cloned().collect();
    let judged = evidence_content_id(&promise.content_id, &evidence_id, &stages).map(|id| TrainingRunEvidence {
        evidence_id: Cow::Borrowed(&evidence_id),
        evidence_content_id: Cow::Owned(id),
        contract_content_id: Cow::Borrowed(&promise.content_id),
        stages,
    });
    match judged.and_then(|evidence| triage(&promise.contract, &evidence)) {
        Ok(report) => out.push(&Verdict { report: Some(&report), ..about }),
        Err(error) => out.push(&Verdict { status: Status::Refused, refusal: Some(&error), ..about }),
    }
}

/// The id of evidence that was put together here: the same for the same telemetry, wherever that is done.
fn evidence_id(step: i64, attempt: Option<i64>, rank: Option<i64>) -> String {
    let named = |name: &str, number: Option<i64>| number.map(|number| format!(":{name}-{number}")).unwrap_or_default();
    format!("assembled:step-{step}{}{}", named("attempt", attempt), named("rank", rank))
}
