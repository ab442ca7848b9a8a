//! The adapter of WhatsApp is in a workspace of its own, with tests of its own; they are run here, so that one command runs all.
#![expect(clippy::disallowed_types, reason = "a test runs Cargo")]

use std::{path::Path, process::Command, sync::PoisonError};

use crate::support::WHATSAPPS_PROGRAM;

#[test]
fn the_adapter_of_whatsapp_passes_its_own_tests() {
    let target = Path::new(env!("CARGO_BIN_EXE_g2")).ancestors().nth(2).unwrap();
    let _place = WHATSAPPS_PROGRAM.lock().unwrap_or_else(PoisonError::into_inner);
    let tests = Command::new(env!("CARGO"))
        .args(["test", "--locked", "--quiet", "--manifest-path"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/adapters/whatsapp/Cargo.toml"))
        .env("CARGO_TARGET_DIR", target.join("whatsapp"))
        .env("G2_PEERS", target.join("peers"))
        .env("RUST_TEST_THREADS", "2")
        .output()
        .unwrap();
    let said = [tests.stdout, tests.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(tests.status.success(), "{}\n{}", said[0], said[1]);
    if said[1].contains("skipped:") || said[0].contains("skipped:") {
        eprintln!("skipped: no Baileys");
    }
}
