//! Reactions to messages that agents have in hand.

use super::channels::Change;

/// At most this many are looked after at once; further messages have none.
pub const MOST: usize = 256;
/// How often it is tried to take one away.
pub const TRIES: u32 = 6;

/// A reaction of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sign {
    pub chat_jid: String,
    pub message_id: String,
    pub sign: String,
    /// What the platform calls it; `None`: it has no name for it, or none yet.
    pub sign_id: Option<String>,
}

impl Sign {
    /// Returns the message that is changed, and how, for the reaction to go: one that has a name is a message of its own.
    #[must_use]
    pub fn gone(&self) -> (&str, Change) {
        match &self.sign_id {
            Some(id) => (id, Change::Deleted),
            None => (&self.message_id, Change::Reaction(String::new())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reaction_with_a_name_is_deleted_and_one_without_is_taken_back() {
        let sign = |sign_id: Option<&str>| Sign {
            chat_jid: "mx:!r".into(),
            message_id: "$m".into(),
            sign: "👀".into(),
            sign_id: sign_id.map(Into::into),
        };
        assert_eq!(sign(Some("$r")).gone(), ("$r", Change::Deleted));
        assert_eq!(sign(None).gone(), ("$m", Change::Reaction(String::new())));
    }
}
