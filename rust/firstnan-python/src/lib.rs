//! The extension `firstnan._core`: each function extracts, calls the core once and maps the error.
//!
//! A contents list only; `python/firstnan/_core.pyi` is the documentation of the functions.

mod arrow;
mod arrow_counts;
mod build;
mod classes;
mod decimal;
mod dlpack;
mod errors;
mod extract;
mod finite;
mod flat;
mod fleet;
mod identity;
mod ingest;
mod input;
mod judge;
mod memory;
mod names;
mod native;
mod records;
mod row_lines;
mod stored;
mod walk;

/// The module `firstnan._core`.
#[pyo3::pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::arrow::ArrowTable;
    #[pymodule_export]
    use super::arrow_counts::{count_arrow_array, count_arrow_stream};
    #[pymodule_export]
    use super::dlpack::count_dlpack;
    #[pymodule_export]
    use super::finite::count_finite;
    #[pymodule_export]
    use super::fleet::{BulkTriage, table_of_verdicts};
    #[pymodule_export]
    use super::identity::{canonical_evidence, canonical_record, canonicalize, content_id, contract_digest};
    #[pymodule_export]
    use super::ingest::{Decoded, LineReader, Shard, table_of_kind, table_of_quarantine};
    #[pymodule_export]
    use super::judge::{evidence_content_id, triage, validate_inventory_consensus};
    #[pymodule_export]
    use super::records::{check, decode, encode, kinds, stage_message_from_bytes, validate};
    #[pymodule_export]
    use super::row_lines::RowLines;
    #[pymodule_export]
    use super::stored::{StoredFile, count_block};

    /// A second interpreter is refused: the classes and names that are kept belong to the first.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        if !super::native::is_main_interpreter() {
            return Err(pyo3::exceptions::PyImportError::new_err("firstnan does not support sub-interpreters"));
        }
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
