//! The bounds that no single field owns, and the one way to ask for memory.

use crate::error::{Error, ErrorKind, Result};

/// The most bytes a record's canonical form may have, in the record profile.
pub const MAX_CONSENSUS_BYTES: usize = 65_536;
/// The most UTF-8 bytes a text of a lifecycle record may have.
pub const MAX_TEXT_BYTES: usize = 256;
/// The most ranks a run may have.
pub const MAX_WORLD_SIZE: i64 = 4_096;
/// How deep a value may lie in the record profile; the top value lies at 0.
pub const MAX_RECORD_DEPTH: usize = 16;
/// The most values, the top one included, in the record profile.
pub const MAX_RECORD_ITEMS: usize = 4_096;
/// How deep a value may lie in the evidence profile, and in a value that is skipped.
pub const MAX_EVIDENCE_DEPTH: usize = 256;
/// The most digits of an integer in the evidence profile, the sign not counted.
pub const MAX_INTEGER_DIGITS: usize = 4_300;

/// Makes room for `more` items, as an error rather than an abort when there is no memory.
#[inline]
pub(crate) fn reserve<T>(items: &mut Vec<T>, more: usize) -> Result<()> {
    items.try_reserve(more).map_err(|_| Error::new(ErrorKind::Memory))
}

/// Appends bytes, as an error rather than an abort when there is no memory.
#[inline]
pub(crate) fn append(out: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
    reserve(out, bytes.len())?;
    out.extend_from_slice(bytes);
    Ok(())
}
