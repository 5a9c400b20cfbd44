//! Canonical bytes (docs/canonical.md): one serialiser, two profiles.

mod float;
mod integer;
mod slot;
mod string;
mod text;

pub use float::{write_float, write_real};
pub use integer::{write_digits, write_integer};
pub use slot::{NUMBER_ROOM, STEP, Slot};
pub use string::{write_string, write_string_wtf8};
pub use text::{canonicalize, canonicalize_bounded};
