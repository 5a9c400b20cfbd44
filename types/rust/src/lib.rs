//! A struct for each record. It keeps every value whole, and checks no bound and no rule: validate first.

// What typify writes is as it writes it.
#[allow(clippy::pedantic)]
#[rustfmt::skip]
mod records;
#[rustfmt::skip]
mod kinds;

pub use kinds::*;
pub use records::*;
