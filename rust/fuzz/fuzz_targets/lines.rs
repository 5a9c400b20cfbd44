//! Lines of any bytes: every one ends in exactly one place, whatever the shards and the threads.
#![no_main]

use firstnan_ingest::{Cut, Cutter, Decoded, Input, Text, decode};
use libfuzzer_sys::fuzz_target;

const MOST_LINE_BYTES: usize = 4096;

/// Everything that is decoded of a text, its counts checked.
fn all(data: &[u8], shard_bytes: u64, threads: usize) -> Vec<Decoded> {
    let cut = Cut { source: "fuzz".into(), kind: None, start: 0, first_line: 1, shard_bytes, max_line_bytes: MOST_LINE_BYTES, hash_ahead: false };
    let Ok(text) = Text::open(Input::Bytes(data.to_vec()), 0) else { return Vec::new() };
    let mut cutter = Cutter::new(text, cut);
    let mut found = Vec::new();
    while let Ok(Some(shard)) = cutter.next_shard() {
        let decoded = decode(&shard, threads).expect("columns of a small text");
        assert_eq!(decoded.lines, decoded.records + decoded.quarantined + decoded.blank);
        let rows: usize = decoded.tables.iter().flat_map(|(_, batches)| batches).map(|batch| batch.num_rows()).sum();
        let refused: usize = decoded.quarantine.iter().map(|batch| batch.num_rows()).sum();
        assert_eq!((rows as u64, refused as u64), (decoded.records, decoded.quarantined));
        found.push(decoded);
    }
    found
}

fuzz_target!(|data: &[u8]| {
    let Some((first, text)) = data.split_first() else { return };
    let sums =
        |all: &[Decoded]| all.iter().fold((0, 0, 0), |sum, one| (sum.0 + one.lines, sum.1 + one.records, sum.2 + one.blank));
    let small = all(text, u64::from(*first) * 16 + 1, 2);
    assert_eq!(sums(&small), sums(&all(text, 1 << 24, 1)));
});
