//! The verdict on one training step: the earliest stage in which a non-finite value was observed.
//!
//! Where a symptom first shows is not why it arose: the report claims no cause.

use std::borrow::Cow;

use crate::canonical;
use crate::digest;
use crate::error::{Error, ErrorKind, Result};
use crate::generated::{
    IncidentReport, IncidentReportAction as Action, IncidentReportDecision as Decision, IncidentReportRootCauseClaim, StageName,
    StageTelemetry, StageTelemetryState as State, TrainingIncidentContract, TrainingRunEvidence,
};
use crate::record::{Profile, Record};

/// `training-incident-contract@sha256:` and the digest of the contract's canonical bytes.
pub fn contract_content_id(contract: &TrainingIncidentContract<'_>) -> Result<String> {
    let mut out = Vec::with_capacity(1024);
    contract.write(&mut out)?;
    Ok(digest::content_id("training-incident-contract", &out))
}

/// `training-incident-evidence@sha256:` and the digest of `{contract_content_id, evidence_id, stages}`.
pub fn evidence_content_id(contract_content_id: &str, evidence_id: &str, stages: &[StageTelemetry<'_>]) -> Result<String> {
    let mut out = Vec::with_capacity(256 + 1024 * stages.len());
    for (name, value) in [("{\"contract_content_id\":", contract_content_id), (",\"evidence_id\":", evidence_id)] {
        out.extend_from_slice(name.as_bytes());
        canonical::write_string(Profile::Evidence, value, &mut out)?;
    }
    out.extend_from_slice(b",\"stages\":[");
    for (index, stage) in stages.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        stage.write(&mut out)?;
    }
    out.extend_from_slice(b"]}");
    Ok(digest::content_id("training-incident-evidence", &out))
}

/// The report on a step whose contract and evidence are valid records.
///
/// Refuses evidence that is not of this contract or breaks its bounds; the error names what differs.
pub fn triage<'e>(contract: &TrainingIncidentContract<'_>, evidence: &TrainingRunEvidence<'e>) -> Result<IncidentReport<'e>> {
    report(contract, evidence).map_err(|e| e.in_record("training-run-evidence"))
}

fn report<'e>(contract: &TrainingIncidentContract<'_>, evidence: &TrainingRunEvidence<'e>) -> Result<IncidentReport<'e>> {
    let contract_id = contract_content_id(contract)?;
    if evidence.contract_content_id != contract_id {
        return Err(refuse("the evidence is sealed to another contract").at("contract_content_id"));
    }
    let evidence_id = evidence_content_id(&contract_id, &evidence.evidence_id, &evidence.stages)?;
    if evidence.evidence_content_id != evidence_id {
        return Err(Error::new(ErrorKind::Identity).at("evidence_content_id"));
    }
    if evidence.stages.len() != StageName::ALL.len() {
        return Err(refuse("there are not five stages").at("stages"));
    }
    let mut earliest = None;
    let mut held_back = false;
    let mut total = 0_i64;
    for (index, (stage, expected)) in evidence.stages.iter().zip(StageName::ALL).enumerate() {
        let at = |error: Error, field: &str| error.at(field).at_index(index).at("stages");
        if stage.stage != expected {
            return Err(at(refuse("the stage is out of order").bound(expected.as_str()), "stage"));
        }
        if usize::try_from(stage.stage_order) != Ok(index) {
            return Err(at(refuse("the stage is misnumbered").bound(index), "stage_order"));
        }
        for earlier in &evidence.stages[..index] {
            if earlier.telemetry_id == stage.telemetry_id {
                return Err(at(refuse("an earlier stage has the same id"), "telemetry_id"));
            }
            if earlier.tensor_set_id == stage.tensor_set_id {
                return Err(at(refuse("an earlier stage has the same id"), "tensor_set_id"));
            }
        }
        if let Some(field) = foreign_scope(contract, stage) {
            return Err(at(refuse("it is not the contract's"), field));
        }
        if stage.owner != owner(contract, expected) {
            return Err(at(refuse("it is not the owner that the contract names"), "owner"));
        }
        if stage.checked_elements > contract.maximum_elements_per_stage {
            let bound = contract.maximum_elements_per_stage;
            return Err(at(refuse("more than maximum_elements_per_stage").bound(bound), "checked_elements"));
        }
        total += stage.checked_elements;
        // Within 1 / 1e-15 by the contract's own rules, so an integer bound is exact in binary64.
        let bound = contract.maximum_absolute_finite.to_f64();
        if stage.maximum_absolute_finite.compare(bound).is_none_or(std::cmp::Ordering::is_gt) {
            return Err(at(refuse("above the contract's maximum_absolute_finite").bound(bound), "maximum_absolute_finite"));
        }
        let magnitude = stage.maximum_absolute_finite.to_f64();
        let resolution = contract.minimum_numeric_resolution.to_f64();
        if magnitude != 0.0 && magnitude < resolution {
            return Err(at(refuse("below minimum_numeric_resolution").bound(resolution), "maximum_absolute_finite"));
        }
        match stage.state {
            State::NotRun if earliest.is_none() => {
                return Err(at(refuse("NOT_RUN, but no earlier stage is non-finite"), "state"));
            }
            State::NotRun => held_back = true,
            State::Observed if held_back => return Err(at(refuse("OBSERVED after a stage that did not run"), "state")),
            State::Observed if stage.nonfinite_elements > 0 => earliest = earliest.or(Some(expected)),
            State::Observed => {}
        }
    }
    if total > contract.maximum_total_elements {
        return Err(refuse("more than maximum_total_elements").bound(contract.maximum_total_elements).at("stages"));
    }
    Ok(IncidentReport {
        contract_content_id: Cow::Owned(contract_id),
        evidence_id: evidence.evidence_id.clone(),
        evidence_content_id: Cow::Owned(evidence_id),
        decision: if earliest.is_some() { Decision::Hold } else { Decision::ContinueBoundedDiagnostics },
        earliest_nonfinite_stage: earliest,
        action: action(earliest),
        root_cause_claim: IncidentReportRootCauseClaim::NoneSymptomLocationIsNotCausality,
    })
}

