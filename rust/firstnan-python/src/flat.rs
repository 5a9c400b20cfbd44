//! The short way through dicts and records that hold scalars only: no reference is taken, no name is sorted twice, and
//! room for all members is made at once.

use arrayvec::ArrayVec;
use firstnan_core::Profile;
use firstnan_core::canonical::{NUMBER_ROOM, STEP, Slot, write_integer, write_string};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::classes::RecordClass;
use crate::errors::Outcome;
use crate::names::{self, Place, Text};
use crate::native::{self, FLAT_ENTRIES, FlatEntry, Scalar};
use crate::walk::Walk;

/// What is written before each value, in canonical order: `{"a":`, then `,"b":`. Where it stands is known beside this.
pub type Segments = Vec<Segment>;

/// A part of a text, to be written before the value at an index: of the fields of a record, or of a dict as it is.
pub struct Segment {
    index: usize,
    start: usize,
    length: usize,
}

impl Segment {
    /// Appends a segment to a text.
    pub fn append(index: usize, segment: &[u8], text: &mut Vec<u8>) -> Self {
        let start = text.len();
        text.extend_from_slice(segment);
        Self { index, start, length: segment.len() }
    }
}

/// The names of a flat dict that was written, which stand in what was written so far. Dicts of one kind often share their
/// name objects, which then need no second look.
pub struct Names<'py> {
    objects: Vec<Bound<'py, PyAny>>,
    segments: Segments,
}

impl<'py> Walk<'py> {
    /// None where the record is to be written in the other way. Not inlined, so that what it lays on the stack is gone
    /// before the walk goes deeper.
    #[inline(never)]
    pub fn flat_record(&mut self, object: &Bound<'py, PyAny>, record: &RecordClass, depth: usize) -> Option<Outcome<()>> {
        let max_bytes = self.max_bytes;
        let write = |values: &[FlatEntry<'_, 'py>]| {
            let name = |index: usize| record.info.fields[index].name;
            if self.quick_members(&record.segments, Some(&record.segment_text), values, depth).is_some() {
                return Ok(());
            }
            self.careful_members(&record.segments, Some(&record.segment_text), values, depth, name)
        };
        native::flat_attributes(object, &record.names, max_bytes, write)
    }

    /// As [`Self::flat_record`].
    #[inline(never)]
    pub fn flat_dict(&mut self, dict: &Bound<'py, PyDict>, depth: usize) -> Option<Outcome<()>> {
        native::flat(dict, self.max_bytes, |entries| self.flat_members(entries, depth))
    }

