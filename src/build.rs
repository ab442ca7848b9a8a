//! How the programs are linked.
#![expect(
    clippy::disallowed_methods,
    reason = "Cargo tells build scripts by the environment what they build for"
)]

fn main() {
    println!("cargo:rerun-if-changed=src/build.rs");
    // A megabyte of relocations that is read at every start becomes a few pages. Where the linker or the C library is too
    // old for that (binutils 2.38, glibc 2.36), everything is as before.
    let target = std::env::var("TARGET").unwrap_or_default();
    if target.ends_with("-linux-gnu") {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        // `g2` can be the runner in an image that has another C library, or none: it finds its own there (domain/machine/elf.rs).
        println!("cargo:rustc-link-arg-bins=-Wl,-rpath,/usr/local/lib/g2");
    }
}
