//! Round trip of every valid vector through the structs; one JSON line a vector (see `round_trip.py`).
//! Usage: `round_trip VECTORS`

use std::{env, error::Error, fs};

use canonical::{MAX_BYTES, Profile, canonicalize, sha256};
use firstnan_types::Record;
use serde_json::{Value, json};

#[allow(dead_code)]
#[path = "../rust/src/canonical.rs"]
mod canonical;

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args().nth(1).ok_or("usage: round_trip VECTORS")?;
    for line in fs::read_to_string(path)?.lines() {
        let each: Value = serde_json::from_str(line)?;
        let member = |name: &str| each[name].as_str().ok_or("not a vector");
        let record =
            Record::from_json(member("kind")?, member("text")?).map_err(|error| format!("{}: {error}", each["vector"]))?;
        let profile = if member("profile")? == "record" { Profile::Record } else { Profile::Evidence };
        let bytes = canonicalize(serde_json::to_string(&record)?.as_bytes(), profile, MAX_BYTES)?;
        println!("{}", json!({"vector": each["vector"], "bytes": sha256(&bytes)}));
    }
    Ok(())
}
