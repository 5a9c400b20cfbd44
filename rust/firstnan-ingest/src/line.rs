//! One line: blank, a record (bare or in an envelope), or refused with the reason.

use std::ops::Range;

use firstnan_core::json::{Reader, Token};
use firstnan_core::{AnyRecord, Envelope, Error, ErrorKind, KINDS, Layer, Record, Result, is_plain_word, kind_index};

use crate::names::{Named, may_be_guessed, named};

/// What a line holds.
#[expect(clippy::large_enum_variant, reason = "one at a time, and nearly always the largest")]
pub(crate) enum Line<'a> {
    /// Nothing but white space.
    Blank,
    /// A record of a kind (an index of `KINDS`).
    Record { kind: usize, envelope: Option<Envelope<'a>>, record: AnyRecord<'a> },
    /// Nothing that can be kept as a record.
    Refused { kind: Option<usize>, error: Error },
}

/// A line taken for what the one before it was.
pub(crate) struct Usual<'a> {
    /// An index of `KINDS`.
    pub kind: usize,
    pub envelope: Option<Envelope<'a>>,
    /// The record, not yet decoded: only where it decodes is the line what it was taken for.
    pub record: &'a [u8],
}

/// Decodes lines one after the other; the last kind is the first guess for the next line, which changes no result.
pub(crate) struct Lines {
    given: Option<usize>,
    guess: Option<usize>,
    enveloped: bool,
}

impl Lines {
    pub fn new(given: Option<usize>) -> Self {
        Self { given, guess: given, enveloped: false }
    }

    /// What a line holds, without its end, that was not what [`Self::usual`] took it for; `refused` says, where the whole line
    /// was taken for a record, of which kind, and why it is none.
    pub fn decode<'a>(&mut self, text: &'a [u8], refused: Option<(usize, Error)>) -> Line<'a> {
        if text.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
            return Line::Blank;
        }
        let named = match (named(text), self.given) {
            (Ok(Named::Enveloped), _) => Named::Enveloped,
            (_, Some(kind)) => Named::Bare(kind),
            (Ok(named), None) => named,
            (Err(error), None) => return Line::Refused { kind: None, error },
        };
        let kind = match named {
            Named::Bare(kind) => kind,
            Named::Enveloped => return self.enveloped_slowly(text),
        };
        let decoded = match refused {
            Some((of, error)) if of == kind => Err(error),
            _ => AnyRecord::decode(kind, text),
        };
        match decoded {
            Ok(record) => {
                self.enveloped = false;
                self.guess = self.given.or(Some(kind)).filter(|kind| self.given.is_some() || may_be_guessed(*kind));
                Line::Record { kind, envelope: None, record }
            }
            Err(error) => Line::Refused { kind: Some(kind), error },
        }
    }

    /// The line, if it is like the one before.
    pub fn usual<'a>(&self, text: &'a [u8]) -> Option<Usual<'a>> {
        if self.enveloped { self.enveloped(text) } else { Some(Usual { kind: self.guess?, envelope: None, record: text }) }
    }

    /// The usual spelling: the envelope, then the record, and nothing refused in the first; else None.
    fn enveloped<'a>(&self, text: &'a [u8]) -> Option<Usual<'a>> {
        let mut reader = Reader::new(text).ok()?;
        reader.begin_object().ok()?;
        let mut first = true;
        if reader.next_name(&mut first).ok()??.as_ref() != "envelope" {
            return None;
        }
        let envelope = Envelope::read(&mut reader).ok()?;
        envelope.check_rules().ok()?;
        if reader.has_wire_fault() || reader.next_name(&mut first).ok()??.as_ref() != "record" {
            return None;
        }
        let kind = self.kind_of(&envelope).ok()?;
        reader.peek().ok()?;
        // The white space of JSON, which has no form feed as that of ASCII has.
        let end = text.iter().rposition(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))?;
        // Where this decodes to its end, what is cut off was the one brace that closes the line.
        let record = text.get(reader.offset()..=end)?.strip_suffix(b"}")?;
        Some(Usual { kind, envelope: Some(envelope), record })
    }

    fn enveloped_slowly<'a>(&mut self, text: &'a [u8]) -> Line<'a> {
        match self.enveloped_or_error(text) {
            Ok((kind, envelope, record)) => {
                self.enveloped = true;
                Line::Record { kind, envelope: Some(envelope), record }
            }
            Err((kind, error)) => Line::Refused { kind, error },
        }
    }

    /// As `Record::decode`, the lowest layer that refuses is the one that is told: shape, then rule, then wire.
    fn enveloped_or_error<'a>(
        &self,
        text: &'a [u8],
    ) -> std::result::Result<(usize, Envelope<'a>, AnyRecord<'a>), (Option<usize>, Error)> {
        let members = Members::read(text).map_err(|error| (None, error))?;
        let envelope = members.envelope.clone().ok_or_else(|| (None, Error::new(ErrorKind::Required).at("envelope")))?;
        let record = members.record.clone().ok_or_else(|| (None, Error::new(ErrorKind::Required).at("record")))?;
        let place = |error: Error, name: &str, range: &Range<usize>| {
            let offset = error.byte_offset().map(|offset| offset + range.start);
            let error = error.at(name);
            if let Some(offset) = offset { error.offset(offset) } else { error }
        };
        let decoded = Envelope::decode(&text[envelope.clone()]).map_err(|error| place(error, "envelope", &envelope));
        let envelope = match decoded {
            Ok(envelope) => envelope,
            Err(error) if error.layer() == Layer::Shape => return Err((None, error)),
            Err(error) => {
                // The record may be refused by a lower layer, if the kind can be known at all.
                let kind = Envelope::read(&mut Reader::new(&text[envelope.clone()]).map_err(|error| (None, error))?)
                    .ok()
                    .and_then(|envelope| self.kind_of(&envelope).ok());
                let other = kind.and_then(|kind| AnyRecord::decode(kind, &text[record.clone()]).err());
                let lower = other.filter(|other| layer_order(other) < layer_order(&error));
                return Err((kind, lower.map_or(error, |other| place(other, "record", &record))));
            }
        };
        let kind = self.kind_of(&envelope).map_err(|error| (None, error))?;
        let decoded = AnyRecord::decode(kind, &text[record.clone()]).map_err(|error| place(error, "record", &record));
        match (decoded, members.fault) {
            (Ok(decoded), None) => Ok((kind, envelope, decoded)),
            (Ok(_), Some(fault)) => Err((Some(kind), fault)),
            (Err(error), _) => Err((Some(kind), error)),
        }
    }

    fn kind_of(&self, envelope: &Envelope<'_>) -> Result<usize> {
        let error = |bound: &str| Error::new(ErrorKind::RecordKind).bound(bound).at("kind").at("envelope");
        let kind = kind_index(&envelope.kind).ok_or_else(|| error(&KINDS.join(", ")))?;
        match self.given {
            Some(given) if given != kind => Err(error(KINDS[given])),
            _ => Ok(kind),
        }
    }
}

