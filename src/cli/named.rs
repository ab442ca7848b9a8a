//! Names of groups where their folders are asked for: a name that one group has stands for its folder. Of several groups
//! that are called so a person chooses one.

use std::{
    ffi::{OsStr, OsString},
    io::{IsTerminal as _, stderr, stdin},
    path::PathBuf,
};

use anyhow::Context as _;
use clap::{
    ArgMatches,
    error::{ContextKind, ContextValue, ErrorKind},
};
use ipc_handlers::Folder;

use super::{Failure, OpError, help, out, tips};
use crate::{app, config::Environment, domain::heard::approvals::name::called, system::world::World};

/// At most this many names are looked up in one command line.
const MOST: usize = 8;

/// A folder that stands in the place of a word to see what that word is.
const OTHER: &str = "g2-another-word";

/// Where a text stands in a command line: behind this option, or by itself.
struct Place {
    option: Option<String>,
    text: String,
}

/// What the command line comes to, or how it is wrong.
type Parsed = Result<ArgMatches, clap::Error>;

/// Parses a command line, with folders in the places of names.
///
/// # Errors
/// [`Failure::Usage`] where several groups are called so and nobody chooses one.
pub(super) fn parse(
    mut words: Vec<OsString>,
    colours: clap::ColorChoice,
    world: &World,
    environment: &Environment,
) -> Result<Parsed, Failure> {
    let parse = |words: &[OsString]| {
        let command = help::command().color(colours);
        command.clone().try_get_matches_from(words).map_err(|wrong| tips::rightly(wrong, &command))
    };
    let mut parsed = parse(&words);
    for _ in 0..MOST {
        let Some((at, folder)) = first_name(&words, &parsed, world, environment)? else { break };
        words[at] = folder;
        parsed = parse(&words);
    }
    Ok(parsed)
}

/// Finds a word that is a name, and the word with its folder instead.
fn first_name(
    words: &[OsString],
    parsed: &Parsed,
    world: &World,
    environment: &Environment,
) -> Result<Option<(usize, OsString)>, Failure> {
    let places = places(parsed);
    if places.is_empty() {
        return Ok(None);
    }
    let lenient = help::command().ignore_errors(true).try_get_matches_from(words);
    let said =
        lenient.ok().and_then(|matches| matches.try_get_one::<PathBuf>("root").ok().flatten().cloned());
    let root = crate::root::find_root(said, environment);
    for place in places {
        let Some((at, before)) = place.find(words) else { continue };
        if app::check_root(&root).is_err() {
            continue;
        }
        let Ok(store) = app::open_store_to_look(world, &root) else { continue };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let groups = runtime.context("reading the groups")?.block_on(store.groups())?;
        if groups.iter().any(|group| group.folder.as_str() == place.text) {
            continue;
        }
        let groups: Vec<(Folder, String)> =
            groups.into_iter().map(|group| (group.folder, group.name)).collect();
        let meant: Vec<Folder> =
            called(&place.text, &groups).into_iter().map(|(folder, _)| folder.clone()).collect();
        let folder = match meant.as_slice() {
            [] => continue,
            [one] => one.clone(),
            several => choose(&place.text, several)?,
        };
        return Ok(Some((at, format!("{before}{folder}").into())));
    }
    Ok(None)
}

fn places(parsed: &Parsed) -> Vec<Place> {
    match parsed {
        Ok(matches) => folders(matches),
        Err(wrong) => not_understood(wrong).into_iter().collect(),
    }
}

/// Returns the folders that a command line names, but for one that is to be made.
fn folders(matches: &ArgMatches) -> Vec<Place> {
    let (mut matches, mut path) = (matches, Vec::new());
    while let Some((name, below)) = matches.subcommand() {
        path.push(name);
        matches = below;
    }
    if path == ["groups", "add"] {
        return Vec::new();
    }
    let of = |id: &clap::Id| {
        let values = matches.try_get_many::<Folder>(id.as_str()).ok()??;
        let option = Some(format!("--{id}"));
        Some(
            values.map(|value| Place { option: option.clone(), text: value.to_string() }).collect::<Vec<_>>(),
        )
    };
    matches.ids().filter_map(of).flatten().collect()
}

/// Returns the text that no folder can be called, where a folder was asked for.
fn not_understood(wrong: &clap::Error) -> Option<Place> {
    let text = |kind| match wrong.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(_) | None => None,
    };
    let (of, text) = (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
    let is_a_folder = of.contains("GROUP") || of.contains("FOLDER");
    if wrong.kind() != ErrorKind::ValueValidation || !is_a_folder {
        return None;
    }
    let option = of.split_whitespace().next().filter(|word| word.starts_with("--")).map(str::to_owned);
    Some(Place { option, text })
}

