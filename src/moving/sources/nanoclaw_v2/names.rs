//! How NanoClaw v2 names chats, threads and people, and how they are named here.

use crate::{domain::platforms::addresses::Platform, moving::addresses::known};

/// The prefix of a platform's addresses here; empty: they have none.
fn prefix(channel: &str) -> String {
    match channel {
        "cli" => "local".to_owned(),
        "whatsapp" => String::new(),
        other => known().named(other).map_or(other, Platform::prefix).to_owned(),
    }
}

/// Returns the address of a chat: `telegram:-100…` is `tg:-100…`, `discord:GUILD:CHANNEL` is `dc:CHANNEL`.
pub(super) fn jid(channel: &str, platform_id: &str) -> String {
    let own =
        platform_id.strip_prefix(channel).and_then(|rest| rest.strip_prefix(':')).unwrap_or(platform_id);
    let own = match channel {
        "discord" => own.rsplit(':').next().unwrap_or(own),
        _ => own,
    };
    match prefix(channel).as_str() {
        "" => own.to_owned(),
        prefix => format!("{prefix}:{own}"),
    }
}

/// Returns the thread of a chat: the last part of its name, where that begins with the name of its chat.
pub(super) fn thread(channel: &str, platform_id: Option<&str>, thread: Option<&str>) -> String {
    let Some(thread) = thread.filter(|thread| !thread.is_empty() && Some(*thread) != platform_id) else {
        return String::new();
    };
    let is_of_chat =
        thread.starts_with(&format!("{channel}:")) || platform_id.is_some_and(|id| thread.starts_with(id));
    match thread.rsplit_once(':') {
        Some((_, last)) if is_of_chat || channel == "discord" => last.to_owned(),
        Some(_) | None => thread.to_owned(),
    }
}

/// Returns the id of a person: `telegram:42` is `tg:42`, `cli:local` is the user of this machine.
pub(super) fn user(id: &str) -> String {
    match id.split_once(':') {
        Some(("cli", _)) => "local:me".to_owned(),
        Some(("whatsapp", _)) | None => id.to_owned(),
        Some((channel, handle)) => match prefix(channel).as_str() {
            "" => id.to_owned(),
            prefix => format!("{prefix}:{handle}"),
        },
    }
}

/// Whether the chats of a platform have threads there.
pub(super) fn has_threads(channel: &str) -> bool {
    matches!(channel, "discord" | "slack" | "teams" | "gchat" | "github" | "linear")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chats_threads_and_people_are_named_as_the_channels_here_name_them() {
        for (channel, id, expected) in [
            ("telegram", "telegram:-1005550001", "tg:-1005550001"),
            ("telegram", "42", "tg:42"),
            ("discord", "discord:8800:8801", "dc:8801"),
            ("whatsapp", "120363042222222222@g.us", "120363042222222222@g.us"),
            ("matrix", "matrix:!room:example.org", "mx:!room:example.org"),
            ("slack", "slack:C0NEW", "slack:C0NEW"),
            ("cli", "local", "local:local"),
            ("signal", "+15551234567", "signal:+15551234567"),
        ] {
            assert_eq!(jid(channel, id), expected, "{id}");
        }
        assert_eq!(thread("discord", Some("discord:8800:8801"), Some("discord:8800:8801:9901")), "9901");
        assert_eq!(thread("discord", Some("discord:8800:8801"), Some("8801:9901")), "9901");
        assert_eq!(thread("slack", Some("slack:C1"), Some("slack:C1:171.002")), "171.002");
        assert_eq!(thread("telegram", Some("telegram:1"), Some("telegram:1")), "");
        assert_eq!(thread("telegram", Some("telegram:1"), None), "");
        for (id, expected) in [
            ("telegram:42", "tg:42"),
            ("discord:555", "dc:555"),
            ("whatsapp:49170@s.whatsapp.net", "whatsapp:49170@s.whatsapp.net"),
            ("cli:local", "local:me"),
            ("phone:+155", "phone:+155"),
        ] {
            assert_eq!(user(id), expected);
        }
    }
}
