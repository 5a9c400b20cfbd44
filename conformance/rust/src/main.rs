//! Runs every vector through the crates jsonschema and cel and canonical.rs; one JSON line a vector (see ../run.py).
//!
//! Usage: firstnan-conformance BUNDLE VECTORS...

mod canonical;

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fs::{read, read_dir, read_to_string};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use canonical::{MAX_BYTES, Profile, Value, canonicalize, content_id, sha256};
use jsonschema::{Draft, Registry, Validator};
use serde_json::{Value as Json, json};

type Outcome<T> = Result<T, Box<dyn Error>>;
const FOLDERS: [&str; 6] = ["canonical", "kinds", "lifecycle", "records", "triage", "wire"];

/// Where a rule or an integer lies; `member` is a pointer within it, empty for a rule.
struct Place {
    path: String,
    when: Option<(String, String)>,
    member: String,
}

struct Kind {
    validator: Validator,
    profile: Profile,
    rules: Vec<(Place, cel::Program)>,
    integers: Vec<Place>,
}

impl Place {
    fn new(place: &Json) -> Self {
        let text = |name: &str| place[name].as_str().unwrap_or_default().to_owned();
        let when = place["when"].as_str().and_then(|when| when.split_once('='));
        Self { path: text("path"), when: when.map(|(tag, value)| (tag.into(), value.into())), member: text("member") }
    }

    /// The objects that a rule or an integer of the bundle is about.
    fn objects<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut found = values_at(value, &self.path);
        if let Some((tag, wanted)) = &self.when {
            found.retain(|object| member(object, tag).and_then(text).is_some_and(|value| value == *wanted));
        }
        found
    }
}

fn member<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let Value::Object(members) = object else { return None };
    members.iter().find(|(each, _)| each.iter().copied().eq(name.chars().map(u32::from))).map(|(_, value)| value)
}

fn text(value: &Value) -> Option<String> {
    let Value::Text(text) = value else { return None };
    text.iter().map(|code| char::from_u32(*code)).collect()
}

/// What stands at a path such as /stages/*, null left out.
fn values_at<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut found = vec![value];
    for name in path.split('/').skip(1) {
        found = found
            .into_iter()
            .flat_map(|each| match each {
                Value::Array(items) if name == "*" => items.iter().collect::<Vec<_>>(),
                object => member(object, name).into_iter().collect(),
            })
            .collect();
    }
    found.retain(|each| **each != Value::Null);
    found
}

/// A value as cel wants it, an integer as i64 where it fits; None where a name or a text has a lone surrogate.
fn plain(value: &Value) -> Option<cel::Value> {
    Some(match value {
        Value::Null => cel::Value::Null,
        Value::Bool(value) => cel::Value::Bool(*value),
        Value::Integer(digits) => digits.parse().map(cel::Value::Int).or_else(|_| digits.parse().map(cel::Value::Float)).ok()?,
        Value::Float(value) => cel::Value::Float(*value),
        Value::Text(_) => text(value)?.into(),
        Value::Array(items) => items.iter().map(plain).collect::<Option<Vec<_>>>()?.into(),
        Value::Object(members) => {
            let named = |(name, member): &(canonical::Text, Value)| Some((text(&Value::Text(name.clone()))?, plain(member)?));
            members.iter().map(named).collect::<Option<HashMap<_, _>>>()?.into()
        }
    })
}

impl Kind {
    fn rules_hold(&self, value: &Value) -> bool {
        self.rules.iter().all(|(place, program)| {
            place.objects(value).into_iter().all(|object| {
                let mut context = cel::Context::default();
                plain(object).is_some_and(|this| {
                    context.add_variable_from_value("self", this);
                    program.execute(&context) == Ok(cel::Value::Bool(true))
                })
            })
        })
    }

    /// JSON Schema takes 5.0 for an integer; the contract does not.
    fn integers_are_integers(&self, value: &Value) -> bool {
        self.integers.iter().all(|place| {
            let found = place.objects(value).into_iter().flat_map(|object| values_at(object, &place.member));
            found.into_iter().all(|each| matches!(each, Value::Integer(_)))
        })
    }
}

fn load(path: &str, out: &mut impl Write) -> Outcome<BTreeMap<String, Kind>> {
    let bundle: Json = serde_json::from_slice(&read(path)?)?;
    let schemas = bundle["$defs"].as_object().ok_or("no $defs")?;
    let mut registry = Registry::new();
    for schema in schemas.values() {
        registry = registry.add(schema["$id"].as_str().ok_or("no $id")?, Draft::Draft202012.create_resource(schema.clone()))?;
    }
    let registry = registry.prepare()?;
    let compile = |schema: &Json| jsonschema::options().with_draft(Draft::Draft202012).with_registry(&registry).build(schema);
    let meta = compile(&schemas["meta"])?;
    let mut kinds = BTreeMap::new();
    for (name, kind) in bundle["x-firstnan-kinds"].as_object().ok_or("no kinds")? {
        let places = |member: &str| kind[member].as_array().cloned().unwrap_or_default();
        let mut rules = Vec::new();
        for rule in places("rules") {
            rules.push((Place::new(&rule), cel::Program::compile(rule["rule"].as_str().ok_or("no rule")?)?));
        }
        let validator = compile(&json!({"$ref": kind["schema"]}))?;
        let profile = if kind["profile"] == "record" { Profile::Record } else { Profile::Evidence };
        let integers = places("integers").iter().map(Place::new).collect();
        kinds.insert(name.clone(), Kind { validator, profile, rules, integers });
        let shape = meta.is_valid(&schemas[name]);
        writeln!(out, "{}", json!({"vector": format!("schema/{name}"), "shape": shape}))?;
    }
    Ok(kinds)
}