impl Place {
    /// Returns the number of the word, and what stands in it before the text.
    fn find(&self, words: &[OsString]) -> Option<(usize, String)> {
        let is = |word: &OsStr| word == self.text.as_str();
        if let Some(option) = &self.option {
            let behind = words.windows(2).position(|pair| pair[0] == option.as_str() && is(&pair[1]));
            if let Some(at) = behind {
                return Some((at + 1, String::new()));
            }
            let before = format!("{option}=");
            let whole = format!("{before}{}", self.text);
            if let Some(at) = words.iter().position(|word| word == whole.as_str()) {
                return Some((at, before));
            }
        }
        let at = (1..words.len()).find(|at| is(&words[*at]) && self.is_at(*at, words))?;
        Some((at, String::new()))
    }

    /// Whether this word is the place: with another one there, the command line has another text in the place.
    fn is_at(&self, at: usize, words: &[OsString]) -> bool {
        let mut words = words.to_vec();
        words[at] = OTHER.into();
        let places = places(&help::command().try_get_matches_from(words));
        // One that no folder can be called is the first fault of the line, and another one may come behind it.
        let was_a_fault = Folder::parse(&self.text).is_err();
        places.iter().any(|place| place.text == OTHER)
            || was_a_fault && places.iter().all(|place| place.text != self.text)
    }
}

/// Has a person choose one of several groups.
fn choose(name: &str, groups: &[Folder]) -> Result<Folder, Failure> {
    let names: Vec<&str> = groups.iter().map(Folder::as_str).collect();
    let refused = || {
        let error = format!("{} groups are called {name:?}: {}", groups.len(), names.join(", "));
        Failure::Usage(OpError::invalid(error).hint("name one by its folder"))
    };
    if !stdin().is_terminal() || !stderr().is_terminal() {
        return Err(refused());
    }
    let choices: String = (1..).zip(&names).map(|(n, folder)| format!("  {n}  {folder}\n")).collect();
    out::ask(&format!("{} groups are called {name:?}:\n{choices}Which? ", groups.len()));
    let mut line = String::new();
    stdin().read_line(&mut line).map_err(|e| anyhow::Error::new(e).context("reading the answer"))?;
    let line = line.trim();
    let chosen = (1_usize..).zip(groups).find(|(n, folder)| line == n.to_string() || line == folder.as_str());
    chosen.map(|(_, folder)| folder.clone()).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[&str]) -> Vec<OsString> {
        std::iter::once("g2").chain(line.iter().copied()).map(OsString::from).collect()
    }

    fn place(line: &[&str]) -> Option<(String, usize, String)> {
        let words = words(line);
        let place = places(&help::command().try_get_matches_from(&words)).into_iter().next()?;
        let (at, before) = place.find(&words)?;
        Some((place.text, at, before))
    }

    #[test]
    fn a_name_is_found_where_a_folder_is_asked_for() {
        for (line, text, at, before) in [
            (&["tasks", "list", "--group", "Family"][..], "Family", 4, ""),
            (&["tasks", "list", "--group=Family"], "Family", 3, "--group="),
            (&["tasks", "add", "--group", "p", "--every", "1h", "p"], "p", 4, ""),
            (&["groups", "show", "Family"], "Family", 3, ""),
            (&["groups", "restart", "Familie M\u{fc}ller"], "Familie M\u{fc}ller", 3, ""),
            (&["tasks", "list", "--group", "The Family"], "The Family", 4, ""),
            (&["--root", "family", "groups", "show", "family"], "family", 5, ""),
            (&["--root", "The Family", "groups", "show", "The Family"], "The Family", 5, ""),
            (&["groups", "show", "The Family", "--root", "The Family"], "The Family", 3, ""),
            (&["groups", "show", "groups"], "groups", 3, ""),
        ] {
            assert_eq!(place(line), Some((text.to_owned(), at, before.to_owned())), "{line:?}");
        }
        for line in [
            &["groups", "add", "Family", "--chat", "local:x"][..],
            &["send", "Family"],
            &["tasks", "list", "--groop", "Family"],
            &["runs", "stop", "x"],
            &[],
        ] {
            assert_eq!(place(line), None, "{line:?}");
        }
    }
}
