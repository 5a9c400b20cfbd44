//! Canonical bytes of Python objects, in both profiles (docs/canonical.md).

use std::cell::Cell;

use firstnan_core::canonical::{write_digits, write_float, write_integer};
use firstnan_core::limits::{MAX_EVIDENCE_DEPTH, MAX_RECORD_DEPTH, MAX_RECORD_ITEMS};
use firstnan_core::{Error, ErrorKind, Located, Profile};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::classes::{Classes, RecordClass, enum_value};
use crate::decimal;
use crate::errors::{Failure, Outcome, missing, not_a_protocol};
use crate::flat::Names;
use crate::names::{self, Text};
use crate::native::{self, Entry};

thread_local! {
    /// The room of an earlier call, so that the next needs none of its own.
    static ROOM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}
/// More room than this is given back.
const ROOM_KEPT: usize = 65_536;

/// Lends the canonical bytes of a value; `max_bytes` bounds them in the record profile.
pub fn with_canonical_bytes<R>(
    value: &Bound<'_, PyAny>,
    profile: Profile,
    max_bytes: usize,
    lend: impl FnOnce(&[u8]) -> R,
) -> Outcome<R> {
    let bytes = canonical_bytes(value, profile, max_bytes)?;
    let result = lend(&bytes);
    if bytes.capacity() <= ROOM_KEPT {
        ROOM.set(bytes);
    }
    Ok(result)
}

fn canonical_bytes(value: &Bound<'_, PyAny>, profile: Profile, max_bytes: usize) -> Outcome<Vec<u8>> {
    let (max_bytes, max_depth, max_items) = match profile {
        Profile::Record => (max_bytes, MAX_RECORD_DEPTH, MAX_RECORD_ITEMS),
        Profile::Evidence => (usize::MAX, MAX_EVIDENCE_DEPTH, usize::MAX),
    };
    let classes = Classes::get(value.py())?;
    // Python code that runs on the way may come here again, and finds none.
    let mut out = ROOM.take();
    out.clear();
    let mut walk = Walk { profile, max_bytes, max_depth, max_items, classes, out, items: 0, last: None };
    // A lifecycle record, or the evidence of a step, without growing.
    walk.room(if profile == Profile::Record { 512 } else { 4096 })?;
    walk.value(value, None)?;
    Ok(walk.out)
}

/// One value on its way out.
pub struct Walk<'py> {
    pub profile: Profile,
    pub max_bytes: usize,
    max_depth: usize,
    max_items: usize,
    classes: &'static Classes,
    pub out: Vec<u8>,
    items: usize,
    /// The names of the flat dict written last.
    pub last: Option<Names<'py>>,
}

/// A container that is being written, and those around it.
struct Open<'o> {
    container: *mut ffi::PyObject,
    /// How deep its members lie.
    depth: usize,
    outer: Option<&'o Open<'o>>,
}

impl<'o> Open<'o> {
    fn new(container: &Bound<'_, PyAny>, outer: Option<&'o Self>) -> Outcome<Self> {
        let container = container.as_ptr();
        let mut around = outer;
        while let Some(open) = around {
            if open.container == container {
                return Err(Error::new(ErrorKind::Cycle).into());
            }
            around = open.outer;
        }
        Ok(Self { container, depth: outer.map_or(1, |open| open.depth + 1), outer })
    }
}

impl<'py> Walk<'py> {
    /// Recursion is safe here: `max_depth` bounds it.
    fn value(&mut self, value: &Bound<'py, PyAny>, outer: Option<&Open<'_>>) -> Outcome<()> {
        self.count(outer.map_or(0, |open| open.depth))?;
        if let Ok(text) = value.cast_exact::<PyString>() {
            self.string(text)?;
        } else if value.is_none() {
            self.put(b"null")?;
        } else if let Ok(number) = value.cast_exact::<PyInt>() {
            self.integer(number)?;
        } else if let Ok(value) = value.cast_exact::<PyBool>() {
            self.put(if value.is_true() { b"true" } else { b"false" })?;
        } else if let Ok(dict) = value.cast_exact::<PyDict>() {
            self.dict(dict, outer)?;
        } else if value.is_exact_instance_of::<PyList>() || value.is_exact_instance_of::<PyTuple>() {
            self.array(value, outer)?;
        } else if let Some(record) = self.classes.record_of(value) {
            self.record(value, record, outer)?;
        } else {
            self.rare(value, outer)?;
        }
        names::check_size(self.out.len(), self.max_bytes)
    }

