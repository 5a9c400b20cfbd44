//! Arrow columns of a kind of record, made from its table of fields: no list of columns is written by hand.
//!
//! The columns are a tree in pre-order; a [`Visitor`] moves through it and appends value by value.

use std::sync::Arc;

use arrow_array::types::Int16Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int16Array, Int64Array, ListArray, RecordBatch, StringArray,
    StructArray,
};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema};
use firstnan_core::{Choice, FieldType, Real, RecordInfo, Visitor};

use crate::texts::{Texts, offsets, room};

enum Values {
    Text(Texts),
    Integer(Vec<i64>),
    Real { value: Vec<f64>, integer: Texts, written: Vec<bool> },
    Boolean(Vec<bool>),
    Choice { key: Vec<i16>, values: Vec<&'static str> },
    Items { ends: Vec<i32>, total: i32, item: usize },
    Record { variants: Vec<Variant> },
}

impl Values {
    /// An empty column with room for as much as this one has.
    fn like(&self) -> Self {
        match self {
            Self::Text(texts) => Self::Text(texts.like()),
            Self::Integer(values) => Self::Integer(room(values)),
            Self::Real { value, integer, written } => {
                Self::Real { value: room(value), integer: integer.like(), written: room(written) }
            }
            Self::Boolean(values) => Self::Boolean(room(values)),
            Self::Choice { key, values } => Self::Choice { key: room(key), values: values.clone() },
            Self::Items { ends, item, .. } => Self::Items { ends: room(ends), total: 0, item: *item },
            Self::Record { variants } => Self::Record { variants: variants.clone() },
        }
    }
}

/// Where a record's fields go: one of a union, or the only one.
#[derive(Clone)]
struct Variant {
    info: usize,
    /// Where the nodes of its fields begin in `Columns::places`.
    base: usize,
    absent: Vec<usize>,
}

/// Which values are there; the bits begin with the first null, since most columns never have one.
#[derive(Default)]
struct Validity {
    length: usize,
    bits: Vec<bool>,
}

impl Validity {
    fn push(&mut self, valid: bool) {
        if !valid && self.bits.is_empty() {
            self.bits = vec![true; self.length];
        }
        if !valid || !self.bits.is_empty() {
            self.bits.push(valid);
        }
        self.length += 1;
    }

    fn finish(self) -> Option<NullBuffer> {
        (!self.bits.is_empty()).then(|| NullBuffer::new(BooleanBuffer::from(self.bits)))
    }
}

struct Node {
    values: Values,
    valid: Validity,
    nullable: bool,
    children: Vec<(&'static str, usize)>,
}

/// A record that is open.
struct Open {
    node: usize,
    variant: usize,
    /// The `base` of the record around it.
    outer: usize,
}

/// The growing columns of one kind.
pub struct Columns {
    nodes: Vec<Node>,
    /// The nodes of the fields of every variant, variant after variant.
    places: Vec<usize>,
    open: Vec<Open>,
    /// The nodes of the items of the arrays that are open.
    items: Vec<usize>,
    cursor: usize,
    /// Where the nodes of the innermost record's fields begin in `places`.
    base: usize,
}

impl Columns {
    /// Empty columns of a kind (`firstnan_core::KIND_TYPES`).
    pub fn new(kind: &FieldType) -> Self {
        let mut columns = Self { nodes: Vec::new(), places: Vec::new(), open: Vec::new(), items: Vec::new(), cursor: 0, base: 0 };
        columns.plan(kind, false);
        columns
    }

    /// Empty columns of the same kind with room for as much as these have: growing one by one took 6 % of ingestion.
    pub(crate) fn like(&self) -> Self {
        let nodes = self.nodes.iter().map(|node| Node {
            values: node.values.like(),
            valid: Validity::default(),
            nullable: node.nullable,
            children: node.children.clone(),
        });
        let places = self.places.clone();
        Self { nodes: nodes.collect(), places, open: Vec::new(), items: Vec::new(), cursor: 0, base: 0 }
    }

    /// How many records there are.
    pub fn rows(&self) -> usize {
        self.nodes[0].valid.length
    }

    /// Moves to the start of a next record, which must then be visited.
    pub fn next_row(&mut self) {
        self.cursor = 0;
    }

