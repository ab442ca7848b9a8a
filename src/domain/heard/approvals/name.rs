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
    /// Who types the name of an agent that there is, mostly means that one.
    #[error("{}; connect the chat to that one, or choose another name", taken(name, folders))]
    Taken { name: String, folders: Vec<Folder> },
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
    let twins = called(name, groups);
    if let [first, ..] = twins.as_slice() {
        let folders = twins.iter().map(|(folder, _)| folder.clone()).collect();
        return Err(BadName::Taken { name: first.1.clone(), folders });
    }
    check_seen(name)?;
    let taken = |slug: &str| groups.iter().any(|(folder, _)| folder.as_str().to_lowercase() == slug);
    let reserved = || BadName::Reserved(name.to_owned());
    let slug = slug(name);
    Folder::parse(&slug).map_err(|_| reserved())?;
    let numbered = (2_u32..).map(|n| format!("{slug}-{n}"));
    let free = std::iter::once(slug.clone()).chain(numbered).find(|folder| !taken(folder));
    let folder = free.and_then(|folder| Folder::parse(&folder).ok()).ok_or_else(reserved)?;
    Ok((name.to_owned(), folder))
}

/// Checks that a name can be told by eye.
///
/// # Errors
/// [`BadName::Unseen`].
pub fn check_seen(name: &str) -> Result<(), BadName> {
    if is_seen(name) { Ok(()) } else { Err(BadName::Unseen(name.to_owned())) }
}

/// Returns those of `groups`, by folder and name, that are called so, however it is written.
#[must_use]
pub fn called<'g>(name: &str, groups: &'g [(Folder, String)]) -> Vec<&'g (Folder, String)> {
    groups.iter().filter(|(_, other)| seen(other) == seen(name)).collect()
}

/// Says who is called so.
fn taken(name: &str, folders: &[Folder]) -> String {
    let names: Vec<&str> = folders.iter().map(Folder::as_str).collect();
    match names.as_slice() {
        [one] => format!("an agent is called {name:?} already (its folder is {one})"),
        several => {
            let (count, all) = (several.len(), several.join(" and "));
            format!("{count} agents are called {name:?} already (their folders are {all})")
        }
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
            let folders = vec![Folder::parse("chess").unwrap()];
            let taken = BadName::Taken { name: "Chess Club".into(), folders };
            assert_eq!(new_agent(twin, &there), Err(taken), "{twin:?}");
            assert_eq!(called(twin, &there).len(), 1, "{twin:?}");
        }
        let two = groups(&[("telegram_family", "Family"), ("whatsapp_family", "family"), ("work", "Work")]);
        let said = new_agent("Family", &two).unwrap_err().to_string();
        assert!(
            said.contains("2 agents are called") && said.contains("telegram_family and whatsapp_family"),
            "{said}"
        );
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