fn identity(name: &str, kind: &Kind, value: &Value, bytes: &[u8]) -> Option<String> {
    match (kind.profile, name, value) {
        (Profile::Record, ..) => Some(sha256(bytes)),
        (_, "training-incident-contract", _) => Some(content_id(name, bytes)),
        (_, "training-run-evidence", Value::Object(members)) => {
            let mut members = members.clone();
            members.retain(|(name, _)| !name.iter().copied().eq("evidence_content_id".chars().map(u32::from)));
            let bytes = canonical::write(&Value::Object(members), Profile::Evidence, MAX_BYTES).ok()?;
            Some(content_id("training-incident-evidence", &bytes))
        }
        _ => None,
    }
}

fn record(kinds: &BTreeMap<String, Kind>, vector: &str, name: &str, text: &[u8], on_wire: bool) -> Json {
    let kind = &kinds[name];
    let shape = serde_json::from_slice(text).ok().map(|parsed: Json| kind.validator.is_valid(&parsed));
    let exact = canonical::read(text, Profile::Evidence).ok();
    let rule = exact.as_ref().filter(|_| shape == Some(true)).map(|value| kind.rules_hold(value));
    let bytes = canonicalize(text, kind.profile, MAX_BYTES).ok();
    let valid = exact.as_ref().zip(bytes.as_ref()).filter(|(value, bytes)| {
        rule == Some(true) && kind.integers_are_integers(value) && plain(value).is_some() && (!on_wire || bytes.as_slice() == text)
    });
    json!({
        "vector": vector, "shape": shape, "rule": rule, "valid": valid.is_some(), "bytes": bytes.as_deref().map(sha256),
        "identity": valid.and_then(|(value, bytes)| identity(name, kind, value, bytes)),
    })
}

fn canonical_answer(vector: &str, profile: Profile, text: &[u8], max_bytes: usize) -> Json {
    let bytes = canonicalize(text, profile, max_bytes).ok();
    let named = bytes.as_deref().filter(|bytes| profile == Profile::Evidence && bytes.starts_with(b"{"));
    let identity = named.map(|bytes| content_id("vector", bytes));
    json!({"vector": vector, "bytes": bytes.as_deref().map(sha256), "identity": identity})
}

fn from_hex(text: &str) -> Outcome<Vec<u8>> {
    (0..text.len()).step_by(2).map(|at| Ok(u8::from_str_radix(&text[at..at + 2], 16)?)).collect()
}

/// The answers to one line; an object inside a vector is taken as its text.
fn answers(kinds: &BTreeMap<String, Kind>, folder: &str, stem: &str, index: usize, line: &str) -> Outcome<Vec<Json>> {
    let vector: Json = serde_json::from_str(line)?;
    let case = vector["case"].as_str().map_or_else(|| format!("{stem}-{index}"), str::to_owned);
    let id = format!("{folder}/{case}");
    let text = |name: &str| vector[name].as_str().unwrap_or_default();
    let part = |part: &str, kind: &str, text: &str| record(kinds, &format!("{id}/{part}"), kind, text.as_bytes(), false);
    Ok(match (folder, stem) {
        ("kinds" | "records", kind) => vec![record(kinds, &id, kind, text("text").as_bytes(), false)],
        ("wire", kind) => vec![record(kinds, &id, kind, &from_hex(text("hex"))?, true)],
        (_, "float64-text") => {
            let value = Value::Float(f64::from_bits(u64::from_str_radix(text("bits"), 16)?));
            vec![json!({"vector": id, "bytes": sha256(&canonical::write(&value, Profile::Evidence, MAX_BYTES)?)})]
        }
        ("canonical", profile) => {
            let profile = if profile == "record-profile" { Profile::Record } else { Profile::Evidence };
            let max_bytes = vector["max_bytes"].as_u64().map_or(Ok(MAX_BYTES), usize::try_from)?;
            vec![canonical_answer(&id, profile, text("text").as_bytes(), max_bytes)]
        }
        ("triage", _) => {
            let mut out = vec![
                part("contract", "training-incident-contract", text("contract")),
                part("evidence", "training-run-evidence", text("evidence")),
            ];
            out.extend(vector.get("report").map(|report| part("report", "incident-report", &report.to_string())));
            out
        }
        (_, "inventory-consensus") => {
            let mut out = vec![part("identity", "run-identity", &vector["identity"].to_string())];
            for (index, inventory) in vector["inventories"].as_array().ok_or("no inventories")?.iter().enumerate() {
                out.push(part(&format!("inventories/{index}"), "rank-inventory", &inventory.to_string()));
            }
            out
        }
        _ => vec![],
    })
}

fn files(folder: &Path) -> Outcome<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(vec![]);
    }
    let mut files = read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Outcome<Vec<_>>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    Ok(files)
}

fn main() -> Outcome<ExitCode> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, bundle, roots @ ..] = arguments.as_slice() else {
        eprintln!("usage: firstnan-conformance BUNDLE VECTORS...");
        return Ok(ExitCode::from(2));
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    let kinds = load(bundle, &mut out)?;
    for root in roots {
        for folder in FOLDERS {
            for path in files(&Path::new(root).join(folder))? {
                let stem = path.file_stem().and_then(|stem| stem.to_str()).ok_or("a file without a name")?;
                for (index, line) in read_to_string(&path)?.lines().enumerate() {
                    for answer in answers(&kinds, folder, stem, index, line)? {
                        writeln!(out, "{answer}")?;
                    }
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
