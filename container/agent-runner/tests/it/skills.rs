//! The skills in `container/skills/`: what the CLI needs of them, and that what they teach is so.

use std::{fs, path::Path, process::Command, thread};

use serde_json::json;

use crate::fixture::Home;

/// Returns each skill's folder and text.
fn skills() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../skills");
    let mut skills: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path.join("SKILL.md")).unwrap())
        })
        .collect();
    skills.sort();
    skills
}

#[test]
fn each_skill_says_its_name_and_when_to_use_it_and_runs_nothing_when_read() {
    let skills = skills();
    assert!(skills.len() >= 3);
    for (name, text) in skills {
        let head = text.strip_prefix("---\n").and_then(|text| text.split_once("\n---\n")).unwrap().0;
        let lines: Vec<_> = head.lines().map(|line| line.split_once(": ").unwrap()).collect();
        assert_eq!(lines[0], ("name", name.as_str()));
        let ("description", description) = lines[1] else { panic!("{name}: {:?}", lines[1]) };
        // YAML would read a colon as a key.
        assert!((50..400).contains(&description.len()) && !description.contains(": "), "{name}");
        assert_eq!(lines.len(), 2, "{name}");
        assert!(!text.contains("!`"), "{name} runs a command when it is read");
        assert!(text.lines().count() < 100, "{name} is long");
    }
}

#[test]
fn asking_by_hand_works_as_the_skill_says() {
    let (_, text) = skills().into_iter().find(|(name, _)| name == "mailbox").unwrap();
    let recipe = text.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let home = Home::new();
    let recipe = recipe.replace("/workspace/ipc", home.path("ipc").to_str().unwrap());
    thread::scope(|threads| {
        let ran = threads.spawn(|| Command::new("bash").args(["-c", &recipe]).output().unwrap());
        let command = home.command("ipc/tasks");
        let envelope = ipc_handlers::parse(command.to_string().as_bytes()).unwrap();
        assert_eq!(envelope.command.type_name(), "list_tasks");
        home.put("ipc/responses/list-1.json", json!({"ok": true}).to_string());
        let output = ran.join().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "{\"ok\":true}");
    });
}
