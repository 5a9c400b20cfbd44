//! Lines of JSON to checked, identified records as Arrow columns; the core stays free of Arrow.
//!
//! [`Text`] reads a source, [`Cutter`] cuts it into shards ([`Shards`] does so ahead of time), [`decode()`] makes tables. [`RowLines`] makes lines
//! of tables.
#![forbid(unsafe_code)]

mod ahead;
mod bulk_triage;
mod columns;
mod decode;
mod flat_rows;
mod line;
mod names;
mod quarantine;
mod row_lines;
mod rows;
mod shard;
mod text;
mod texts;
mod verdicts;

pub use ahead::{Next, Shards};
pub use bulk_triage::BulkTriage;
pub use columns::Columns;
pub use decode::{Decoded, decode, schema_of_kind, schema_of_quarantine};
pub use row_lines::RowLines;
pub use shard::{Cut, Cutter, Shard};
pub use text::{Input, ReadError, Text};
pub use verdicts::schema_of_verdicts;
