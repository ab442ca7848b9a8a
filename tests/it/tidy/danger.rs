//! Features of libraries that switch a check off are in tests alone.
#![expect(clippy::disallowed_types, reason = "asks Cargo")]

use std::{fs, process::Command};

use super::top;

/// The workspace whose tests need such a feature.
const WHATSAPP: &str = "src/adapters/whatsapp/Cargo.toml";

#[test]
fn what_is_installed_has_no_feature_that_switches_a_check_off() {
    for manifest in ["Cargo.toml", WHATSAPP] {
        let text = fs::read_to_string(top().join(manifest)).unwrap();
        let table: toml::Table = toml::from_str(&text).unwrap();
        for (name, part) in table.iter().filter(|(name, _)| *name != "dev-dependencies") {
            assert!(!part.to_string().contains("danger"), "{manifest}: {name}");
        }
    }
    // What Cargo itself makes of it, for all that is beneath.
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--edges", "normal,build,features", "--prefix", "none", "--manifest-path"])
        .arg(top().join(WHATSAPP))
        .output()
        .unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8_lossy(&tree.stdout);
    assert!(tree.contains("wacore-noise") && !tree.contains("danger"), "{tree}");
}
