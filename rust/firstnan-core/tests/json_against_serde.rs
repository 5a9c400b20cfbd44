//! Mutated texts: the reader accepts what `serde_json` accepts, with the same values.

use firstnan_core::Error;
use firstnan_core::canonical::canonicalize;
use firstnan_core::json::{Reader, Token};
use firstnan_core::{ErrorKind, Profile};
use serde_json::{Map, Value};

const SEEDS: [&str; 8] = [
    r#"{"a":1,"b":[true,false,null],"c":{"d":"e"},"":-0.5e-7}"#,
    "[0,-0,10,-12,1.5,1e5,1E+05,2.5e-3,123456789012345678901234567890]",
    r#"["\"\\\/\b\f\n\r\t","\u0041\u00e9\uD83D\uDE00","é😀\u007f","plain and longer than a word"]"#,
    r#" { "x" : [ ] , "y" : { } , "z" : [ [ [ ] ] ] } "#,
    r#"{"stage":"input","stage_order":0,"checked_elements":1024,"maximum_absolute_finite":3.5}"#,
    "[\t1,\r\n2 ,3\n]",
    r#"{"k":"v","k":"w","\u006b":[1]}"#,
    r#""\ud83d\ude00\ud83dx""#,
];

const BYTES: &[u8] = b"\"\\/{}[]:,0123456789+-.eEtfnulrsabd \t\n\r\x00\x1f\x7f\x80\xc3\xa9\xed\xa0\xf0\xff";

/// Xorshift, so that the cases are the same on each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

fn mutate(text: &str, random: &mut Random) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len().max(1)).min(bytes.len());
        let byte = BYTES[random.below(BYTES.len())];
        let end = (at + 1 + random.below(8)).min(bytes.len());
        match random.below(5) {
            0 => bytes.insert(at, byte),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.truncate(at),
            3 => {
                let copy = bytes[at..end].to_vec();
                let place = random.below(bytes.len() + 1);
                bytes.splice(place..place, copy);
            }
            _ if at < bytes.len() => bytes[at] = byte,
            _ => {}
        }
    }
    bytes
}

fn read(reader: &mut Reader<'_>) -> Result<Value, Error> {
    Ok(match reader.peek()? {
        Token::Null => {
            reader.null()?;
            Value::Null
        }
        Token::True | Token::False => Value::Bool(reader.boolean()?),
        Token::String => Value::String(reader.string()?.into_owned()),
        Token::Number => Value::Number(serde_json::from_str(reader.number()?.text).unwrap()),
        Token::Array => {
            reader.begin_array()?;
            let (mut items, mut first) = (Vec::new(), true);
            while reader.next_element(&mut first)? {
                items.push(read(reader)?);
            }
            Value::Array(items)
        }
        Token::Object => {
            reader.begin_object()?;
            let (mut members, mut first) = (Map::new(), true);
            while let Some(name) = reader.next_name(&mut first)? {
                members.insert(name.into_owned(), read(reader)?);
            }
            Value::Object(members)
        }
    })
}

fn ours(data: &[u8]) -> Result<Value, Error> {
    let mut reader = Reader::new(data)?;
    let value = read(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// The value with every number as its binary64 where it is a float, since canonical text is spelled anew.
fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.to_string().contains(['.', 'e', 'E']) => Value::from(number.as_f64().unwrap().to_bits()),
        Value::Number(number) if number.to_string() == "-0" => Value::from(0),
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), normal(value))).collect(),
        other => other.clone(),
    }
}

#[test]
fn accepts_the_same_texts_with_the_same_values() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..40_000 {
        let data = mutate(SEEDS[round % SEEDS.len()], &mut random);
        let shown = String::from_utf8_lossy(&data);
        let theirs = serde_json::from_slice::<Value>(&data).ok();
        assert_eq!(ours(&data).ok(), theirs, "{shown}");
        *if theirs.is_some() { &mut accepted } else { &mut refused } += 1;
        let skipped = Reader::new(&data).and_then(|mut reader| reader.skip_value().and_then(|()| reader.end()));
        match (theirs, canonicalize(&data, Profile::Evidence)) {
            (Some(value), Ok(bytes)) => {
                assert!(skipped.is_ok(), "{shown}");
                let again: Value = serde_json::from_slice(&bytes).unwrap();
                assert_eq!(normal(&again), normal(&value), "{shown}");
                assert_eq!(canonicalize(&bytes, Profile::Evidence).unwrap(), bytes, "{shown}");
            }
            (Some(_), Err(error)) => {
                assert!(matches!(error.kind(), ErrorKind::DuplicateName | ErrorKind::NonFinite), "{shown}: {error}");
                assert!(skipped.is_ok(), "{shown}");
            }
            (None, Ok(bytes)) => {
                // Only the evidence profile has a form for a lone surrogate.
                assert!(skipped.is_ok() && String::from_utf8(bytes).unwrap().contains("\\ud"), "{shown}");
            }
            (None, Err(_)) => {}
        }
    }
    assert!(accepted > 2_000 && refused > 2_000, "{accepted} accepted, {refused} refused: the mutations say little");
}
