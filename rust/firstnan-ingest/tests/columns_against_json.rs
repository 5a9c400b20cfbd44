//! Every example and every valid vector of every kind, its columns compared with what another JSON reader reads.

use std::fs;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int16Type, Int64Type};
use arrow_array::{Array, RecordBatch, StructArray};
use firstnan_core::{
    AnyRecord, FieldInfo, FieldType, KIND_TYPES, KINDS, Profile, Record, RecordInfo, Taker, Visitor, kind_index,
};
use firstnan_ingest::Columns;
use serde_json::Value;

fn schemas() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas")
}

struct Row<'c>(&'c mut Columns);

impl Taker for Row<'_> {
    type Out = ();

    fn take<'a, R: Record<'a>>(self, record: &R) {
        record.visit(self.0);
    }
}

fn batch(kind: usize, texts: &[String]) -> RecordBatch {
    let mut columns = Columns::new(&KIND_TYPES[kind]);
    for text in texts {
        columns.next_row();
        AnyRecord::decode(kind, text.as_bytes()).unwrap().take(Row(&mut columns));
    }
    assert_eq!(columns.rows(), texts.len());
    columns.finish().unwrap()
}

fn same_number(field: &str, fields: &StructArray, row: usize, value: &Value) {
    let number = fields.column_by_name(field).unwrap().as_primitive::<Float64Type>().value(row);
    assert_eq!(Some(number), value.as_f64(), "{field}");
    let digits = fields.column_by_name(&format!("{field}_integer")).unwrap();
    let written = value.to_string();
    let integer = !written.contains(['.', 'e', 'E']);
    assert_eq!(digits.is_null(row), !integer, "{field}: {written}");
    if integer {
        assert_eq!(digits.as_string::<i32>().value(row), written, "{field}");
    }
}

fn same(field: &str, array: &dyn Array, row: usize, kind: &FieldType, value: &Value) {
    if value.is_null() {
        assert!(array.is_null(row), "{field}");
        return;
    }
    assert!(array.is_valid(row), "{field}");
    match kind {
        FieldType::Optional(inner) => same(field, array, row, inner, value),
        FieldType::Text => assert_eq!(Some(array.as_string::<i32>().value(row)), value.as_str(), "{field}"),
        FieldType::Integer => assert_eq!(Some(array.as_primitive::<Int64Type>().value(row)), value.as_i64(), "{field}"),
        FieldType::Boolean => assert_eq!(Some(array.as_boolean().value(row)), value.as_bool(), "{field}"),
        FieldType::Choice(_) => {
            let array = array.as_dictionary::<Int16Type>().downcast_dict::<arrow_array::StringArray>().unwrap();
            assert_eq!(Some(arrow_array::ArrayAccessor::value(&array, row)), value.as_str(), "{field}");
        }
        FieldType::Array(item) => {
            let values = array.as_list::<i32>().value(row);
            let expected = value.as_array().unwrap();
            assert_eq!(values.len(), expected.len(), "{field}");
            for (index, value) in expected.iter().enumerate() {
                if matches!(item, FieldType::Real) {
                    same_number("item", values.as_struct(), index, value);
                } else {
                    same(field, &values, index, item, value);
                }
            }
        }
        FieldType::Record(_) | FieldType::Union(_) => same_record(array.as_struct(), row, kind, value),
        FieldType::Real => unreachable!("a real is compared with its two columns"),
    }
}