    /// Enums, floats, subclasses and dataclasses of others.
    fn rare(&mut self, value: &Bound<'py, PyAny>, outer: Option<&Open<'_>>) -> Outcome<()> {
        if self.profile == Profile::Record {
            if let Some((choice, index)) = self.classes.choice_of(value) {
                self.count(outer.map_or(1, |open| open.depth + 1))?;
                return self.put(&choice.quoted[index]);
            }
            if native::inherits(value, &self.classes.enumeration) {
                let open = Open::new(value, outer)?;
                return self.value(&enum_value(value)?, Some(&open));
            }
        }
        if let Ok(number) = value.cast::<PyInt>() {
            self.integer(number)
        } else if let Ok(text) = value.cast::<PyString>() {
            self.string(text)
        } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
            self.array(value, outer)
        } else if value.is_instance_of::<PyDict>() {
            let open = Open::new(value, outer)?;
            self.members(&self.items_of(value)?, &open)
        } else if let Ok(number) = value.cast::<PyFloat>() {
            self.float(number.value())
        } else if self.profile == Profile::Record {
            self.dataclass(value, outer)
        } else {
            Err(self.unsupported())
        }
    }

    fn string(&mut self, text: &Bound<'py, PyString>) -> Outcome<()> {
        Text::new(text, self.profile, self.max_bytes)?.write(self.profile, &mut self.out)
    }

    fn integer(&mut self, number: &Bound<'py, PyInt>) -> Outcome<()> {
        self.room(20)?;
        match (native::integer(number), self.profile) {
            (Ok(value), _) => write_integer(value, &mut self.out),
            (Err(_), Profile::Record) => return Err(Error::new(ErrorKind::IntegerRange).bound("64 bits").into()),
            (Err(_), Profile::Evidence) => self.large_integer(number)?,
        }
        Ok(())
    }

    #[cold]
    fn large_integer(&mut self, number: &Bound<'py, PyInt>) -> Outcome<()> {
        let digits = decimal::digits(number)?;
        self.room(digits.len())?;
        write_digits(&digits, &mut self.out);
        Ok(())
    }

    pub fn float(&mut self, value: f64) -> Outcome<()> {
        if self.profile == Profile::Record {
            return Err(Error::new(ErrorKind::FloatForbidden).into());
        }
        self.room(32)?;
        Ok(write_float(value, &mut self.out)?)
    }

    fn array(&mut self, sequence: &Bound<'py, PyAny>, outer: Option<&Open<'_>>) -> Outcome<()> {
        let open = Open::new(sequence, outer)?;
        let elements = self.elements(sequence)?;
        self.put(b"[")?;
        for (index, element) in elements.iter_borrowed().enumerate() {
            if index > 0 {
                self.put(b",")?;
            }
            self.value(&element, Some(&open)).map_err(|e| e.at_index(index))?;
        }
        self.put(b"]")
    }

    /// A snapshot of a list or tuple; what iterating gives, of a subclass. It ends where there are too many. Not inlined,
    /// as [`Self::flat_record`].
    #[inline(never)]
    fn elements(&self, sequence: &Bound<'py, PyAny>) -> Outcome<Bound<'py, PyTuple>> {
        if self.profile == Profile::Evidence {
            return native::elements(sequence).map_err(|error| self.foreign(error));
        }
        if sequence.is_exact_instance_of::<PyList>() || sequence.is_exact_instance_of::<PyTuple>() {
            self.check_items(sequence.len()?)?;
            return Ok(native::elements(sequence)?);
        }
        let mut elements = Vec::new();
        for element in sequence.try_iter().map_err(|error| self.foreign(error))? {
            self.check_items(elements.len() + 1)?;
            elements.push(element?);
        }
        Ok(PyTuple::new(sequence.py(), elements)?)
    }

    /// What `items()` of a dict's subclass gives.
    fn items_of(&self, dict: &Bound<'py, PyAny>) -> Outcome<Vec<Entry<'py>>> {
        let mut entries = Vec::new();
        let items = dict.call_method0(pyo3::intern!(dict.py(), "items")).and_then(|items| items.try_iter());
        for item in items.map_err(|error| self.foreign(error))? {
            self.check_items(entries.len() + 1)?;
            let pair = item?.cast_into::<PyTuple>().map_err(|_| self.unsupported())?;
            if pair.len() != 2 {
                return Err(self.unsupported());
            }
            entries.push((pair.get_item(0)?, pair.get_item(1)?));
        }
        Ok(entries)
    }

    /// The fields of any dataclass, read before the first is written.
    fn dataclass(&mut self, object: &Bound<'py, PyAny>, outer: Option<&Open<'_>>) -> Outcome<()> {
        let py = object.py();
        let class = object.get_type();
        if class.getattr_opt(pyo3::intern!(py, "__dataclass_fields__"))?.is_none() {
            return Err(self.unsupported());
        }
        let open = Open::new(object, outer)?;
        let mut entries = Vec::new();
        // `fields` reads whatever stands under `__dataclass_fields__`.
        let fields = self.classes.dataclass_fields.bind(py).call1((class,)).and_then(|fields| fields.try_iter());
        for field in fields.map_err(|_| self.unsupported())? {
            let name = field?.getattr(pyo3::intern!(py, "name"))?.cast_into::<PyString>().map_err(|_| self.unsupported())?;
            let value = object.getattr(&name).map_err(|error| missing(py, error, &name.to_string_lossy()))?;
            entries.push((name.into_any(), value));
        }
        self.members(&entries, &open)
    }

    /// One of the contract's own records, whose order is known.
    fn record(&mut self, object: &Bound<'py, PyAny>, record: &RecordClass, outer: Option<&Open<'_>>) -> Outcome<()> {
        if self.profile == Profile::Evidence && record.info.profile != Profile::Evidence {
            return Err(self.unsupported());
        }
        let open = Open::new(object, outer)?;
        if record.flat
            && let Some(outcome) = self.flat_record(object, record, open.depth)
        {
            return outcome;
        }
        let mut values = Vec::with_capacity(record.names.len());
        let taken = native::attributes(object, &record.names, |value| values.push(value));
        for (name, field) in record.names[taken..].iter().zip(&record.info.fields[taken..]) {
            let value = object.getattr(name.bind(object.py()));
            values.push(value.map_err(|error| missing(object.py(), error, field.name))?);
        }
        for (index, prefix) in &record.sorted {
            self.put(prefix)?;
            self.value(&values[*index], Some(&open)).map_err(|e| e.at(record.info.fields[*index].name))?;
        }
        self.put(b"}")
    }

    fn dict(&mut self, dict: &Bound<'py, PyDict>, outer: Option<&Open<'_>>) -> Outcome<()> {
        let open = Open::new(dict.as_any(), outer)?;
        self.check_items(dict.len())?;
        let flat = self.flat_dict(dict, open.depth);
        flat.unwrap_or_else(|| self.members(&native::entries(dict)?, &open))
    }

    fn members(&mut self, entries: &[Entry<'py>], open: &Open<'_>) -> Outcome<()> {
        let mut texts = Vec::new();
        texts.try_reserve_exact(entries.len()).map_err(|_| Error::new(ErrorKind::Memory))?;
        for (name, _) in entries {
            let name = name.cast_exact::<PyString>().or_else(|_| name.cast()).map_err(|_| self.unsupported())?;
            texts.push(Text::new(name, self.profile, self.max_bytes)?);
        }
        self.put(b"{")?;
        for (position, place) in names::order(&texts, self.profile)?.into_iter().enumerate() {
            if position > 0 {
                self.put(b",")?;
            }
            texts[place.index].write(self.profile, &mut self.out)?;
            self.put(b":")?;
            self.value(&entries[place.index].1, Some(open)).map_err(|e| e.below(texts[place.index].plain()))?;
        }
        self.put(b"}")
    }

    #[inline]
    pub fn count(&mut self, depth: usize) -> Outcome<()> {
        self.items += 1;
        if depth > self.max_depth {
            return Err(Error::new(ErrorKind::Depth).bound(self.max_depth).into());
        }
        self.check_items(0)
    }

    /// Would so many more values at this depth, and so many more bytes, break no bound?
    #[inline]
    pub fn allows(&self, values: usize, bytes: usize, depth: usize) -> bool {
        depth <= self.max_depth && self.items + values <= self.max_items && self.out.len() + bytes <= self.max_bytes
    }

    /// Counts values that [`Self::allows`] was asked about.
    #[inline]
    pub fn took(&mut self, values: usize) {
        self.items += values;
    }

    /// Is there room for so many more values?
    fn check_items(&self, more: usize) -> Outcome<()> {
        if self.items + more > self.max_items {
            return Err(Error::new(ErrorKind::Items).bound(self.max_items).into());
        }
        Ok(())
    }

    #[inline]
    pub fn put(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.room(bytes.len())?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    #[inline]
    pub fn room(&mut self, more: usize) -> Outcome<()> {
        self.out.try_reserve(more).map_err(|_| Error::new(ErrorKind::Memory).into())
    }

    /// The answer to a class whose `__iter__` or `items` gives something else than it should; an exception that the
    /// user's own code raised goes on.
    #[cold]
    fn foreign(&self, error: PyErr) -> Failure {
        Python::attach(|py| if not_a_protocol(py, &error) { self.unsupported() } else { error.into() })
    }

    #[cold]
    fn unsupported(&self) -> Failure {
        let error = Error::new(ErrorKind::Unsupported);
        if self.profile == Profile::Evidence { Failure::Type(error) } else { Failure::Contract(error) }
    }
}
