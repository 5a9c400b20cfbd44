//! The worked examples of docs/canonical.md.

use std::fs;
use std::path::Path;

use firstnan_core::Profile;
use firstnan_core::canonical::canonicalize;

/// What a cell stands for: text in code marks as it is, `U+XXXX` as the character, anything else the kind of an error.
fn cell(cell: &str) -> String {
    let parts = cell.trim().split('`').enumerate();
    parts
        .map(|(index, part)| {
            let code = part.trim().strip_prefix("U+").and_then(|hex| u32::from_str_radix(hex, 16).ok());
            match code.and_then(char::from_u32) {
                Some(character) if index % 2 == 0 => character.to_string(),
                _ => part.to_owned(),
            }
        })
        .collect()
}

#[test]
fn worked_examples() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/canonical.md");
    let document = fs::read_to_string(file).unwrap();
    let section = document.split("\n## ").find(|section| section.starts_with("Worked examples\n")).unwrap();
    let rows: Vec<Vec<String>> = section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split(" | ").map(cell).collect())
        .collect();
    assert!(rows.len() > 10, "{rows:?}");
    for row in rows {
        let [text, record, evidence] = row.as_slice() else { panic!("{row:?}") };
        for (profile, expected) in [(Profile::Record, record), (Profile::Evidence, evidence)] {
            let answer = match canonicalize(text.as_bytes(), profile) {
                Ok(bytes) => String::from_utf8(bytes).unwrap(),
                Err(error) => error.kind().name().to_owned(),
            };
            assert_eq!(&answer, expected, "{text} in the {profile:?} profile");
        }
    }
}
