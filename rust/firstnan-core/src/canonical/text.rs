//! From JSON text to canonical bytes in one pass, without a tree: members are written as they come, then put in order.

use std::ops::Range;

use super::{write_digits, write_float, write_integer, write_string_wtf8};
use crate::error::{Error, ErrorKind, Result};
use crate::json::{Reader, Token};
use crate::limits::{
    MAX_CONSENSUS_BYTES, MAX_EVIDENCE_DEPTH, MAX_INTEGER_DIGITS, MAX_RECORD_DEPTH, MAX_RECORD_ITEMS, append, reserve,
};
use crate::record::Profile;

/// The canonical bytes of any JSON value in a profile, with the bounds of the profile.
pub fn canonicalize(data: &[u8], profile: Profile) -> Result<Vec<u8>> {
    let max_bytes = match profile {
        Profile::Record => MAX_CONSENSUS_BYTES,
        Profile::Evidence => usize::MAX,
    };
    Writer::new(data, profile, max_bytes)?.run(data.len())
}

/// The canonical bytes in the record profile, at most `max_bytes` (1 to 65,536) of them.
pub fn canonicalize_bounded(data: &[u8], max_bytes: usize) -> Result<Vec<u8>> {
    match max_bytes {
        0 => Err(Error::new(ErrorKind::Minimum).bound(1).at("max_bytes")),
        1..=MAX_CONSENSUS_BYTES => Writer::new(data, Profile::Record, max_bytes)?.run(data.len()),
        _ => Err(Error::new(ErrorKind::Maximum).bound(MAX_CONSENSUS_BYTES).at("max_bytes")),
    }
}

/// A member of an object that is still open.
struct Member {
    /// Its name in `Writer::names`.
    name: Range<usize>,
    /// Its canonical bytes, name and value, in `Writer::out`.
    text: Range<usize>,
    /// Where its name ends in the input.
    offset: usize,
}

struct Writer<'a> {
    reader: Reader<'a>,
    profile: Profile,
    max_bytes: usize,
    max_depth: usize,
    max_items: usize,
    items: usize,
    out: Vec<u8>,
    /// The decoded names of the open objects, as WTF-8, whose byte order is the order of code points.
    names: Vec<u8>,
    members: Vec<Member>,
    sorted: Vec<u8>,
}

impl<'a> Writer<'a> {
    fn new(data: &'a [u8], profile: Profile, max_bytes: usize) -> Result<Self> {
        let (max_depth, max_items) = match profile {
            Profile::Record => (MAX_RECORD_DEPTH, MAX_RECORD_ITEMS),
            Profile::Evidence => (MAX_EVIDENCE_DEPTH, usize::MAX),
        };
        Ok(Self {
            reader: Reader::new(data)?,
            profile,
            max_bytes,
            max_depth,
            max_items,
            items: 0,
            out: Vec::new(),
            names: Vec::new(),
            members: Vec::new(),
            sorted: Vec::new(),
        })
    }

    fn run(mut self, length: usize) -> Result<Vec<u8>> {
        reserve(&mut self.out, length.min(self.max_bytes))?;
        self.value(0)?;
        self.reader.end()?;
        Ok(self.out)
    }

    /// Recursion is safe here: `max_depth` bounds it.
    fn value(&mut self, depth: usize) -> Result<()> {
        let token = self.reader.peek()?;
        self.items += 1;
        if depth > self.max_depth {
            return Err(self.error(ErrorKind::Depth).bound(self.max_depth));
        }
        if self.items > self.max_items {
            return Err(self.error(ErrorKind::Items).bound(self.max_items));
        }
        match token {
            Token::Object => self.object(depth)?,
            Token::Array => self.array(depth)?,
            Token::String => {
                let start = self.reader.offset();
                let text = self.reader.string_wtf8()?;
                write_string_wtf8(self.profile, &text, &mut self.out).map_err(|e| e.offset(start))?;
            }
            Token::Number => self.number()?,
            Token::True | Token::False => {
                let literal: &[u8] = if self.reader.boolean()? { b"true" } else { b"false" };
                append(&mut self.out, literal)?;
            }
            Token::Null => {
                self.reader.null()?;
                append(&mut self.out, b"null")?;
            }
        }
        self.check_size()
    }

