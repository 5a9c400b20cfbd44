//! Decoding 64 KiB allocates at most 1 MiB, whatever the 64 KiB hold. One test, since the counter is of the process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use firstnan_core::{AnyRecord, KINDS, Profile, canonical, kind_index};
use serde_json::Value;

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed to the system's allocator as it came; the counters touch no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(LIVE.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of GlobalAlloc.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const INPUT: usize = 64 * 1024;
const BOUND: usize = 1024 * 1024;

fn peak(work: impl FnOnce()) -> usize {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    work();
    PEAK.load(Relaxed) - before
}

/// As many repetitions as fit between a head and a tail.
fn filled(head: &str, item: &str, tail: &str) -> String {
    let count = (INPUT - head.len() - tail.len()) / (item.len() + 1);
    format!("{head}{}{tail}", vec![item; count].join(","))
}

fn run_record(events: &str, lines: &str) -> (String, String) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/v1/run-record.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let mut record = schema["examples"][1].clone();
    record["events"] = "EVENTS".into();
    record["malformed_stdout"] = "LINES".into();
    record["config"]["steps"] = 100_000.into();
    let text = record.to_string().replace("\"LINES\"", &format!("[{lines}]"));
    let (head, tail) = text.split_once("\"EVENTS\"").unwrap();
    (format!("{head}[{events}"), format!("]{tail}"))
}

#[test]
fn decoding_64_kib_allocates_at_most_1_mib() {
    let (head, tail) = run_record("", "");
    let event = r#"{"event":"stall_injected","step":1,"monotonic_s":1}"#;
    let many_events = filled(&head, event, &tail);
    assert!(AnyRecord::decode(kind_index("run-record").unwrap(), many_events.as_bytes()).is_ok());
    let long_text = format!(r#"{{"event":"failed","monotonic_s":1,"kind":"K","message":"{}"}}"#, r"\u0041".repeat(10_000));
    let inputs = [
        many_events,
        long_text,
        filled("[", "0", "]"),
        filled("[", "[]", "]"),
        filled("{", r#""\u0061":0"#, "}"),
        filled(r#"{"stages":["#, "{}", "]}"),
        format!(r#"{{"step":{}}}"#, "9".repeat(INPUT - 16)),
        "[".repeat(INPUT),
    ];
    for input in &inputs {
        for (index, kind) in KINDS.iter().enumerate() {
            let used = peak(|| drop(AnyRecord::decode(index, input.as_bytes())));
            assert!(used <= BOUND, "{kind}: {used} bytes for {}...", &input[..40]);
        }
        for profile in [Profile::Record, Profile::Evidence] {
            let used = peak(|| drop(canonical::canonicalize(input.as_bytes(), profile)));
            assert!(used <= 2 * BOUND, "canonicalize: {used} bytes for {}...", &input[..40]);
        }
    }
}
