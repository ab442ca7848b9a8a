//! What a group of NanoClaw v2 has stands where agents look for it here.
#![expect(
    clippy::disallowed_methods,
    reason = "a test changes a copy of an installation, and looks at what came of it"
)]

use std::{fs, os::unix::fs::symlink};

use serde_json::Value;

use super::samples::Sample;
use crate::support::Root;

#[test]
fn a_group_of_nanoclaw_v2_has_its_memory_and_its_skills_and_no_image_of_another_runner() {
    let (root, sample) = (Root::new(""), Sample::of("nanoclaw-v2"));
    let put = |inner: &str, text: &str| {
        let path = sample.path(inner);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    // One skill of all groups, which is a link in the group's own folder, and one that its agent wrote.
    let own = "data/v2-sessions/ag-home/.claude-shared/skills";
    put("container/skills/brew/SKILL.md", "how to brew\n");
    put(&format!("{own}/knead/SKILL.md"), "how to knead\n");
    symlink("/app/skills/brew", sample.path(&format!("{own}/brew"))).unwrap();
    sample.sql("data/v2.db", "UPDATE messaging_group_agents SET sender_scope = NULL WHERE id = 'mga-1'");

    let path = sample.dir.path().to_str().unwrap();
    let imported = root.json(&["import", "nanoclaw-v2", path]);
    let here = |inner: &str| fs::read_to_string(root.path().join(inner)).ok();
    assert_eq!(here("groups/home/CLAUDE.md").unwrap(), "# Home\n\nThe house has two lights.\n");
    assert_eq!(here("groups/home/CLAUDE.local.md"), None);
    assert_eq!(here("groups/home/container.json"), None);
    let skill = |name: &str| here(&format!("data/sessions/home/.claude/skills/{name}/SKILL.md"));
    assert_eq!(
        (skill("brew").unwrap(), skill("knead").unwrap()),
        ("how to brew\n".into(), "how to knead\n".into())
    );
    let groups = root.rows(&["groups", "list"]);
    let ops = groups.iter().find(|group| group["folder"] == "ops").unwrap();
    assert_eq!(ops["image"], Value::Null, "{ops}");
    let findings = imported["findings"]["kept"].to_string();
    assert!(
        findings.contains("ops-image:3") && findings.contains("a runner that is not understood"),
        "{findings}"
    );
    // A wiring that says nothing about strangers lets none in, as there.
    let wirings = root.rows(&["wirings", "list", "--group", "home"]);
    assert!(wirings.iter().any(|wiring| wiring["sender_scope"] == "known"), "{wirings:?}");

    // The agent has written into its memory since: a second import leaves that alone.
    fs::write(root.path().join("groups/home/CLAUDE.md"), "# Mine\n").unwrap();
    let again = root.json(&["import", "nanoclaw-v2", path]);
    assert_eq!(
        (&again["new"], &again["files"]["files"]),
        (&serde_json::json!({}), &Value::from(0)),
        "{again:#}"
    );
    assert_eq!(here("groups/home/CLAUDE.md").unwrap(), "# Mine\n");
}
