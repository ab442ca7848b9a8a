//! A new agent's name as a person types it, and the folder that follows from it.

use ipc_handlers::{Folder, seen::is_seen};

use crate::shown::screen::hides;

/// The longest name, characters.
const LONGEST: usize = 64;
/// The longest folder, bytes; room is left for a number.
const LONGEST_SLUG: usize = 56;
/// The folder of a name none of whose letters a folder can have.
const NO_LETTERS: &str = "agent";

/// Why a text is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    #[error("a name needs a letter")]
    NoLetter,
    #[error("a name has one line of at most {LONGEST} characters")]
    TooLong,
    #[error("{0:?} can't be told by eye: use plain spaces, and nothing that is not seen")]
    Unseen(String),
    #[error("{0:?} is a name that G2 keeps for itself")]
    Reserved(String),
    /// Two agents of one name could not be told apart where they are named.
    #[error(
        "an agent is called {name:?} already (its folder is {folder}); connect the chat to that one, or choose another name"
    )]
    Taken { name: String, folder: Folder },
}

/// What was asked for is not wanted any more.
#[must_use]
pub fn is_cancel(text: &str) -> bool {
    ["cancel", "/cancel"].contains(&text.trim().to_lowercase().as_str())
}

/// Returns the name, and its folder: its letters and digits, and `-2`, `-3` … where that is taken. `groups` are those that
/// there are, by folder and name.
///
/// # Errors
/// [`BadName`] with the mistake.
pub fn new_agent(text: &str, groups: &[(Folder, String)]) -> Result<(String, Folder), BadName> {
    let name = text.trim();
    if !name.chars().any(char::is_alphabetic) {
        return Err(BadName::NoLetter);
    }
    if name.chars().count() > LONGEST || name.chars().any(char::is_control) {
        return Err(BadName::TooLong);
    }
    check_free(name, groups)?;
    let taken = |slug: &str| groups.iter().any(|(folder, _)| folder.as_str().to_lowercase() == slug);
    let reserved = || BadName::Reserved(name.to_owned());
    let slug = slug(name);
    Folder::parse(&slug).map_err(|_| reserved())?;
    let numbered = (2_u32..).map(|n| format!("{slug}-{n}"));
    let free = std::iter::once(slug.clone()).chain(numbered).find(|folder| !taken(folder));
    let folder = free.and_then(|folder| Folder::parse(&folder).ok()).ok_or_else(reserved)?;
    Ok((name.to_owned(), folder))
}

/// Checks that a name can be told by eye, and that none of `groups`, by folder and name, is called so, however it is
/// written.
///
/// # Errors
/// [`BadName::Taken`], [`BadName::Unseen`].
pub fn check_free(name: &str, groups: &[(Folder, String)]) -> Result<(), BadName> {
    match groups.iter().find(|(_, other)| seen(other) == seen(name)) {
        Some((folder, taken)) => Err(BadName::Taken { name: taken.clone(), folder: folder.clone() }),
        None if !is_seen(name) => Err(BadName::Unseen(name.to_owned())),
        None => Ok(()),
    }
}

/// What tells a name from another one where people read it.
fn seen(name: &str) -> String {
    let shown: String =
        name.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).filter(|c| !hides(*c)).collect();
    shown.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn slug(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars().flat_map(char::to_lowercase) {
        match c {
            'a'..='z' | '0'..='9' => slug.push(c),
            'ä' | 'æ' => slug.push_str("ae"),
            'ö' | 'ø' => slug.push_str("oe"),
            'ü' => slug.push_str("ue"),
            'ß' => slug.push_str("ss"),
            _ if slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
    }
    let cut: String = slug.trim_matches('-').chars().take(LONGEST_SLUG).collect();
    let cut = cut.trim_end_matches('-');
    if cut.is_empty() { NO_LETTERS.to_owned() } else { cut.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(named: &[(&str, &str)]) -> Vec<(Folder, String)> {
        named.iter().map(|(folder, name)| (Folder::parse(folder).unwrap(), (*name).to_owned())).collect()
    }

    /// `taken`: folders of groups that are called otherwise.
    fn folder_of(name: &str, taken: &[&str]) -> Result<String, BadName> {
        let there: Vec<(&str, &str)> = taken.iter().map(|folder| (*folder, "Somebody")).collect();
        new_agent(name, &groups(&there)).map(|(_, folder)| folder.to_string())
    }

    #[test]
    fn a_name_that_an_agent_has_is_refused_however_it_is_written() {
        let there = groups(&[("chess", "Chess Club"), ("work", "Work")]);
        for twin in [
            "Chess Club",
            " chess club ",
            "CHESS  CLUB",
            "Chess\u{a0}Club",
            "Che\u{200b}ss Club",
            "Che\u{1d173}ss Club",
        ] {
            let taken = BadName::Taken { name: "Chess Club".into(), folder: Folder::parse("chess").unwrap() };
            assert_eq!(new_agent(twin, &there), Err(taken), "{twin:?}");
        }
        for (other, folder) in [("Chess", "chess-2"), ("Chess Club 2", "chess-club-2"), ("Work!", "work-2")] {
            assert_eq!(new_agent(other, &there).unwrap().1.as_str(), folder, "{other}");
        }
    }

    #[test]
    fn a_folder_is_made_of_what_a_name_says() {
        for (name, folder) in [
            ("Chess", "chess"),
            ("  Chess Club!  ", "chess-club"),
            ("Familie Müller", "familie-mueller"),
            ("--a--b--", "a-b"),
            ("../../etc", "etc"),
            ("7 dwarfs", "7-dwarfs"),
            ("家族", "agent"),
            ("Мама и папа", "agent"),
        ] {
            assert_eq!(folder_of(name, &[]).as_deref(), Ok(folder), "{name}");
        }
        assert_eq!(new_agent(" Chess Club! ", &[]).unwrap().0, "Chess Club!");
    }

    #[test]
    fn a_folder_that_is_taken_gets_a_number() {
        assert_eq!(folder_of("Chess", &["chess"]).as_deref(), Ok("chess-2"));
        assert_eq!(folder_of("Chess", &["chess", "chess-2", "chess-3"]).as_deref(), Ok("chess-4"));
        assert_eq!(folder_of("chess 2", &["chess-2"]).as_deref(), Ok("chess-2-2"));
        let long = "x".repeat(64);
        let (short, second) = ("x".repeat(LONGEST_SLUG), format!("{}-2", "x".repeat(LONGEST_SLUG)));
        assert_eq!(folder_of(&long, &[&short]), Ok(second));
    }

    #[test]
    fn what_is_no_name_is_refused_with_the_reason() {
        for (text, why) in [
            ("", BadName::NoLetter),
            (" \n", BadName::NoLetter),
            ("1", BadName::NoLetter),
            ("!?", BadName::NoLetter),
            ("a\nb", BadName::TooLong),
            ("\u{3164}", BadName::Unseen("\u{3164}".into())),
            ("\u{e0041}Chess", BadName::Unseen("\u{e0041}Chess".into())),
            (&"x".repeat(65), BadName::TooLong),
            ("Global", BadName::Reserved("Global".into())),
            ("errors", BadName::Reserved("errors".into())),
        ] {
            assert_eq!(folder_of(text, &[]), Err(why), "{text:?}");
        }
        assert!(is_cancel(" Cancel") && !is_cancel("cancel it"));
    }
}