    fn flat_members(&mut self, entries: &[FlatEntry<'_, 'py>], depth: usize) -> Option<Outcome<()>> {
        let known = |last: &Names<'py>| {
            last.objects.len() == entries.len() && last.objects.iter().zip(entries).all(|(name, entry)| name.is(entry.name()))
        };
        if let Some(last) = self.last.take_if(|last| known(last)) {
            let name = |index: usize| entries[index].text().unwrap_or_default();
            let mut outcome = Ok(());
            if self.quick_members(&last.segments, None, entries, depth).is_none() {
                outcome = self.careful_members(&last.segments, None, entries, depth, name);
            }
            self.last = Some(last);
            return Some(outcome);
        }
        let mut texts = ArrayVec::<_, FLAT_ENTRIES>::new();
        for entry in entries {
            texts.try_push(Text::Plain(entry.text()?)).ok()?;
        }
        Some(self.flat_members_anew(&texts, entries, depth))
    }

    /// Members whose segments stand in `text`, or else in what was written so far; `name` says one for an error.
    fn careful_members<'a>(
        &mut self,
        segments: &Segments,
        text: Option<&[u8]>,
        entries: &[FlatEntry<'_, 'py>],
        depth: usize,
        name: impl Fn(usize) -> &'a str,
    ) -> Outcome<()> {
        for segment in segments {
            let range = segment.start..segment.start + segment.length;
            self.room(segment.length)?;
            match text {
                Some(text) => self.out.extend_from_slice(&text[range]),
                None => self.out.extend_from_within(range),
            }
            self.scalar(&entries[segment.index].value, depth).map_err(|e| e.below(name(segment.index)))?;
        }
        self.close(entries.len())
    }

    fn flat_members_anew(&mut self, texts: &[Text<'_>], entries: &[FlatEntry<'_, 'py>], depth: usize) -> Outcome<()> {
        let order = names::order(texts, self.profile)?;
        let mut segments = Segments::with_capacity(order.len());
        if self.quick_members_anew(texts, &order, entries, depth, &mut segments).is_none() {
            segments.clear();
            let mut mark = b"{";
            for place in &order {
                let (start, text) = (self.out.len(), &texts[place.index]);
                self.put(mark)?;
                mark = b",";
                names::check_size(text.plain().len(), self.max_bytes)?;
                text.write(self.profile, &mut self.out)?;
                self.put(b":")?;
                segments.push(Segment { index: place.index, start, length: self.out.len() - start });
                self.scalar(&entries[place.index].value, depth).map_err(|e| e.below(text.plain()))?;
            }
            self.close(order.len())?;
        }
        // The top value has no sibling that could share its names.
        if depth > 1 {
            let objects = entries.iter().map(|entry| entry.name().clone()).collect();
            self.last = Some(Names { objects, segments });
        }
        Ok(())
    }

    /// As [`Self::careful_members`] into room that is made once. None, with nothing written, where there is none, or an
    /// escape, an error or a bound to look at.
    #[inline]
    fn quick_members(
        &mut self,
        segments: &Segments,
        text: Option<&[u8]>,
        entries: &[FlatEntry<'_, 'py>],
        depth: usize,
    ) -> Option<()> {
        let names = segments.iter().map(|segment| segment.length).sum();
        let profile = self.profile;
        self.at_once(names, entries, depth, |_, before, slot| {
            let text = text.unwrap_or(before);
            match profile {
                Profile::Evidence => quick_members::<true>(segments, text, entries, slot),
                Profile::Record => quick_members::<false>(segments, text, entries, slot),
            }
        })
    }

    /// As [`Self::quick_members`] for names that are seen first; says where their segments stand.
    #[inline]
    fn quick_members_anew(
        &mut self,
        texts: &[Text<'_>],
        order: &[Place],
        entries: &[FlatEntry<'_, 'py>],
        depth: usize,
        segments: &mut Segments,
    ) -> Option<()> {
        // Of a name: a brace or comma, quotes and a colon.
        let names = texts.iter().map(|text| text.plain().len() + 4).sum();
        let profile = self.profile;
        let one = match profile {
            Profile::Evidence => quick::<true>,
            Profile::Record => quick::<false>,
        };
        self.at_once(names, entries, depth, |begin, _, slot| {
            let mut mark = b'{';
            for place in order {
                let start = slot.position();
                slot.byte(mark)?;
                mark = b',';
                one(&Scalar::Text(texts.get(place.index)?.plain()), slot)?;
                slot.byte(b':')?;
                segments.push(Segment { index: place.index, start: begin + start, length: slot.position() - start });
                one(&entries.get(place.index)?.value, slot)?;
            }
            Some(())
        })
    }

    /// Makes room for members with `names` bytes before their values, and lends it with where it begins and what stands
    /// before it.
    #[inline]
    fn at_once(
        &mut self,
        names: usize,
        entries: &[FlatEntry<'_, 'py>],
        depth: usize,
        write: impl FnOnce(usize, &[u8], &mut Slot<'_>) -> Option<()>,
    ) -> Option<()> {
        let room = names + entries.iter().map(|entry| entry.value.room()).sum::<usize>() + STEP;
        let start = self.out.len();
        if entries.is_empty() || !self.allows(entries.len(), room, depth) {
            return None;
        }
        self.room(room).ok()?;
        self.out.resize(start + room, 0);
        let (before, after) = self.out.split_at_mut(start);
        let mut slot = Slot::new(after);
        let written = write(start, before, &mut slot).and_then(|()| slot.byte(b'}')).map(|()| slot.position());
        self.out.truncate(start + written.unwrap_or(0));
        written?;
        self.took(entries.len());
        Some(())
    }

    fn close(&mut self, members: usize) -> Outcome<()> {
        self.put(if members == 0 { b"{}" } else { b"}" })
    }

    fn scalar(&mut self, value: &Scalar<'_>, depth: usize) -> Outcome<()> {
        self.count(depth)?;
        match *value {
            Scalar::Text(text) => {
                names::check_size(text.len(), self.max_bytes)?;
                write_string(self.profile, text, &mut self.out)?;
            }
            Scalar::Integer(value) => {
                self.room(20)?;
                write_integer(value, &mut self.out);
            }
            Scalar::Float(value) => self.float(value)?,
            Scalar::Literal(literal) => self.put(literal.as_bytes())?,
        }
        names::check_size(self.out.len(), self.max_bytes)
    }
}

/// A scalar, in the evidence profile or else in the record profile.
#[inline]
fn quick<const EVIDENCE: bool>(value: &Scalar<'_>, slot: &mut Slot<'_>) -> Option<()> {
    match *value {
        Scalar::Text(text) => slot.text::<EVIDENCE>(text),
        Scalar::Integer(value) => slot.integer(value),
        Scalar::Float(value) if EVIDENCE => slot.float(value),
        Scalar::Float(_) => None,
        Scalar::Literal(literal) => slot.short(literal.as_bytes()),
    }
}

#[inline]
fn quick_members<const EVIDENCE: bool>(
    segments: &Segments,
    text: &[u8],
    entries: &[FlatEntry<'_, '_>],
    slot: &mut Slot<'_>,
) -> Option<()> {
    for segment in segments {
        slot.part(text, segment.start, segment.length)?;
        quick::<EVIDENCE>(&entries.get(segment.index)?.value, slot)?;
    }
    Some(())
}

impl Scalar<'_> {
    /// The most bytes that it takes where no character needs an escape.
    #[inline]
    fn room(&self) -> usize {
        match self {
            Self::Text(text) => text.len() + 2,
            _ => NUMBER_ROOM,
        }
    }
}
