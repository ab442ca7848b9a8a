//! What a chat is: what its channel says of it, or else what its address shows.

use ipc_handlers::words;

words! {
    /// What kind of place a chat is.
    #[derive(schemars::JsonSchema)]
    pub enum Kind: "chat kind" {
        /// One person and the agent.
        Direct = "direct",
        Group = "group",
    }
}

impl Kind {
    /// Returns the kind that an address shows; where it shows none, that of a chat in which more is kept from the agent.
    #[must_use]
    pub fn of_address(jid: &str) -> Self {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        match jid.split_once(':') {
            Some(("local", _)) => Self::Direct,
            Some(("tg", id)) if digits(id) => Self::Direct,
            None if jid.ends_with("@s.whatsapp.net") => Self::Direct,
            Some(_) | None => Self::Group,
        }
    }
}

/// What a channel knows of the chat of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatInfo {
    /// Empty: it does not say.
    pub name: String,
    pub kind: Kind,
    /// Whether the platform divides the chat into threads.
    pub threaded: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_shows_whether_somebody_is_alone_with_the_agent() {
        for (jid, kind) in [
            ("local:main", Kind::Direct),
            ("tg:-1001234", Kind::Group),
            ("tg:1234", Kind::Direct),
            ("tg:", Kind::Group),
            ("tg:12x", Kind::Group),
            ("49170@s.whatsapp.net", Kind::Direct),
            ("1203@g.us", Kind::Group),
            ("dc:123", Kind::Group),
            ("x", Kind::Group),
        ] {
            assert_eq!(Kind::of_address(jid), kind, "{jid}");
        }
    }
}
