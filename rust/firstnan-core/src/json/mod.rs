//! Strict JSON (RFC 8259) as a pull reader over bytes: no tree, no recursion, no repair.

mod number;
mod quick;
mod reader;
pub(crate) mod scan;
mod string;

pub use number::Number;
pub use reader::{Reader, Token};