/// What to look at next.
pub fn action(earliest: Option<StageName>) -> Action {
    match earliest {
        None => Action::NoNonfiniteEvidencedCheckOtherSignals,
        Some(StageName::Input) => Action::HoldAndInspectInputDataContract,
        Some(StageName::Forward) => Action::HoldAndReplayForwardActivations,
        Some(StageName::Loss) => Action::HoldAndInspectObjectiveReduction,
        Some(StageName::Backward) => Action::HoldAndInspectGradientPathAndLossScaling,
        Some(StageName::Optimizer) => Action::HoldAndInspectOptimizerStateAndUpdate,
    }
}

/// The team that the contract names for a stage.
pub fn owner<'c>(contract: &'c TrainingIncidentContract<'_>, stage: StageName) -> &'c str {
    match stage {
        StageName::Input => &contract.data_owner,
        StageName::Forward | StageName::Backward => &contract.model_owner,
        StageName::Loss => &contract.objective_owner,
        StageName::Optimizer => &contract.optimizer_owner,
    }
}

/// The first field in which a stage is not of the contract's step, none where it is. Numbers compare by value: 1024 is 1024.0.
pub fn foreign_scope(contract: &TrainingIncidentContract<'_>, stage: &StageTelemetry<'_>) -> Option<&'static str> {
    let same = [
        ("run_id", stage.run_id == contract.run_id),
        ("step_id", stage.step_id == contract.step_id),
        ("model_version", stage.model_version == contract.model_version),
        ("dataset_version", stage.dataset_version == contract.dataset_version),
        ("batch_id", stage.batch_id == contract.batch_id),
        ("objective_version", stage.objective_version == contract.objective_version),
        ("optimizer_version", stage.optimizer_version == contract.optimizer_version),
        ("precision", stage.precision == contract.precision),
        ("loss_scale_version", stage.loss_scale_version == contract.loss_scale_version),
        ("loss_scale", stage.loss_scale.equals(&contract.loss_scale)),
    ];
    same.iter().find(|(_, same)| !same).map(|(field, _)| *field)
}

#[cold]
fn refuse(why: &str) -> Error {
    Error::new(ErrorKind::Scope).detail(why)
}
