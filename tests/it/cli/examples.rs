//! The examples of the help texts can be pasted.

use std::process::{Command, Output};

use super::*;

/// Examples that only a person or a signal ends.
const ENDLESS: [&str; 6] = ["g2 up", "g2 serve", "g2 chat", "g2 ipc watch", "g2 events --follow", "g2 top"];
/// An example after which no other could be tried.
const LAST: &str = "g2 stop";

/// Examples that act on this machine's services and images, or ask a person.
const OF_THE_MACHINE: [&str; 7] =
    ["g2 service ", "g2 image ", "g2 setup", "g2 doctor --fix", "g2 start", "g2 restart", "g2 logs"];

/// Examples about things that are not there in a small root, or about this machine: each is understood, and may fail.
const MAY_FAIL: [&str; 29] = [
    "g2 approvals ",
    "g2 backup --now",
    "g2 channels ",
    "g2 chats refresh ",
    "g2 doctor",
    "g2 groups back ",
    "g2 groups edit ",
    "g2 groups history --global --show ",
    "g2 groups renew ",
    "g2 groups restore ",
    "g2 groups set main mcp=@",
    "g2 import ",
    "g2 ipc drop main/",
    "g2 loops release deliver local:",
    "g2 messages skip ",
    "g2 notices note ",
    "g2 notices try",
    "g2 outbox drop ",
    "g2 outbox retry ",
    "g2 restored ",
    "g2 runs attach ",
    "g2 runs stop ",
    "g2 send --file ",
    "g2 status",
    "g2 users claim",
    "g2 sessions adopt ",
    "g2 sessions remove ",
    "g2 sessions show ",
    "g2 web ",
];

/// The lines below `Examples:` of a help text.
fn examples(help: &str) -> Vec<&str> {
    let list = help.split_once("\nExamples:\n").map_or("", |(_, list)| list);
    list.lines().take_while(|line| line.starts_with("  ")).map(str::trim).collect()
}

fn is_endless(command: &str) -> bool {
    ENDLESS.iter().any(|endless| command == *endless || command.starts_with(&format!("{endless} ")))
}

fn bash(root: &Root, script: &str) -> Output {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_g2")).parent().unwrap();
    let mut bash = Command::new("bash");
    bash.args(["-c", script]).current_dir(root.path()).env_clear();
    bash.env("PATH", format!("{}:/usr/bin:/bin", program.display())).env("TZ", "UTC");
    bash.env("HOME", root.path()).env("G2_ROOT", root.path()).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn the_examples_of_every_help_text_can_be_pasted() {
    let root = lived_in();
    let _daemon = root.serve();
    let mut tried = 0;
    for (command, help) in super::texts::helps() {
        for example in examples(help) {
            assert!(example.contains(command.as_str()) || command == "g2", "{command}: {example}");
            if example.split(" | ").any(is_endless) || example.starts_with(LAST) {
                continue;
            }
            if OF_THE_MACHINE.iter().any(|start| example.starts_with(start)) && !example.contains("--print") {
                continue;
            }
            tried += 1;
            let output = bash(&root, example);
            let most =
                if example.split(" | ").any(|part| MAY_FAIL.iter().any(|start| part.starts_with(start))) {
                    1
                } else {
                    0
                };
            assert!(output.status.code().is_some_and(|code| code <= most), "{example}: {output:?}");
        }
    }
    assert!(tried > 40, "only {tried} examples were tried");
}
