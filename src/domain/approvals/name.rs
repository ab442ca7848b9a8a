//! A new agent's name as a person types it, and the folder that follows from it.

use ipc_handlers::Folder;

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
    #[error("{0:?} is a name that G2 keeps for itself")]
    Reserved(String),
}

/// What was asked for is not wanted any more.
#[must_use]
pub fn is_cancel(text: &str) -> bool {
    ["cancel", "/cancel"].contains(&text.trim().to_lowercase().as_str())
}

/// Returns the name, and its folder: its letters and digits, and `-2`, `-3` … where that is taken.
///
/// # Errors
/// [`BadName`], with what is wrong.
pub fn new_agent(text: &str, taken: impl Fn(&str) -> bool) -> Result<(String, Folder), BadName> {
    let name = text.trim();
    if !name.chars().any(char::is_alphabetic) {
        return Err(BadName::NoLetter);
    }
    if name.chars().count() > LONGEST || name.chars().any(char::is_control) {
        return Err(BadName::TooLong);
    }
    let reserved = || BadName::Reserved(name.to_owned());
    let slug = slug(name);
    Folder::parse(&slug).map_err(|_| reserved())?;
    let numbered = (2_u32..).map(|n| format!("{slug}-{n}"));
    let free = std::iter::once(slug.clone()).chain(numbered).find(|folder| !taken(folder));
    let folder = free.and_then(|folder| Folder::parse(&folder).ok()).ok_or_else(reserved)?;
    Ok((name.to_owned(), folder))
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

    fn folder_of(name: &str, taken: &[&str]) -> Result<String, BadName> {
        new_agent(name, |folder| taken.contains(&folder)).map(|(_, folder)| folder.to_string())
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
        assert_eq!(new_agent(" Chess Club! ", |_| false).unwrap().0, "Chess Club!");
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
            (&"x".repeat(65), BadName::TooLong),
            ("Global", BadName::Reserved("Global".into())),
            ("errors", BadName::Reserved("errors".into())),
        ] {
            assert_eq!(folder_of(text, &[]), Err(why), "{text:?}");
        }
        assert!(is_cancel(" Cancel") && !is_cancel("cancel it"));
    }
}
