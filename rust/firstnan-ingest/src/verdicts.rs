//! The table of verdicts: a row for each (run, step, contract, attempt, rank) of which anything is known.

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder, StringBuilder, StringDictionaryBuilder};
use arrow_array::types::Int16Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use firstnan_core::{Error, IncidentReport, StageName};

/// How far a row got.
#[derive(Clone, Copy)]
pub(crate) enum Status {
    /// Triage gave a report.
    Verdict,
    /// Triage refused the evidence, or the contract or a telemetry cannot be used.
    Refused,
    /// Not all five stages came.
    Incomplete,
    /// A stage came twice, with different contents.
    Ambiguous,
    /// No contract of this run and step has the telemetry's scope.
    NoContract,
    /// The contract is there, and nothing was measured.
    NoTelemetry,
}

impl Status {
    const fn word(self) -> &'static str {
        match self {
            Self::Verdict => "verdict",
            Self::Refused => "refused",
            Self::Incomplete => "incomplete",
            Self::Ambiguous => "ambiguous",
            Self::NoContract => "no_contract",
            Self::NoTelemetry => "no_telemetry",
        }
    }
}

/// A row to be added.
#[derive(Clone, Copy)]
pub(crate) struct Verdict<'v> {
    pub run: &'v str,
    pub step: i64,
    pub status: Status,
    pub attempt: Option<i64>,
    pub rank: Option<i64>,
    pub world_size: Option<i64>,
    pub contract: Option<&'v str>,
    pub report: Option<&'v IncidentReport<'v>>,
    pub first_nonfinite_stage: Option<StageName>,
    pub nonfinite_elements: Option<i64>,
    pub missing: &'v [StageName],
    pub differs: Option<&'v str>,
    pub refusal: Option<&'v Error>,
}

impl<'v> Verdict<'v> {
    pub fn new(run: &'v str, step: i64, status: Status) -> Self {
        Self {
            run,
            step,
            status,
            attempt: None,
            rank: None,
            world_size: None,
            contract: None,
            report: None,
            first_nonfinite_stage: None,
            nonfinite_elements: None,
            missing: &[],
            differs: None,
            refusal: None,
        }
    }
}

type Words = StringDictionaryBuilder<Int16Type>;

/// The growing table.
#[derive(Default)]
pub(crate) struct Verdicts {
    rows: usize,
    run: StringBuilder,
    step: Int64Builder,
    attempt: Int64Builder,
    rank: Int64Builder,
    world_size: Int64Builder,
    status: Words,
    decision: Words,
    earliest: Words,
    action: Words,
    first: Words,
    elements: Int64Builder,
    missing: ListBuilder<StringBuilder>,
    refusal: StringBuilder,
    contract: StringBuilder,
    evidence_id: StringBuilder,
    evidence: StringBuilder,
}

impl Verdicts {
    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn push(&mut self, row: &Verdict<'_>) {
        self.rows += 1;
        self.run.append_value(row.run);
        self.step.append_value(row.step);
        self.attempt.append_option(row.attempt);
        self.rank.append_option(row.rank);
        self.world_size.append_option(row.world_size);
        self.status.append_value(row.status.word());
        self.decision.append_option(row.report.map(|report| report.decision.as_str()));
        self.earliest.append_option(row.report.and_then(|report| report.earliest_nonfinite_stage).map(StageName::as_str));
        self.action.append_option(row.report.map(|report| report.action.as_str()));
        self.first.append_option(row.first_nonfinite_stage.map(StageName::as_str));
        self.elements.append_option(row.nonfinite_elements);
        for stage in row.missing {
            self.missing.values().append_value(stage.as_str());
        }
        self.missing.append(true);
        self.refusal.append_option(row.refusal.map(ToString::to_string).or_else(|| explain(row)));
        self.contract.append_option(row.contract);
        self.evidence_id.append_option(row.report.map(|report| report.evidence_id.as_ref()));
        self.evidence.append_option(row.report.map(|report| report.evidence_content_id.as_ref()));
    }

    pub fn finish(mut self) -> Result<RecordBatch, ArrowError> {
        let columns: [(&str, ArrayRef, bool); 16] = [
            ("run_id", Arc::new(self.run.finish()), false),
            ("step_id", Arc::new(self.step.finish()), false),
            ("attempt", Arc::new(self.attempt.finish()), true),
            ("rank", Arc::new(self.rank.finish()), true),
            ("world_size", Arc::new(self.world_size.finish()), true),
            ("status", Arc::new(self.status.finish()), false),
            ("decision", Arc::new(self.decision.finish()), true),
            ("earliest_nonfinite_stage", Arc::new(self.earliest.finish()), true),
            ("action", Arc::new(self.action.finish()), true),
            ("first_nonfinite_stage", Arc::new(self.first.finish()), true),
            ("nonfinite_elements", Arc::new(self.elements.finish()), true),
            ("missing_stages", Arc::new(self.missing.finish()), false),
            ("refusal", Arc::new(self.refusal.finish()), true),
            ("contract_content_id", Arc::new(self.contract.finish()), true),
            ("evidence_id", Arc::new(self.evidence_id.finish()), true),
            ("evidence_content_id", Arc::new(self.evidence.finish()), true),
        ];
        let fields = columns.iter().map(|(name, array, nullable)| Field::new(*name, array.data_type().clone(), *nullable));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        RecordBatch::try_new(schema, columns.into_iter().map(|(_, array, _)| array).collect())
    }
}

/// The columns of the table.
///
/// # Errors
///
/// None.
pub fn schema_of_verdicts() -> Result<SchemaRef, ArrowError> {
    Ok(Verdicts::default().finish()?.schema())
}

/// Why there is no verdict, where no error says it.
fn explain(row: &Verdict<'_>) -> Option<String> {
    match (row.status, row.differs) {
        (Status::Ambiguous, Some(stage)) => Some(format!("the stage {stage} came twice with different contents")),
        (Status::NoContract, Some(field)) => Some(format!("no contract of this run and step has the same {field}")),
        (Status::NoContract, None) => Some("there is no contract of this run and step".to_owned()),
        _ => None,
    }
}
