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

/// Returns a sender's id as users are named: with the prefix of the chat's own address, unless it has one. Empty where
/// the channel does not say who it is.
#[must_use]
pub fn user_id(chat_jid: &str, sender: &str) -> String {
    match (sender, chat_jid.split_once(':')) {
        ("", _) => String::new(),
        (known, _) if known.contains(':') => known.to_owned(),
        (handle, Some((channel, _))) => format!("{channel}:{handle}"),
        // An address of WhatsApp's is the user's own.
        (handle, None) => format!("whatsapp:{handle}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_is_named_by_channel_and_handle() {
        let table = [
            ("local:main", "local:me", "local:me"),
            ("tg:-100", "42", "tg:42"),
            ("teams:x", "29:abc", "29:abc"),
            ("123@g.us", "49@s.whatsapp.net", "whatsapp:49@s.whatsapp.net"),
            ("tg:-100", "", ""),
        ];
        for (chat, sender, id) in table {
            assert_eq!(user_id(chat, sender), id);
        }
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
