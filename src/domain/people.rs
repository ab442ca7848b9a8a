//! Who people are: their ids, and what they may decide.

/// The longest id of a user, bytes.
const LONGEST_ID: usize = 512;

/// What a person may do beside talking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    Owner,
    /// Decides who is heard, everywhere or in one group.
    Admin,
}

impl Role {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Admin => "admin",
        }
    }
}

/// What is wrong with a user's id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a user is CHANNEL:NAME, such as local:ada or tg:12345, of at most {LONGEST_ID} bytes")]
pub struct BadUser;

/// Checks an id that a person typed.
///
/// # Errors
/// [`BadUser`].
pub fn check_user(id: &str) -> Result<(), BadUser> {
    match id.split_once(':') {
        Some((channel, handle))
            if !channel.is_empty()
                && !handle.is_empty()
                && id.len() <= LONGEST_ID
                && !id.chars().any(char::is_control) =>
        {
            Ok(())
        }
        Some(_) | None => Err(BadUser),
    }
}

/// Returns a sender's id as users are named: with the prefix of the chat's own address, unless it has that one. A handle
/// with another channel's prefix is a handle: nobody is somebody of another channel by what they call themselves. Empty
/// where the channel does not say who it is.
#[must_use]
pub fn user_id(chat_jid: &str, sender: &str) -> String {
    // An address of WhatsApp's has no prefix.
    let channel = chat_jid.split_once(':').map_or("whatsapp", |(channel, _)| channel);
    match sender.split_once(':') {
        _ if sender.is_empty() => String::new(),
        Some((prefix, _)) if prefix == channel => sender.to_owned(),
        Some(_) | None => format!("{channel}:{sender}"),
    }
}

/// Returns the user whom a person at the command line names: a whole id, or a name of the `local` channel.
#[must_use]
pub fn user_by_hand(name: &str) -> String {
    if name.contains(':') { name.to_owned() } else { user_id("local:", name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_is_named_by_channel_and_handle() {
        let table = [
            ("local:main", "local:me", "local:me"),
            ("tg:-100", "42", "tg:42"),
            ("tg:-100", "tg:42", "tg:42"),
            ("teams:x", "29:abc", "teams:29:abc"),
            ("irc:x", "local:me", "irc:local:me"),
            ("local:x", "tg:42", "local:tg:42"),
            ("123@g.us", "local:me", "whatsapp:local:me"),
            ("123@g.us", "49:2@s.whatsapp.net", "whatsapp:49:2@s.whatsapp.net"),
            ("123@g.us", "whatsapp:49@s.whatsapp.net", "whatsapp:49@s.whatsapp.net"),
            ("123@g.us", "49@s.whatsapp.net", "whatsapp:49@s.whatsapp.net"),
            ("tg:-100", "", ""),
        ];
        for (chat, sender, id) in table {
            assert_eq!(user_id(chat, sender), id);
        }
    }

    #[test]
    fn a_person_at_the_command_line_names_anybody() {
        assert_eq!(["me", "local:me", "tg:42"].map(user_by_hand), ["local:me", "local:me", "tg:42"]);
    }

    #[test]
    fn a_user_has_a_channel_and_a_name() {
        for good in ["local:me", "tg:42", "local:Aunt Mary", "x:y:z"] {
            assert_eq!(check_user(good), Ok(()), "{good}");
        }
        for bad in ["", "me", ":me", "local:", "local:a\nb", &format!("l:{}", "x".repeat(LONGEST_ID))] {
            assert_eq!(check_user(bad), Err(BadUser), "{bad}");
        }
    }
}