fn layer_order(error: &Error) -> u8 {
    match error.layer() {
        Layer::Shape => 0,
        Layer::Rule => 1,
        Layer::Wire => 2,
    }
}

/// Where the two members of an enveloped line are.
#[derive(Default)]
struct Members {
    envelope: Option<Range<usize>>,
    record: Option<Range<usize>>,
    /// A name twice.
    fault: Option<Error>,
}

impl Members {
    fn read(text: &[u8]) -> Result<Self> {
        let mut members = Self::default();
        let mut unknown = None;
        let mut reader = Reader::new(text)?;
        reader.begin_object()?;
        let mut first = true;
        while let Some(name) = reader.next_name_wtf8(&mut first)? {
            let offset = reader.offset();
            // A number has to have no white space before it for the range to begin with the value.
            reader.peek().map(|_: Token| ())?;
            let start = reader.offset();
            reader.skip_value()?;
            let range = start..reader.offset();
            let (slot, name) = match name.as_ref() {
                b"envelope" => (&mut members.envelope, "envelope"),
                b"record" => (&mut members.record, "record"),
                other => {
                    let error = Error::new(ErrorKind::UnknownName).offset(offset);
                    let plain = std::str::from_utf8(other).ok().filter(|name| is_plain_word(name));
                    unknown.get_or_insert(if let Some(name) = plain { error.at(name) } else { error });
                    continue;
                }
            };
            if slot.replace(range).is_some() {
                members.fault.get_or_insert_with(|| Error::new(ErrorKind::DuplicateName).offset(offset).at(name));
            }
        }
        reader.end()?;
        unknown.map_or(Ok(members), Err)
    }
}
