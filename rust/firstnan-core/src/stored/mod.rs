//! Counting arrays where a file stores them, in memory bounded by one piece a thread.
//!
//! Positioned reads into a buffer that each thread keeps, not a memory map: a file that another process cuts meanwhile is
//! then a short read that can be told, where a map ends the process with SIGBUS, and what is resident stays bounded.

mod extents;
mod fortran;
mod source;

pub use extents::{Extent, Fault, PIECE_BYTES, Packing, Stopped, count_extents};
pub use fortran::first_nonfinite_in_c_order;
pub use source::ReadAt;
