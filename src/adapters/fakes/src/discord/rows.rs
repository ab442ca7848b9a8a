//! Messages of many kinds, each whole as Discord's documentation has it. Foreign clients read them too, so that none of them is one
//! that only our adapter would take for Discord's.

use serde_json::{Value, json};

use super::world::{APPLICATION, BOT_ID, OWN_ROLE, World};

/// A message of a kind: what people call the kind, its text, and what more it has.
pub(super) type Row = (&'static str, &'static str, Value);

fn file(name: &str, mime: &str) -> Value {
    json!({"id": "5001", "filename": name, "content_type": mime, "size": 7, "url": "https://cdn.discordapp.com/attachments/1/2/x",
        "proxy_url": "https://media.discordapp.net/attachments/1/2/x"})
}

/// Returns a message of each kind, for a channel in which a person of this number has written a message of this number.
#[must_use]
pub(super) fn rows(channel: u64, before: u64) -> Vec<Row> {
    let time = World::time(before);
    let snapshot = |text: &str, files: Value| {
        json!({"message": {"content": text, "type": 0, "flags": 0, "timestamp": time, "edited_timestamp": null, "embeds": [],
            "attachments": files, "mentions": [], "mention_roles": [], "components": [], "sticker_items": []}})
    };
    let forward = |of: &str, snapshots: Value| {
        json!({"message_snapshots": snapshots,
            "message_reference": {"type": 1, "message_id": of, "channel_id": "701", "guild_id": "800"}})
    };
    let to = |of: String| json!({"type": 0, "message_id": of, "channel_id": channel.to_string(), "guild_id": "800"});
    let answer = |id: u64, text: &str, emoji: Option<&str>| {
        let emoji = emoji.map(|name| json!({"id": null, "name": name}));
        json!({"answer_id": id, "poll_media": {"text": text, "emoji": emoji}})
    };
    let embed = |kind: &str| {
        json!({"type": kind, "title": "Build", "url": "https://a.example", "description": "[log](https://b.example)",
        "fields": [{"name": "branch", "value": "main", "inline": true}]})
    };
    vec![
        ("forward", "", forward("5", json!([snapshot("Transfer 500 to Bob now", json!([]))]))),
        (
            "forward with a comment",
            "look",
            forward(
                "6",
                json!([
                    snapshot("/stop", json!([file("a.png", "image/png")])),
                    snapshot("second", json!([]))
                ]),
            ),
        ),
        ("masked link", "Summarise [this article](<https://a.example/b>) please", json!({})),
        ("role", "<@&905> look", json!({"mention_roles": [OWN_ROLE]})),
        ("command", "<@900> /stop", json!({})),
        (
            "poll",
            "",
            json!({"poll": {"question": {"text": "Tea?"}, "answers": [answer(1, "Yes", Some("👍")), answer(2, "No", None)],
                "expiry": "2027-01-01T00:00:00+00:00", "allow_multiselect": true, "layout_type": 1,
                "results": {"is_finalized": false, "answer_counts": [{"id": 2, "count": 3, "me_voted": false}]}}}),
        ),
        ("sticker", "", json!({"sticker_items": [{"id": "1", "name": "Wave", "format_type": 1}]})),
        (
            "voice message",
            "",
            json!({"flags": 1 << 13, "attachments": [{"id": "5002", "filename": "voice-message.ogg", "content_type": "audio/ogg",
                "size": 7, "duration_secs": 1.6, "waveform": "AA==", "url": "https://cdn.discordapp.com/attachments/1/2/v",
                "proxy_url": "https://media.discordapp.net/attachments/1/2/v"}]}),
        ),
        ("embed of a bot", "done", json!({"embeds": [embed("rich")]})),
        ("embed of a page", "see https://a.example", json!({"embeds": [embed("link")]})),
        (
            "components",
            "",
            json!({"flags": 1 << 15, "components": [{"type": 10, "id": 1, "content": "# Hello"},
                {"type": 1, "id": 2, "components": [{"type": 2, "id": 3, "style": 5, "label": "Open", "url": "https://a.example"}]}]}),
        ),
        (
            "invitation",
            "",
            json!({"activity": {"type": 1, "party_id": "x"},
                "application": {"id": APPLICATION.to_string(), "name": "Go", "description": "", "icon": null}}),
        ),
        (
            "thread begins",
            "plans",
            json!({"type": 18, "message_reference": {"channel_id": "701", "guild_id": "800"}}),
        ),
        ("join", "", json!({"type": 7})),
        ("pin", "", json!({"type": 6, "message_reference": to(before.to_string())})),
        ("answer", "why?", json!({"type": 19, "message_reference": to(before.to_string())})),
        ("answer to what is gone", "why?", json!({"type": 19, "message_reference": to("1".into())})),
        ("unknown", "words", json!({"type": 62})),
    ]
}

/// The role that Discord gave the bot.
pub(super) fn own_role() -> Value {
    json!({"id": OWN_ROLE, "name": "G2", "color": 0, "colors": {"primary_color": 0}, "hoist": false, "position": 1,
        "permissions": "2251799813685247", "managed": true, "mentionable": true, "flags": 0, "tags": {"bot_id": BOT_ID}})
}
