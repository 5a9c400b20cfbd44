//! What the ranks of a run must agree on before it starts.

use std::collections::{BTreeSet, HashSet};

use crate::error::{Error, ErrorKind, Result};
use crate::generated::{RankInventory, RunIdentity};

/// Refuses a run whose ranks do not agree; the pointer names the first inventory that differs, never a digest.
///
/// The ranks cover 0 to `world_size - 1`, each with the identity's world size; pairs (host, device) and (host, local
/// rank) are unique; there is one software digest and one storage digest.
pub fn check_inventory_consensus(identity: &RunIdentity<'_>, inventories: &[RankInventory<'_>]) -> Result<()> {
    let expected = usize::try_from(identity.world_size).unwrap_or(usize::MAX);
    if inventories.len() != expected {
        return Err(refuse("there is not one inventory for each rank").bound(expected));
    }
    let (mut ranks, mut devices, mut local_ranks) = (BTreeSet::new(), HashSet::new(), HashSet::new());
    for (index, one) in inventories.iter().enumerate() {
        let at = |field: &str, why: &str| Err(refuse(why).at(field).at_index(index));
        if one.world_size != identity.world_size {
            return at("world_size", "it is not the identity's");
        }
        // As many distinct ranks below the world size as there are inventories cover it.
        if !ranks.insert(one.rank) {
            return at("rank", "an earlier inventory has the same rank");
        }
        if !devices.insert((&one.host_digest, &one.device_digest)) {
            return at("device_digest", "an earlier inventory of the host has the same device");
        }
        if !local_ranks.insert((&one.host_digest, one.local_rank)) {
            return at("local_rank", "an earlier inventory of the host has the same local rank");
        }
        if one.software_digest != inventories[0].software_digest {
            return at("software_digest", "it is not the one of the first inventory");
        }
        if one.storage_digest != inventories[0].storage_digest {
            return at("storage_digest", "it is not the one of the first inventory");
        }
    }
    Ok(())
}

#[cold]
fn refuse(why: &str) -> Error {
    Error::new(ErrorKind::Consensus).detail(why)
}