    fn plan(&mut self, kind: &FieldType, nullable: bool) -> usize {
        let index = self.nodes.len();
        let values = match kind {
            FieldType::Optional(inner) => return self.plan(inner, true),
            FieldType::Text => Values::Text(Texts::default()),
            FieldType::Integer => Values::Integer(Vec::new()),
            FieldType::Real => Values::Real { value: Vec::new(), integer: Texts::default(), written: Vec::new() },
            FieldType::Boolean => Values::Boolean(Vec::new()),
            FieldType::Choice(choice) => Values::Choice { key: Vec::new(), values: choice.values.to_vec() },
            FieldType::Array(_) => Values::Items { ends: Vec::new(), total: 0, item: index + 1 },
            FieldType::Record(_) | FieldType::Union(_) => Values::Record { variants: Vec::new() },
        };
        self.nodes.push(Node { values, valid: Validity::default(), nullable, children: Vec::new() });
        match kind {
            FieldType::Array(item) => {
                self.plan(item, false);
            }
            FieldType::Record(info) => self.plan_variants(index, &[info]),
            FieldType::Union(variants) => self.plan_variants(index, variants),
            _ => {}
        }
        index
    }

    /// The fields of all variants by name, in the order in which they come first.
    fn plan_variants(&mut self, index: usize, infos: &[&'static RecordInfo]) {
        let mut children: Vec<(&'static str, usize)> = Vec::new();
        let mut variants = Vec::new();
        for info in infos {
            let mut fields = Vec::new();
            for field in info.fields {
                let known = children.iter().find(|(name, _)| *name == field.name).map(|(_, node)| *node);
                let node = known.unwrap_or_else(|| self.plan(&field.kind, infos.len() > 1));
                if let (Some(node), FieldType::Choice(choice)) = (known, &field.kind) {
                    self.add_values(node, choice);
                }
                if known.is_none() {
                    children.push((field.name, node));
                }
                fields.push(node);
            }
            variants.push((info.index, fields));
        }
        let variants = variants.into_iter().map(|(info, fields)| {
            let absent = children.iter().map(|(_, node)| *node).filter(|node| !fields.contains(node)).collect();
            let base = self.places.len();
            self.places.extend(fields);
            Variant { info, base, absent }
        });
        let variants = variants.collect();
        self.nodes[index].children = children;
        self.nodes[index].values = Values::Record { variants };
    }

    fn add_values(&mut self, node: usize, choice: &'static Choice) {
        if let Values::Choice { values, .. } = &mut self.nodes[node].values {
            for value in choice.values {
                if !values.contains(value) {
                    values.push(value);
                }
            }
        }
    }

    fn append_null(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.valid.push(false);
        match &mut node.values {
            Values::Text(texts) => texts.end(),
            Values::Integer(values) => values.push(0),
            Values::Real { value, integer, written } => {
                value.push(0.0);
                integer.end();
                written.push(false);
            }
            Values::Boolean(values) => values.push(false),
            Values::Choice { key, .. } => key.push(0),
            Values::Items { ends, total, .. } => ends.push(*total),
            Values::Record { .. } => {
                let children: Vec<usize> = node.children.iter().map(|(_, child)| *child).collect();
                for child in children {
                    self.append_null(child);
                }
            }
        }
    }

    /// The columns in the order of the schema.
    ///
    /// # Errors
    ///
    /// A column holds more than 2 GiB of text or items.
    pub fn finish(mut self) -> Result<RecordBatch, ArrowError> {
        let children = std::mem::take(&mut self.nodes[0].children);
        let mut nodes: Vec<Option<Node>> = self.nodes.into_iter().map(Some).collect();
        let (fields, values) = all_arrays(&mut nodes, children)?;
        RecordBatch::try_new(Arc::new(Schema::new(fields)), values)
    }
}

type NamedArrays = (Vec<Field>, Vec<ArrayRef>);

/// The arrays of several nodes, one after the other.
fn all_arrays(nodes: &mut [Option<Node>], children: Vec<(&'static str, usize)>) -> Result<NamedArrays, ArrowError> {
    let mut all = NamedArrays::default();
    for (name, child) in children {
        for (field, array) in arrays(nodes, name, child)? {
            all.0.push(field);
            all.1.push(array);
        }
    }
    Ok(all)
}

/// The array of a node, two for a real.
fn arrays(nodes: &mut [Option<Node>], name: &str, index: usize) -> Result<Vec<(Field, ArrayRef)>, ArrowError> {
    let Some(node) = nodes[index].take() else { return Ok(Vec::new()) };
    let nulls = node.valid.finish();
    let array: ArrayRef = match node.values {
        Values::Text(texts) => texts.finish(nulls)?,
        Values::Integer(values) => Arc::new(Int64Array::try_new(values.into(), nulls)?),
        Values::Boolean(values) => Arc::new(BooleanArray::new(values.into(), nulls)),
        Values::Real { value, integer, written } => {
            let integer = integer.finish(Some(NullBuffer::new(BooleanBuffer::from(written))))?;
            let value: ArrayRef = Arc::new(Float64Array::try_new(value.into(), nulls)?);
            return Ok(vec![
                (Field::new(name, DataType::Float64, node.nullable), value),
                (Field::new(format!("{name}_integer"), DataType::Utf8, true), integer),
            ]);
        }
        Values::Choice { key, values } => {
            let keys = Int16Array::try_new(key.into(), nulls)?;
            Arc::new(DictionaryArray::<Int16Type>::try_new(keys, Arc::new(StringArray::from(values)))?)
        }
        Values::Items { ends, item, .. } => {
            let mut inner = arrays(nodes, "item", item)?;
            let (field, values) = if inner.len() == 1 {
                inner.remove(0)
            } else {
                // A real has two columns: in a list they are the fields of a struct.
                let (fields, values): (Vec<Field>, Vec<ArrayRef>) = inner.into_iter().unzip();
                let values = StructArray::try_new(Fields::from(fields), values, None)?;
                (Field::new("item", DataType::Struct(values.fields().clone()), false), Arc::new(values) as ArrayRef)
            };
            Arc::new(ListArray::try_new(Arc::new(field), offsets(ends)?, values, nulls)?)
        }
        Values::Record { .. } => {
            let (fields, values) = all_arrays(nodes, node.children)?;
            let fields: Vec<Field> = fields.into_iter().map(|field| field.with_nullable(true)).collect();
            Arc::new(StructArray::try_new(Fields::from(fields), values, nulls)?)
        }
    };
    Ok(vec![(Field::new(name, array.data_type().clone(), node.nullable), array)])
}

impl Visitor for Columns {
    fn null(&mut self) {
        self.append_null(self.cursor);
    }

    fn text(&mut self, value: &str) {
        let node = &mut self.nodes[self.cursor];
        if let Values::Text(texts) = &mut node.values {
            texts.push(value);
            node.valid.push(true);
        }
    }

    fn integer(&mut self, value: i64) {
        let node = &mut self.nodes[self.cursor];
        if let Values::Integer(values) = &mut node.values {
            values.push(value);
            node.valid.push(true);
        }
    }

    fn real(&mut self, real: &Real<'_>) {
        let node = &mut self.nodes[self.cursor];
        if let Values::Real { value, integer, written } = &mut node.values {
            value.push(real.to_f64());
            match real {
                Real::Float(_) => integer.end(),
                Real::Int(value) => integer.push_integer(*value),
                Real::Big(digits) => integer.push(digits),
            }
            written.push(!matches!(real, Real::Float(_)));
            node.valid.push(true);
        }
    }

    fn boolean(&mut self, value: bool) {
        let node = &mut self.nodes[self.cursor];
        if let Values::Boolean(values) = &mut node.values {
            values.push(value);
            node.valid.push(true);
        }
    }

    fn choice(&mut self, choice: &'static Choice, index: usize) {
        let node = &mut self.nodes[self.cursor];
        if let Values::Choice { key, values } = &mut node.values {
            // In a union the list is that of all variants.
            let text = choice.values[index];
            let place = if values.get(index) == Some(&text) { Some(index) } else { values.iter().position(|v| *v == text) };
            key.push(place.and_then(|place| i16::try_from(place).ok()).unwrap_or(-1));
            node.valid.push(true);
        }
    }

    fn begin_items(&mut self, length: usize) {
        let node = &mut self.nodes[self.cursor];
        if let Values::Items { ends, total, item } = &mut node.values {
            *total = total.saturating_add(i32::try_from(length).unwrap_or(i32::MAX));
            ends.push(*total);
            node.valid.push(true);
            self.items.push(*item);
        }
    }

    fn item(&mut self) {
        if let Some(item) = self.items.last() {
            self.cursor = *item;
        }
    }

    fn end_items(&mut self) {
        self.items.pop();
    }

    fn begin_record(&mut self, info: &'static RecordInfo) {
        let node = &mut self.nodes[self.cursor];
        node.valid.push(true);
        let Values::Record { variants } = &node.values else { return };
        let variant = variants.iter().position(|variant| variant.info == info.index).unwrap_or(0);
        self.open.push(Open { node: self.cursor, variant, outer: self.base });
        self.base = variants[variant].base;
    }

    fn field(&mut self, index: usize) {
        self.cursor = self.places[self.base + index];
    }

    fn end_record(&mut self) {
        let Some(open) = self.open.pop() else { return };
        self.base = open.outer;
        let Values::Record { variants } = &self.nodes[open.node].values else { return };
        if !variants[open.variant].absent.is_empty() {
            for child in variants[open.variant].absent.clone() {
                self.append_null(child);
            }
        }
    }
}
