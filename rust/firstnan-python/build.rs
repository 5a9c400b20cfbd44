//! Tells the crate what Python it is built for, and copies `schemas/` to `OUT_DIR/schemas`, from where maturin puts it
//! into the wheel below the package.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    pyo3_build_config::use_pyo3_cfgs();
    let source = Path::new(&env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../schemas");
    let target = Path::new(&env::var_os("OUT_DIR").unwrap_or_default()).join("schemas");
    println!("cargo::rerun-if-changed={}", source.display());
    if target.exists() {
        fs::remove_dir_all(&target)?;
    }
    copy(&source, &target)
}

fn copy(source: &Path, target: &Path) -> io::Result<()> {
    fs::create_dir_all(target)?;
    for entry in fs::read_dir(source)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            // Vectors and released bundles are published with the repository; the package carries the contract only.
            if name != "vectors" && name != "released" {
                copy(&path, &target.join(name))?;
            }
        } else if path.extension().is_some_and(|extension| extension == "json") {
            fs::copy(&path, target.join(name))?;
        }
    }
    Ok(())
}
