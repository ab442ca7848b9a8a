//! Programs of `tests/fixtures/` that run inside containers: linked statically, in an image that holds nothing else.

use std::{
    env, fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
};

#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum Linkage {
    Static,
    Dynamic,
}

/// Builds the program whose main file is `tests/fixtures/<source>` when it has changed, and returns it. What else it
/// consists of lies in a folder of its own, beside its `main.rs`.
pub(crate) fn program(source: &str, linkage: Linkage) -> PathBuf {
    static BUILDING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = BUILDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let main = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(source);
    let mut hasher = DefaultHasher::new();
    linkage.hash(&mut hasher);
    let mut parts = vec![main.clone()];
    if main.ends_with("main.rs") {
        parts = fs::read_dir(main.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()).collect();
        parts.sort();
    }
    parts.iter().for_each(|part| fs::read(part).unwrap().hash(&mut hasher));
    let name = source.trim_end_matches("/main.rs").trim_end_matches(".rs").replace('_', "-");
    // …/target/debug/deps/it-…
    let target = env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned();
    let dir = target.join(&name).join(format!("{:016x}", hasher.finish()));
    let program = dir.join(&name);
    if !program.exists() {
        fs::create_dir_all(&dir).unwrap();
        let beside_cargo = Path::new(env!("CARGO")).with_file_name("rustc");
        let rustc = if beside_cargo.exists() { beside_cargo } else { "rustc".into() };
        // Another test binary may be at it: each builds its own, the last one stays.
        let draft = dir.join(format!("draft-{}", std::process::id()));
        let mut command = Command::new(rustc);
        command.args(["--edition", "2024", "-O", "-C", "strip=symbols"]);
        match linkage {
            Linkage::Static => command.args(["-C", "target-feature=+crt-static"]),
            Linkage::Dynamic => &mut command,
        };
        assert!(command.arg(main).arg("-o").arg(&draft).status().unwrap().success());
        fs::rename(draft, &program).unwrap();
    }
    program
}

/// The folder that a program was built in is named after what it was built from.
pub(crate) fn tag(program: &Path) -> String {
    program.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned()
}

/// A tar archive of one program.
pub(crate) fn archive(program: &Path) -> Vec<u8> {
    let bytes = fs::read(program).unwrap();
    let mut header = [0_u8; 512];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, &program.file_name().unwrap().to_string_lossy());
    put(100, "0000755");
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{:011o}", bytes.len()));
    put(136, "00000000000");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let padding = vec![0; (512 - bytes.len() % 512) % 512 + 1024];
    [&header, bytes.as_slice(), &padding].concat()
}
