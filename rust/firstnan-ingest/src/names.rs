//! The kind of a bare record, told by its closed set of names.

use std::sync::LazyLock;

use firstnan_core::json::{Reader, Token};
use firstnan_core::{Error, ErrorKind, FieldType, KIND_TYPES, Result};

/// What the names of a line say it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// `{"envelope": …, "record": …}`, or nearest to it.
    Enveloped,
    /// A record: an index of `firstnan_core::KINDS`.
    Bare(usize),
}

/// The names of a kind, or of one record of a union.
struct Candidate {
    named: Named,
    names: Vec<&'static str>,
}

static CANDIDATES: LazyLock<Vec<Candidate>> = LazyLock::new(|| {
    let mut all = vec![Candidate { named: Named::Enveloped, names: vec!["envelope", "record"] }];
    for (kind, of) in KIND_TYPES.iter().enumerate() {
        let infos = match of {
            FieldType::Record(info) => std::slice::from_ref(info),
            FieldType::Union(infos) => infos,
            _ => &[],
        };
        for info in infos {
            let names = info.fields.iter().map(|field| field.name).collect();
            all.push(Candidate { named: Named::Bare(kind), names });
        }
    }
    all
});

/// The first kind that has the names of this one: what a bare record with these names is taken for.
static FIRST: LazyLock<Vec<usize>> = LazyLock::new(|| {
    let same = |a: &Candidate, b: &Candidate| a.names.len() == b.names.len() && a.names.iter().all(|name| b.names.contains(name));
    let first = |kind: usize| {
        let of_kind = CANDIDATES.iter().filter(|candidate| candidate.named == Named::Bare(kind));
        let firsts = of_kind.filter_map(|one| CANDIDATES.iter().find(|other| same(one, other)));
        firsts.filter_map(|other| if let Named::Bare(kind) = other.named { Some(kind) } else { None }).min().unwrap_or(kind)
    };
    (0..KIND_TYPES.len()).map(first).collect()
});

/// May a bare record be tried as this kind before its names are looked at? Not where an earlier kind has the same names.
pub(crate) fn may_be_guessed(kind: usize) -> bool {
    FIRST[kind] == kind
}

/// The kind that has exactly these names, else that with the most names in common, of several that with the fewest
/// others, of several the first in the order of `KINDS`.
pub(crate) fn nearest(names: &[&str]) -> Option<Named> {
    let mut best = None;
    for candidate in CANDIDATES.iter() {
        let common = candidate.names.iter().filter(|name| names.contains(name)).count();
        let others = candidate.names.len() + names.len() - 2 * common;
        if others == 0 {
            return Some(candidate.named);
        }
        if common > 0 && best.is_none_or(|(_, most, fewest)| common > most || (common == most && others < fewest)) {
            best = Some((candidate.named, common, others));
        }
    }
    best.map(|(named, _, _)| named)
}

/// What a line is, judged by the names of its top value.
///
/// # Errors
///
/// The line is not JSON, not an object, or has no name that any kind knows.
pub(crate) fn named(text: &[u8]) -> Result<Named> {
    let mut reader = Reader::new(text)?;
    if reader.peek()? != Token::Object {
        let offset = reader.offset();
        reader.skip_value()?;
        reader.end()?;
        return Err(Error::new(ErrorKind::Type).bound("object").offset(offset));
    }
    reader.begin_object()?;
    let mut first = true;
    let mut names: Vec<String> = Vec::new();
    while let Some(name) = reader.next_name_wtf8(&mut first)? {
        // A lone surrogate is in no name of the contract; what stands for it is in none either.
        let name = String::from_utf8_lossy(&name);
        if !names.iter().any(|known| *known == name) {
            names.push(name.into_owned());
        }
        reader.skip_value()?;
    }
    reader.end()?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    nearest(&names).ok_or_else(|| Error::new(ErrorKind::RecordKind).detail("no kind has a name in common with it"))
}
