//! Counting non-finite elements in raw memory, of every element type that is common in training.
//!
//! A block of a few KiB costs one pass that takes the largest magnitude of the bit patterns; only a block in which that
//! one is no finite pattern is classified element by element, while it is still in the first-level cache. All tests are
//! of integers, so subnormals are finite numbers of their true size whatever the processor's floating-point mode.

mod contiguous;
mod counts;
mod float;
mod format;
mod integer;
mod machine;
mod masked;
mod strided;
mod word;

pub use contiguous::{BLOCK_BYTES, count, count_with_threads};
pub use counts::Counts;
pub use format::{FORMATS, FloatLayout, Format, Kind};
pub use masked::{Bits, count_bits, count_masked};
pub use strided::{Strided, count_strided};
