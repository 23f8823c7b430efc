//! Builds the shim as a small static program and puts it where the agent embeds it.
//!
//! It runs a nested cargo with its own target directory. The shim needs other flags than the agent (size, static
//! linking, abort on panic), and one `borough` file must contain both.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let shim = root.join("../shim");
    for path in ["src", "Cargo.toml"] {
        println!("cargo:rerun-if-changed={}", shim.join(path).display());
    }
    println!("cargo:rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let target = env::var("TARGET")?;
    let fixed = "-C target-feature=+crt-static -C relocation-model=static";
    let built = match shim_build(&shim, &out, &target, fixed) {
        Ok(path) => path,
        Err(error) => {
            println!(
                "cargo:warning=the shim cannot be linked statically ({error}); it is linked dynamically"
            );
            shim_build(&shim, &out, &target, "")?
        }
    };
    let bytes = fs::read(&built)?;
    fs::write(out.join("borough-shim.bin"), &bytes)?;
    println!("cargo:rustc-env=BOROUGH_SHIM_HASH={:016x}", fnv(&bytes));
    Ok(())
}

/// Builds the shim with `flags` and returns the path of the program.
fn shim_build(shim: &Path, out: &Path, target: &str, flags: &str) -> Result<PathBuf, Box<dyn Error>> {
    let directory = out.join("shim");
    let mut cargo = Command::new(env::var_os("CARGO").ok_or("CARGO is not set")?);
    // Variables of the outer cargo must not leak into this build, above all clippy's wrapper.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let cargo_state = text.starts_with("CARGO_")
            && !["CARGO_HOME", "CARGO_MAKEFLAGS", "CARGO_NET_OFFLINE"].contains(&text.as_ref())
            && !text.starts_with("CARGO_HTTP")
            && !text.starts_with("CARGO_REGISTR");
        let rust_state = text.starts_with("RUSTC") || text.starts_with("CLIPPY") || text == "RUSTFLAGS";
        if cargo_state || rust_state {
            cargo.env_remove(&name);
        }
    }
    let status = cargo
        .current_dir(shim)
        .args(["build", "--quiet", "--locked", "--release", "--bin", "borough-shim", "--target", target])
        .arg("--target-dir")
        .arg(&directory)
        .env("RUSTFLAGS", flags)
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "z")
        .env("CARGO_PROFILE_RELEASE_LTO", "fat")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
        .status()?;
    if !status.success() {
        return Err(format!("cargo build of the shim: {status}").into());
    }
    Ok(directory.join(target).join("release").join("borough-shim"))
}

/// FNV-1a, 64 bits: names the embedded program, so that a new version never overwrites a running one.
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
