//! The short way through dicts and records that hold scalars only: no reference is taken, no name is sorted twice.

use std::ops::Range;

use arrayvec::ArrayVec;
use firstnan_core::Located;
use firstnan_core::canonical::{write_integer, write_string};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::classes::RecordClass;
use crate::errors::Outcome;
use crate::names::{self, Place, Text};
use crate::native::{self, FLAT_ENTRIES, FlatEntry, Scalar};
use crate::walk::Walk;

/// The names of a flat dict that was written: the objects, their order, and where in the output each stands with what
/// is around it. Dicts of one kind often share their name objects, which then need no second look.
pub struct Names<'py> {
    objects: Vec<Bound<'py, PyAny>>,
    order: Vec<Place>,
    written: Vec<Range<usize>>,
}

impl<'py> Walk<'py> {
    /// None where the record is to be written in the other way. Not inlined, so that what it lays on the stack is gone
    /// before the walk goes deeper.
    #[inline(never)]
    pub fn flat_record(&mut self, object: &Bound<'py, PyAny>, record: &RecordClass, depth: usize) -> Option<Outcome<()>> {
        let max_bytes = self.max_bytes;
        let write = |values: &[FlatEntry<'_, 'py>]| {
            for (index, prefix) in &record.sorted {
                self.put(prefix)?;
                self.scalar(&values[*index].value, depth).map_err(|e| e.at(record.info.fields[*index].name))?;
            }
            self.put(b"}")
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
            let outcome = self.flat_members_again(&last, entries, depth);
            self.last = Some(last);
            return Some(outcome);
        }
        let mut texts = ArrayVec::<_, FLAT_ENTRIES>::new();
        for entry in entries {
            texts.try_push(Text::Plain(entry.text()?)).ok()?;
        }
        Some(self.flat_members_anew(&texts, entries, depth))
    }

    fn flat_members_again(&mut self, last: &Names<'py>, entries: &[FlatEntry<'_, 'py>], depth: usize) -> Outcome<()> {
        for (place, written) in last.order.iter().zip(&last.written) {
            self.room(written.len())?;
            self.out.extend_from_within(written.clone());
            let entry = &entries[place.index];
            self.scalar(&entry.value, depth).map_err(|e| e.below(entry.text().unwrap_or_default()))?;
        }
        self.close(last.order.len())
    }

    fn flat_members_anew(&mut self, texts: &[Text<'_>], entries: &[FlatEntry<'_, 'py>], depth: usize) -> Outcome<()> {
        // The top value has no sibling that could share its names.
        let remember = depth > 1;
        let order = names::order(texts, self.profile)?;
        let mut written = Vec::with_capacity(if remember { order.len() } else { 0 });
        let mut mark = b"{";
        for place in &order {
            let (start, text) = (self.out.len(), &texts[place.index]);
            self.put(mark)?;
            mark = b",";
            names::check_size(text.plain().len(), self.max_bytes)?;
            text.write(self.profile, &mut self.out)?;
            self.put(b":")?;
            if remember {
                written.push(start..self.out.len());
            }
            self.scalar(&entries[place.index].value, depth).map_err(|e| e.below(text.plain()))?;
        }
        self.close(order.len())?;
        if remember {
            let objects = entries.iter().map(|entry| entry.name().clone()).collect();
            self.last = Some(Names { objects, order, written });
        }
        Ok(())
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
