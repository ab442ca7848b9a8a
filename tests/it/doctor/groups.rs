//! Groups, their folders, boxes and wirings.

use super::*;

#[test]
fn a_root_without_a_main_group_is_told() {
    let root = Root::new("");
    root.change_store("UPDATE groups SET is_main = 0");
    finds(doctor(&root), "main_group", "fail", "no group is the main group", "groups add main");
}

#[test]
fn a_group_without_its_folder_is_told() {
    let root = Root::new("");
    let folder = root.path().join("groups/main");
    fs::remove_dir_all(&folder).unwrap();
    finds(doctor(&root), "group_folder", "warn", "is missing, the folder of group main", "mkdir");
    fs::write(&folder, "").unwrap();
    finds(doctor(&root), "group_folder", "fail", "is not a folder", "move it away");
}

#[test]
fn boxes_of_a_wrong_mode_owner_or_kind_are_told() {
    let root = Root::new("");
    assert_eq!(root.serve().terminate(), Some(0));
    let at = |name: &str| root.data("ipc/main").join(name);
    finds(doctor(&root), "boxes", "ok", "in order", "");
    chmod(&at("tasks"), 0o755);
    finds(doctor(&root), "boxes", "fail", "has mode 0755", "chmod 700");
    if is_root() {
        chown(at("messages"), Some(4321), Some(4321)).unwrap();
        finds(
            doctor(&root),
            "boxes",
            "fail",
            "belongs to user 4321, and its agent runs as 1000",
            "chown 1000:1000",
        );
    }
    fs::remove_dir(at("state")).or_else(|_| fs::remove_dir_all(at("state"))).unwrap();
    symlink("/etc", at("state")).unwrap();
    finds(doctor(&root), "boxes", "fail", "is a symbolic link where a folder belongs", "rm ");
}

#[test]
fn a_wrong_count_of_what_a_group_has_in_the_store_is_told() {
    let root = Root::new("");
    root.g2(&["tasks", "add", "--group", "main", "--every", "1h", "look"]);
    let told = |detail: &str| {
        finds(doctor(&root), "stored", if detail.is_empty() { "ok" } else { "warn" }, detail, "")
    };
    told("");
    for wrong in ["bytes = bytes + 1", "tasks = tasks + 1", "task_bytes = task_bytes + 1"] {
        root.change_store(&format!("UPDATE stored SET {wrong}"));
        told("is counted wrongly");
        root.change_store(&format!("UPDATE stored SET {}", wrong.replace("+ 1", "- 1")));
        told("");
    }
}

#[test]
fn a_group_that_is_wired_to_nothing_is_told() {
    let root = Root::new("");
    root.g2(&["wirings", "remove", "--group", "main", "--chat", "local:main"]);
    finds(doctor(&root), "wirings", "warn", "group main is wired to no chat", "wirings add --group main");
}

#[test]
fn a_pattern_that_can_not_be_used_is_told() {
    let root = Root::new("");
    root.store_pattern("(");
    finds(
        doctor(&root),
        "engage_pattern",
        "fail",
        "no JavaScript regular expression",
        "wirings set --group main",
    );
}

#[test]
fn a_chat_that_is_answered_twice_is_told() {
    let root = Root::new("");
    root.g2(&["groups", "add", "twin", "--chat", "local:main"]);
    finds(
        doctor(&root),
        "answers_twice",
        "warn",
        "main and twin engage on every message of local:main",
        "engage=mention",
    );
    root.g2(&["wirings", "set", "--group", "twin", "--chat", "local:main", "engage=mention"]);
    finds(doctor(&root), "answers_twice", "ok", "", "");
}