    fn number(&mut self) -> Result<()> {
        let start = self.reader.offset();
        let number = self.reader.number()?;
        let error = |kind| Error::new(kind).offset(start);
        reserve(&mut self.out, number.text.len())?;
        match (self.profile, number.integer) {
            (Profile::Record, true) => {
                let value = number.to_i64().ok_or_else(|| error(ErrorKind::IntegerRange).bound("64 bits"))?;
                write_integer(value, &mut self.out);
            }
            (Profile::Record, false) => return Err(error(ErrorKind::FloatForbidden)),
            (Profile::Evidence, true) => {
                if number.text.trim_start_matches('-').len() > MAX_INTEGER_DIGITS {
                    return Err(error(ErrorKind::IntegerRange).bound(format_args!("{MAX_INTEGER_DIGITS} digits")));
                }
                write_digits(number.text, &mut self.out);
            }
            (Profile::Evidence, false) => {
                let value = number.to_f64().ok_or_else(|| error(ErrorKind::NonFinite))?;
                write_float(value, &mut self.out)?;
            }
        }
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Result<()> {
        self.reader.begin_array()?;
        append(&mut self.out, b"[")?;
        let mut first = true;
        while self.reader.next_element(&mut first)? {
            self.value(depth + 1)?;
            append(&mut self.out, b",")?;
        }
        self.close(b'[', b']')
    }

    fn object(&mut self, depth: usize) -> Result<()> {
        self.reader.begin_object()?;
        append(&mut self.out, b"{")?;
        let names = self.names.len();
        let members = self.members.len();
        let start = self.out.len();
        let mut first = true;
        while let Some(name) = self.reader.next_name_wtf8(&mut first)? {
            let offset = self.reader.offset();
            let text = self.out.len();
            let name_start = self.names.len();
            write_string_wtf8(self.profile, &name, &mut self.out).map_err(|e| e.offset(offset))?;
            self.check_size()?;
            append(&mut self.names, &name)?;
            let name = name_start..self.names.len();
            append(&mut self.out, b":")?;
            self.value(depth + 1)?;
            append(&mut self.out, b",")?;
            reserve(&mut self.members, 1)?;
            self.members.push(Member { name, text: text..self.out.len(), offset });
        }
        self.sort(members, start)?;
        self.names.truncate(names);
        self.members.truncate(members);
        self.close(b'{', b'}')
    }

    /// Puts the members from `first` on in order; their bytes begin at `start`.
    fn sort(&mut self, first: usize, start: usize) -> Result<()> {
        let members = &mut self.members[first..];
        let name = |member: &Member| &self.names[member.name.clone()];
        if members.windows(2).all(|pair| name(&pair[0]) < name(&pair[1])) {
            return Ok(());
        }
        members.sort_unstable_by(|a, b| name(a).cmp(name(b)).then(a.offset.cmp(&b.offset)));
        if let Some(pair) = members.windows(2).find(|pair| name(&pair[0]) == name(&pair[1])) {
            return Err(Error::new(ErrorKind::DuplicateName).offset(pair[1].offset));
        }
        self.sorted.clear();
        reserve(&mut self.sorted, self.out.len() - start)?;
        for member in members {
            self.sorted.extend_from_slice(&self.out[member.text.clone()]);
        }
        self.out.truncate(start);
        append(&mut self.out, &self.sorted)
    }

    /// Ends a container: the comma after its last member gives way to the bracket.
    fn close(&mut self, open: u8, close: u8) -> Result<()> {
        if self.out.last() != Some(&open) {
            self.out.pop();
        }
        append(&mut self.out, &[close])
    }

    fn check_size(&self) -> Result<()> {
        if self.out.len() > self.max_bytes {
            return Err(self.error(ErrorKind::Size).bound(self.max_bytes));
        }
        Ok(())
    }

    fn error(&self, kind: ErrorKind) -> Error {
        Error::new(kind).offset(self.reader.offset())
    }
}
