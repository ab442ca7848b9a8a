//! The layers of the settings: every default, and over it what the user's file says.

use std::ops::Range;

use toml::{
    Spanned,
    de::{DeInteger, DeTable, DeValue, Error},
};

use super::{
    ConfigError,
    declare::{defaults, out_of_range},
    settings::File,
};

/// Reads the settings in a user's file; missing settings are at their defaults.
pub(super) fn read(path: &std::path::Path, text: &str) -> Result<File, ConfigError> {
    let parse = |why: String| ConfigError::Parse { path: path.to_owned(), why };
    let mut written = DeTable::parse(text).map_err(|error| parse(words(&error)))?;
    if let Some((at, name, value, allowed)) = bad_number("", written.get_ref()) {
        let line = text[..at].matches('\n').count() + 1;
        return Err(ConfigError::Range { path: path.to_owned(), line, name, value, allowed });
    }
    let defaults = defaults();
    let below = DeTable::parse(&defaults).map_err(|error| parse(words(&error)))?.into_inner();
    let said = written.clone();
    put_under(written.get_mut(), below);
    let merged = toml::de::Deserializer::from(written);
    serde::Deserialize::deserialize(merged).map_err(|mut error: Error| {
        error.set_input(Some(text));
        let name = error.span().and_then(|span| name_at("", said.get_ref(), &span));
        parse(match name.filter(|_| error.message().starts_with("can't be ")) {
            Some(name) => words(&error).replacen(error.message(), &format!("{name} {}", error.message()), 1),
            None => words(&error),
        })
    })
}

/// Returns the reader's words, and what to do where they do not tell.
fn words(error: &Error) -> String {
    let words = error.to_string();
    let words = words.trim_end();
    match error.message() {
        "duplicate key" => {
            format!(
                "{words}: it stands twice. Put the lines below the first one, or use `g2 config set`, which does"
            )
        }
        _ => words.to_owned(),
    }
}

/// Returns the full name of the setting whose value stands at a place of the text.
fn name_at(above: &str, table: &DeTable<'_>, place: &Range<usize>) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let name = format!("{above}{}", key.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) => name_at(&format!("{name}."), inner, place),
            _ => (value.span() == *place).then_some(name),
        }
    })
}

/// Puts what `below` says into a table that does not say it.
fn put_under<'t>(table: &mut DeTable<'t>, below: DeTable<'t>) {
    for (key, value) in below {
        match (table.get_mut(&key).map(Spanned::get_mut), value.get_ref()) {
            (None, _) => drop(table.insert(key, value)),
            (Some(DeValue::Table(over)), DeValue::Table(_)) => {
                if let DeValue::Table(under) = value.into_inner() {
                    put_under(over, under);
                }
            }
            (Some(_), _) => {}
        }
    }
}

/// Returns the first number that can't be used: where it stands, its name, its value, and what it can be.
fn bad_number(above: &str, table: &DeTable<'_>) -> Option<(usize, String, String, String)> {
    table.iter().find_map(|(key, value)| {
        let name = format!("{above}{}", key.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) => bad_number(&format!("{name}."), inner),
            DeValue::Integer(number) => {
                let number = value_of(number)?;
                let allowed = out_of_range(&name, number)?;
                Some((value.span().start, name, number.to_string(), allowed))
            }
            DeValue::String(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => None,
        }
    })
}

fn value_of(number: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        read("g2.toml".as_ref(), text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let text = "[health]\nidle_ms = 5\n[limits]\n# none\nmessages_per_minute = 0\n";
        let said = error(text);
        assert!(said.contains("at line 5, limits.messages_per_minute can't be 0"), "{said}");
        assert!(said.contains("it is 1 at least and 4294967295 at most"), "{said}");
        assert!(error("[limits]\nbatch_messages = -1\n").contains("line 2"));
        assert!(error("[limits]\nbatch_messages = -0x1\n").contains("line 2"));
        let twice = error("[sandbox]\npids = 5\n\n[sandbox]\ncpus = 1.0\n");
        assert!(twice.contains("line 4") && twice.contains("sandbox"), "{twice}");
        let word = error("[sandbox]\n\nnetwork = \"some\"\n");
        assert!(word.contains("line 3") && word.contains("sandbox.network can't be \"some\""), "{word}");
        assert!(error("sandbox = 3\n").contains("line 1"));
    }
}
