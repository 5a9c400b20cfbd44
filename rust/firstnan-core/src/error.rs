//! The one error of the crate: which rule of the contract was broken, where, and what the bound was.

use std::fmt;

/// Shorthand for a result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The layer of the contract that refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// What JSON Schema can say of one record.
    Shape,
    /// What holds between fields, written in CEL beside the shape.
    Rule,
    /// What needs the exact bytes: syntax, form of a number, duplicates, canonical form, identity.
    Wire,
}

impl Layer {
    /// The name used in messages, vectors and the Python attribute.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shape => "shape",
            Self::Rule => "rule",
            Self::Wire => "wire",
        }
    }
}

macro_rules! kinds {
    ($($variant:ident $layer:ident $name:literal $words:literal,)*) => {
        /// Which sentence of the contract was broken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ErrorKind {
            $(#[doc = $words] $variant,)*
        }

        impl ErrorKind {
            /// Every kind, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The stable name, as the Python attribute `kind` gives it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The layer this kind belongs to.
            pub const fn layer(self) -> Layer {
                match self { $(Self::$variant => Layer::$layer,)* }
            }

            const fn words(self) -> &'static str {
                match self { $(Self::$variant => $words,)* }
            }
        }
    };
}

kinds! {
    Syntax Wire "syntax" "is not well-formed JSON (RFC 8259)",
    Encoding Wire "encoding" "is not valid UTF-8",
    ByteOrderMark Wire "byte_order_mark" "starts with a byte order mark",
    DuplicateName Wire "duplicate_name" "has a name twice",
    IntegerForm Wire "integer_form" "is an integer written with a fraction or an exponent",
    LoneSurrogate Wire "lone_surrogate" "has a lone surrogate",
    NotCanonical Wire "not_canonical" "is not in canonical form",
    Identity Wire "identity" "has a content identity that does not match its content",
    Depth Wire "depth" "is nested too deeply",
    Items Wire "items" "has too many items",
    Size Wire "size" "is too large",
    Memory Wire "memory" "needs more memory than there is",
    Cycle Wire "cycle" "contains itself",
    Unsupported Wire "unsupported" "holds a value that the profile has no form for",
    FloatForbidden Wire "float_forbidden" "holds a float, which the record profile has no form for",
    NonFinite Wire "non_finite" "holds a number that is not finite in binary64",
    IntegerRange Wire "integer_range" "holds an integer out of range",
    Changed Wire "changed" "changed while it was read",
    Compression Wire "compression" "is not a whole gzip or zstd stream",
    Expansion Wire "expansion" "decompresses to far more than its size",
    Type Shape "type" "has the wrong type",
    Required Shape "required" "is missing",
    UnknownName Shape "unknown_name" "is not a name of this record",
    Minimum Shape "minimum" "is below the minimum",
    Maximum Shape "maximum" "is above the maximum",
    ExclusiveMinimum Shape "exclusive_minimum" "is not above the exclusive minimum",
    ExclusiveMaximum Shape "exclusive_maximum" "is not below the exclusive maximum",
    MinLength Shape "min_length" "is too short",
    MaxLength Shape "max_length" "is too long",
    Pattern Shape "pattern" "does not match the pattern",
    Enum Shape "enum" "is not one of the allowed values",
    MinItems Shape "min_items" "has too few items",
    MaxItems Shape "max_items" "has too many items",
    Rule Rule "rule" "breaks a rule between fields",
    RecordKind Shape "record_kind" "is not a known kind of record",
    Scope Rule "scope" "does not belong to the contract",
    Transition Rule "transition" "is not a transition of the lifecycle",
    Consensus Rule "consensus" "does not agree with the other ranks",
}

/// May an error show this name of the input? Only a short word of letters, which no digest, path or line can hide in.
pub fn is_plain_word(name: &str) -> bool {
    (1..=32).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_')
}

#[derive(Clone, Debug, PartialEq)]
struct Data {
    kind: ErrorKind,
    record: Option<&'static str>,
    pointer: String,
    bound: Option<String>,
    detail: Option<String>,
    offset: Option<usize>,
}

/// Why something was refused. One pointer wide, so the happy path pays nothing for it; text is made on demand.
#[derive(Clone, Debug, PartialEq)]
pub struct Error(Box<Data>);

impl Error {
    /// An error of this kind at the top value.
    #[cold]
    pub fn new(kind: ErrorKind) -> Self {
        Self(Box::new(Data { kind, record: None, pointer: String::new(), bound: None, detail: None, offset: None }))
    }

    /// Names the bound that was broken: a number, a pattern, a list of allowed values, the id of a rule.
    #[must_use]
    pub fn bound(mut self, bound: impl fmt::Display) -> Self {
        self.0.bound = Some(bound.to_string());
        self
    }

    /// Says in words what differs, for a rule whose id is not enough. Never a value of the input.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// The byte offset in the text.
    #[must_use]
    pub fn offset(mut self, offset: usize) -> Self {
        self.0.offset = Some(offset);
        self
    }

    /// Moves the error below a member name: its JSON Pointer grows at the front (RFC 6901 escapes).
    #[must_use]
    #[cold]
    pub fn at(mut self, name: &str) -> Self {
        let escaped = name.replace('~', "~0").replace('/', "~1");
        self.0.pointer.insert_str(0, &escaped);
        self.0.pointer.insert(0, '/');
        self
    }

    /// Moves the error below an array index.
    #[must_use]
    #[cold]
    pub fn at_index(self, index: usize) -> Self {
        self.at(&index.to_string())
    }

    /// Names the kind of record, unless a record around it did not know better.
    #[must_use]
    #[cold]
    pub fn in_record(mut self, record: &'static str) -> Self {
        self.0.record = Some(record);
        self
    }

    /// Which sentence of the contract was broken.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The layer that refuses.
    pub fn layer(&self) -> Layer {
        self.0.kind.layer()
    }

    /// JSON Pointer to the value, empty for the top value.
    pub fn pointer(&self) -> &str {
        &self.0.pointer
    }

    /// The bound that was broken, where there is one.
    pub fn bound_text(&self) -> Option<&str> {
        self.0.bound.as_deref()
    }

    /// The kind of record, where known.
    pub fn record(&self) -> Option<&'static str> {
        self.0.record
    }

    /// The byte offset, where the input was text.
    pub fn byte_offset(&self) -> Option<usize> {
        self.0.offset
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = &*self.0;
        if let Some(record) = data.record {
            write!(f, "{record}: ")?;
        }
        let pointer = if data.pointer.is_empty() { "the value" } else { &data.pointer };
        write!(f, "{pointer} {}", data.kind.words())?;
        if let Some(detail) = &data.detail {
            write!(f, ": {detail}")?;
        }
        if let Some(bound) = &data.bound {
            write!(f, " [{}: {bound}]", data.kind.name())?;
        }
        if let Some(offset) = data.offset {
            write!(f, " at byte {offset}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
