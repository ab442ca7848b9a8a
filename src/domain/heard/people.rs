//! Who people are: their ids, and what they may decide.

use ipc_handlers::words;

use crate::{platforms::addresses::user_id, shown::screen::hides};

/// The longest id of a user, bytes.
const LONGEST_ID: usize = 512;

words! {
    /// What a person may do beside talking.
    #[derive(schemars::JsonSchema)]
    pub enum Role: "role" {
        /// Everything.
        Owner = "owner",
        /// Decides which senders are heard, everywhere or in one group.
        Admin = "admin",
    }
}

/// The person at this machine, as the `local` channel names them.
const US: &str = "me";

/// A fault of a user's id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a user is CHANNEL:NAME, such as local:ada or tg:12345, of at most {LONGEST_ID} bytes, with plain spaces between words and no \
     others"
)]
pub struct BadUser;

/// Why nobody can speak under a name on the `local` channel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSpeaker {
    #[error("{0:?} looks like another name: use plain spaces between words, and nothing that is not seen")]
    Unseen(String),
    #[error(
        "{0:?} reads like the owner of this machine; it is {US:?} for the owner, and another name for others"
    )]
    LikeUs(String),
    #[error("{0:?} is a name with its channel; leave `local:` out")]
    WithChannel(String),
}

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
                && is_seen(handle)
                && !channel.chars().any(|c| c == ' ' || hides(c)) =>
        {
            Ok(())
        }
        Some(_) | None => Err(BadUser),
    }
}

/// Checks the name under which somebody speaks on the `local` channel, so that nobody is taken for somebody else by how
/// theirs looks. An empty name says nobody.
///
/// # Errors
/// [`BadSpeaker`]; nothing is mended, as what came with the name may be meant for anybody.
pub fn check_speaker(name: &str) -> Result<(), BadSpeaker> {
    let bare: String =
        name.chars().filter(|c| *c != ' ' && !hides(*c)).flat_map(char::to_lowercase).collect();
    let bare_of_channel = bare.strip_prefix("local:");
    if name != US && bare_of_channel.unwrap_or(&bare) == US {
        return Err(BadSpeaker::LikeUs(name.to_owned()));
    }
    if !name.is_empty() && !is_seen(name) {
        return Err(BadSpeaker::Unseen(name.to_owned()));
    }
    if bare_of_channel.is_some() {
        return Err(BadSpeaker::WithChannel(name.to_owned()));
    }
    Ok(())
}

/// Whether all of a name is seen where it is shown: two names that differ look different.
fn is_seen(name: &str) -> bool {
    !name.chars().any(hides) && name.trim() == name && !name.contains("  ")
}

/// Returns the user whom a person at the command line names: a whole id, or a name of the `local` channel.
#[must_use]
pub fn user_by_hand(name: &str) -> String {
    if name.contains(':') { name.to_owned() } else { user_id("local", name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_at_the_command_line_names_anybody() {
        assert_eq!(["me", "local:me", "tg:42"].map(user_by_hand), ["local:me", "local:me", "tg:42"]);
    }

    #[test]
    fn a_user_has_a_channel_and_a_name() {
        for good in ["local:me", "tg:42", "local:Aunt Mary", "x:y:z", "local:Zoë 日本 שלום"] {
            assert_eq!(check_user(good), Ok(()), "{good}");
        }
        for bad in ["", "me", ":me", "local:", "local:a\nb", &format!("l:{}", "x".repeat(LONGEST_ID))] {
            assert_eq!(check_user(bad), Err(BadUser), "{bad}");
        }
        for unseen in
            ["me ", " me", "m  e", "me\u{a0}", "m\u{200b}e", "me\u{3164}", "me\u{202e}", "me\u{2800}"]
        {
            assert_eq!(check_user(&format!("local:{unseen}")), Err(BadUser), "{unseen:?}");
        }
        assert_eq!(check_user("lo cal:me"), Err(BadUser));
    }

    #[test]
    fn nobody_speaks_under_a_name_that_looks_like_another_one() {
        for good in
            ["me", "", "bob", "Aunt Mary", "Zoë", "tg:42", "someone", "me too", "<b>\"new\"</b>", "m.e"]
        {
            assert_eq!(check_speaker(good), Ok(()), "{good:?}");
        }
        for like_us in [
            "me ",
            " me",
            "ME",
            "Me",
            "m e",
            "me\u{a0}",
            "me\u{2003}",
            "me\u{3000}",
            "me\u{85}",
            "me\n",
            "\u{feff}me",
            "m\u{200b}e",
            "me\u{3164}",
            "me\u{fe0f}",
            "me\u{34f}",
            "me\u{1d173}",
            "m\u{e0fff}e",
            "local:me",
            "LOCAL: me",
        ] {
            assert!(matches!(check_speaker(like_us), Err(BadSpeaker::LikeUs(_))), "{like_us:?}");
        }
        for unseen in [
            "bob ",
            " bob",
            "Aunt  Mary",
            "Aunt\u{a0}Mary",
            "a\nb",
            "bob\u{202e}",
            "bob\u{1bca0}",
            " ",
            "\u{2800}",
            "\0",
        ] {
            assert!(matches!(check_speaker(unseen), Err(BadSpeaker::Unseen(_))), "{unseen:?}");
        }
        assert!(matches!(check_speaker("local:bob"), Err(BadSpeaker::WithChannel(_))));
    }
}
