//! What holds across records: triage and consensus. `python/firstnan/_core.pyi` documents the functions.

use firstnan_core::limits::MAX_WORLD_SIZE;
use firstnan_core::{
    Located, RankInventory, Record, RunIdentity, StageTelemetry, TrainingIncidentContract, TrainingRunEvidence, Value, lifecycle,
    triage as core,
};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::build::ToPython;
use crate::errors::Outcome;
use crate::extract::{Context, Object, Otherwise};

#[pyfunction]
pub fn triage<'py>(contract: &Bound<'py, PyAny>, evidence: &Bound<'py, PyAny>) -> Outcome<Bound<'py, PyAny>> {
    let py = contract.py();
    let context = Context::new(py, 128)?;
    let contract: TrainingIncidentContract<'_> = valid(context.object(contract, Otherwise::Type))?;
    let evidence: TrainingRunEvidence<'_> = valid(context.object(evidence, Otherwise::Type))?;
    Ok(core::triage(&contract, &evidence)?.build(&mut ToPython::new(py)?)?)
}

#[pyfunction]
pub fn evidence_content_id<'py>(
    contract_content_id: &Bound<'py, PyAny>,
    evidence_id: &Bound<'py, PyAny>,
    stages: &Bound<'py, PyAny>,
) -> Outcome<Bound<'py, PyString>> {
    let py = stages.py();
    let context = Context::new(py, 128)?;
    let text = |value, name| context.object(value, Otherwise::Contract).text(true).map_err(|e| e.at(name));
    let contract_content_id = text(contract_content_id, "contract_content_id")?;
    let evidence_id = text(evidence_id, "evidence_id")?;
    let mut telemetry: Vec<StageTelemetry<'_>> = Vec::new();
    let stages = context.object(stages, Otherwise::Type);
    for (index, stage) in stages.items(usize::MAX)?.into_iter().enumerate() {
        telemetry.push(valid(stage).map_err(|e| e.at_index(index).at("stages"))?);
    }
    let id = core::evidence_content_id(&contract_content_id, &evidence_id, &telemetry)?;
    Ok(PyString::from_bytes(py, id.as_bytes())?)
}

#[pyfunction]
pub fn validate_inventory_consensus(identity: &Bound<'_, PyAny>, inventories: &Bound<'_, PyAny>) -> Outcome<()> {
    let context = Context::new(identity.py(), 256)?;
    let identity: RunIdentity<'_> = valid(context.object(identity, Otherwise::Contract))?;
    let inventories = context.object(inventories, Otherwise::Contract);
    let mut ranks: Vec<RankInventory<'_>> = Vec::new();
    let most = usize::try_from(MAX_WORLD_SIZE).unwrap_or(usize::MAX);
    for (index, inventory) in inventories.items(most + 1)?.into_iter().enumerate() {
        ranks.push(valid(inventory).map_err(|e| e.at_index(index))?);
    }
    Ok(lifecycle::check_inventory_consensus(&identity, &ranks)?)
}

/// A record taken from an object, shape and rules checked.
fn valid<'a, 'py: 'a, R: Record<'a>>(object: Object<'a, 'py>) -> Outcome<R> {
    let record = R::extract(object).map_err(|e| e.in_record(R::KIND))?;
    record.check_rules().map_err(|e| e.in_record(R::KIND))?;
    Ok(record)
}
