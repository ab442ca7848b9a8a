//! Conversations that moved in go on with the real Claude Code.

use serde_json::json;

use super::house::{House, conversation};
use crate::moving::samples::Sample;

/// A transcript of NanoClaw v1 stands in the folder of the working folder that it still has; one of v2 moves to another.
#[test]
fn a_conversation_of_either_nanoclaw_goes_on_where_it_stopped() {
    for (name, chat, prepare, store, words) in [
        (
            "nanoclaw",
            "local:family",
            "PRAGMA foreign_keys = OFF; INSERT INTO chats (jid, name) VALUES ('local:family', 'Family');
             UPDATE registered_groups SET jid = 'local:family', requires_trigger = 0 WHERE folder = 'family'",
            "store/messages.db",
            ["remind us on Saturday", "I shall remind you on Saturday at 10."],
        ),
        (
            "nanoclaw-v2",
            "local:local",
            "UPDATE sessions SET messaging_group_id = 'mg-cli' WHERE agent_group_id = 'ag-home' AND messaging_group_id = 'mg-dm'",
            "data/v2.db",
            ["turn the light on", "It is on."],
        ),
    ] {
        let Some(house) = House::new("", &json!(["as before"])) else { return };
        let sample = Sample::of(name);
        sample.sql(store, prepare);
        let parts = "groups,people,messages,sessions,files";
        let path = sample.dir.path().to_str().unwrap();
        house.g2(&["import", sample.program.as_str(), path, "--only", parts]);
        let daemon = house.serve();
        assert_eq!(house.ask(chat, "and now?"), "as before\n", "{name}");
        let told = conversation(house.model.asked().last().unwrap());
        for word in words {
            assert!(told.contains(word), "{name}: {word}: {told}");
        }
        assert_eq!(daemon.terminate(), Some(0));
    }
}
