//! Compiles `borough/v1/*.proto` without a system `protoc`: protox parses, prost and tonic generate.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message as _;

fn main() -> Result<(), Box<dyn Error>> {
    let names = ["agent", "cell", "common", "job", "name", "node", "task", "watch"];
    let files: Vec<String> = names.iter().map(|name| format!("borough/v1/{name}.proto")).collect();
    println!("cargo:rerun-if-changed=borough");
    let descriptors = protox::compile(&files, ["."])?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    fs::write(out.join("borough.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().bytes(".").btree_map(".").compile_fds(descriptors)?;
    Ok(())
}
