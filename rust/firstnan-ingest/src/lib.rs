//! Records of the contract as Arrow columns; the core stays free of Arrow.
#![forbid(unsafe_code)]

mod columns;

pub use columns::Columns;
