//! Gives the runner an id made of its sources: an image and a `g2` that were built from the same ones agree on it.
#![expect(clippy::disallowed_methods, reason = "a build script reads what is built, and what Cargo tells it")]

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

/// What the runner is made of, as seen from this crate. Dependencies do not count: whose versions differ does the same.
const SOURCES: [&str; 2] = ["src", "../../ipc-handlers/src"];

fn main() -> io::Result<()> {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    for folder in SOURCES {
        println!("cargo:rerun-if-changed={folder}");
        for path in files(Path::new(folder))? {
            hash.take(path.as_os_str().as_encoded_bytes());
            hash.take(&fs::read(&path)?);
        }
    }
    let version = env::var("CARGO_PKG_VERSION").map_err(io::Error::other)?;
    println!("cargo:rustc-env=G2_RUNNER={version}+{:016x}", hash.0);
    Ok(())
}

/// Every file below `folder`, in an order that is the same everywhere.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// FNV-1a: the same in every release of the compiler, unlike the standard library's hash. It tells versions apart and
/// proves nothing.
struct Fnv(u64);

impl Fnv {
    fn take(&mut self, bytes: &[u8]) {
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