/// The fields that the record has are there; every other column of the row is null.
fn same_record(fields: &StructArray, row: usize, kind: &FieldType, value: &Value) {
    let infos = match kind {
        FieldType::Record(info) => std::slice::from_ref(info),
        FieldType::Union(variants) => variants,
        _ => unreachable!("a kind is a record or a union"),
    };
    let object = value.as_object().unwrap();
    let info = infos
        .iter()
        .find(|info| {
            info.fields.len() == object.len()
                && info.fields.iter().all(|field| match &field.kind {
                    FieldType::Choice(choice) => object[field.name].as_str().is_none_or(|text| choice.values.contains(&text)),
                    _ => object.contains_key(field.name),
                })
        })
        .unwrap();
    let mut seen = 0;
    for field in info.fields {
        let real = match &field.kind {
            FieldType::Real => true,
            FieldType::Optional(inner) => matches!(inner, FieldType::Real),
            _ => false,
        };
        seen += if real { 2 } else { 1 };
        if real && !object[field.name].is_null() {
            same_number(field.name, fields, row, &object[field.name]);
        } else {
            same(field.name, fields.column_by_name(field.name).unwrap(), row, &field.kind, &object[field.name]);
        }
    }
    if infos.len() == 1 {
        assert_eq!(fields.num_columns(), seen);
    } else {
        let named = |name: &str| object.contains_key(name.strip_suffix("_integer").unwrap_or(name));
        for (name, column) in fields.column_names().into_iter().zip(fields.columns()).filter(|(name, _)| !named(name)) {
            assert!(column.is_null(row), "{name}");
        }
    }
}

fn check(kind: usize, texts: &[String]) {
    let rows = StructArray::from(batch(kind, texts));
    for (row, text) in texts.iter().enumerate() {
        same_record(&rows, row, &KIND_TYPES[kind], &serde_json::from_str(text).unwrap());
    }
}

#[test]
fn examples_of_every_kind() {
    for (index, kind) in KINDS.iter().enumerate() {
        let text = fs::read_to_string(schemas().join(format!("v1/{kind}.json"))).unwrap();
        let schema: Value = serde_json::from_str(&text).unwrap();
        let texts: Vec<String> = schema["examples"].as_array().unwrap().iter().map(Value::to_string).collect();
        assert!(!texts.is_empty(), "{kind}");
        // Twice in turn, so that a row that leaves a column askew is seen in the next one.
        check(index, &[texts.clone(), texts].concat());
    }
}

#[test]
fn valid_vectors_of_every_kind() {
    let mut kinds = 0;
    for entry in fs::read_dir(schemas().join("vectors/records")).unwrap() {
        let path = entry.unwrap().path();
        let kind = kind_index(path.file_stem().unwrap().to_str().unwrap()).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let cases: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let valid: Vec<String> =
            cases.iter().filter(|case| case["accept"] == true).map(|case| case["text"].as_str().unwrap().to_owned()).collect();
        assert!(valid.len() > 10, "{}: {}", path.display(), valid.len());
        check(kind, &valid);
        kinds += 1;
    }
    assert!(kinds >= 7);
}

/// No kind of the contract has an array in an array.
#[test]
fn an_array_in_an_array_ends_before_the_next_item_of_the_outer() {
    static INFO: RecordInfo = RecordInfo {
        index: 0,
        kind: "nested",
        name: "Nested",
        profile: Profile::Evidence,
        exact: true,
        fields: &[FieldInfo { name: "lists", kind: FieldType::Array(&FieldType::Array(&FieldType::Integer)) }],
        sorted: &[0],
    };
    let mut columns = Columns::new(&FieldType::Record(&INFO));
    columns.next_row();
    columns.begin_record(&INFO);
    columns.field(0);
    let lists: [&[i64]; 3] = [&[1, 2], &[], &[3]];
    columns.begin_items(lists.len());
    for list in lists {
        columns.item();
        columns.begin_items(list.len());
        for value in list {
            columns.item();
            columns.integer(*value);
        }
        columns.end_items();
    }
    columns.end_items();
    columns.end_record();
    let batch = columns.finish().unwrap();
    let outer = batch.column(0).as_list::<i32>().value(0);
    let inner: Vec<_> =
        outer.as_list::<i32>().iter().map(|list| list.unwrap().as_primitive::<Int64Type>().values().to_vec()).collect();
    assert_eq!(inner, lists);
}
