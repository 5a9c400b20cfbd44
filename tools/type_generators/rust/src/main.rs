//! Prints the Rust types of a schema's `$defs`, as typify makes them.
//! Usage: `firstnan-type-generator SCHEMA`

use std::{env, error::Error, fs};

use schemars::schema::{RootSchema, Schema, SchemaObject};
use typify::{TypeSpace, TypeSpaceSettings};

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args().nth(1).ok_or("usage: firstnan-type-generator SCHEMA")?;
    let schema: RootSchema = serde_json::from_str(&fs::read_to_string(path)?)?;
    let number: SchemaObject = serde_json::from_str(r#"{"type": "number"}"#)?;
    let mut settings = TypeSpaceSettings::default();
    settings.with_derive("PartialEq".to_owned());
    // An f64, typify's own choice, makes 1024.0 of 1024.
    settings.with_conversion(number, "::serde_json::Number", [].into_iter());
    // Through an untagged enum, typify's own choice, serde reads no such number.
    for (name, each) in &schema.definitions {
        if matches!(each, Schema::Object(object) if object.subschemas.as_ref().is_some_and(|all| all.one_of.is_some())) {
            settings.with_replacement(name, format!("crate::{name}"), [].into_iter());
        }
    }
    let mut space = TypeSpace::new(&settings);
    space.add_root_schema(schema)?;
    println!("{}", prettyplease::unparse(&syn::parse2(space.to_stream())?));
    Ok(())
}
