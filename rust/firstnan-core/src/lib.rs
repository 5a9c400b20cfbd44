//! The contract of firstnan in Rust: canonical bytes, identities, strict decoding, validators, triage, lifecycle.
//!
//! A front page only: each module says what it holds.
// Allowed in `finite/machine.rs` alone, which reads no memory through it.
#![deny(unsafe_code)]

pub mod canonical;
mod cel;
pub mod digest;
mod error;
pub mod finite;
#[rustfmt::skip]
mod generated;
pub mod json;
pub mod lifecycle;
pub mod limits;
mod record;
mod shape;
pub mod stored;
pub mod triage;

pub use error::{Error, ErrorKind, Layer, Result, is_plain_word};
pub use generated::*;
pub use record::{Builder, Choice, FieldInfo, FieldType, Located, Profile, Real, Record, RecordInfo, Taker, Value, Visitor};
pub use shape::beyond_binary64;
