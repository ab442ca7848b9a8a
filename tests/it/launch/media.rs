//! Files of messages, seen from inside a real container.

use std::fs;

use g2::{
    channels::Intake,
    domain::platforms::attachments::Attachment,
    domain::rows::Inbound,
    store::Store,
    system::{media::Media, world::World},
};

use super::inside::put_probe;
use crate::support::{Docked, run_docker, wait_for};

/// Has a message come into a chat with a file; returns its number.
fn comes(root: &Docked, chat: &str, says: &str) -> i64 {
    fs::write(root.path().join("in"), says).unwrap();
    let store = Store::open(&root.data("g2.sqlite")).unwrap();
    let media = Media::open(&root.data("")).unwrap();
    let intake = Intake::new(World::real(), store);
    let told = Attachment { name: "a.txt".into(), mime: "text/plain".into(), ..Attachment::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let place = (root.path().to_owned(), "in".to_owned());
        let (file, _hand) = intake.file(&media, chat, place, told).await.unwrap();
        let inbound = Inbound {
            chat_jid: chat.into(),
            replay_key: says.into(),
            sender: "local:me".into(),
            sender_name: "Me".into(),
            text: says.into(),
            attachments: vec![file],
            ..Inbound::default()
        };
        intake.message(inbound).await.unwrap().seq
    })
}

fn answered(root: &Docked, seq: i64) {
    wait_for("the answer", || {
        root.why(seq)["answers"].as_array().is_some_and(|all| !all.is_empty()).then_some(())
    });
}

#[test]
fn a_group_reads_its_own_files_writes_none_and_sees_no_others() {
    let Some(root) = Docked::new("") else { return };
    root.g2(&["groups", "add", "family", "--chat", "local:family"]);
    put_probe(&root, "family");
    let (first, others) =
        (comes(&root, "local:family", "for the family"), comes(&root, "local:main", "for main"));
    let _daemon = root.serve();
    answered(&root, first);
    answered(&root, others);
    let container = run_docker(&["ps", "--quiet", "--no-trunc", "--filter", "name=-family"]);
    let ids = root.containers();
    let family = container.lines().find(|id| ids.iter().any(|own| own == id)).unwrap().to_owned();
    let inside =
        |arguments: &[&str]| run_docker(&[&["exec", &family, "/workspace/group/probe"], arguments].concat());
    let seen = inside(&["look", "/workspace/media"]);
    assert!(seen.contains("-1-a.txt: for the family") && !seen.contains("for main"), "{seen}");
    // What comes later is there as well, in the same container.
    answered(&root, comes(&root, "local:family", "and later"));
    let seen = inside(&["look", "/workspace/media"]);
    assert!(seen.contains("for the family") && seen.contains("-1-a.txt: and later"), "{seen}");
    let file = seen.lines().find(|line| line.contains("and later")).unwrap().split(": ").next().unwrap();
    let folder = file.rsplit_once('/').unwrap().0;
    let written = inside(&["write", "/workspace/media/x", &format!("{folder}/x"), file]);
    assert_eq!(written.matches("refused").count(), 3, "{written}");
}
