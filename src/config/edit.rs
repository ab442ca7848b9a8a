//! Changes of `g2.toml` as a text: its comments, its order and its blank lines stay.

use toml::de::{DeTable, DeValue};

use super::{declare, settings::SECTIONS};

/// Why a change can't be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error("there is no setting {name}")]
    Unknown { name: String, meant: String },
    #[error("{name} is a section, and only its settings can be changed")]
    Section { name: String },
    #[error("{value:?} is no value for {name}: {why}")]
    Value { name: String, value: String, why: String },
    #[error("g2.toml can't be understood: {0}")]
    File(String),
    #[error("{name} stands in g2.toml in braces, or otherwise than line by line")]
    Place { name: String },
}

/// Where a setting stands in a text, in bytes.
struct Place {
    key: std::ops::Range<usize>,
    value: std::ops::Range<usize>,
}

/// Returns where a setting stands; `None`: it is not written.
fn place(table: &DeTable<'_>, name: &str) -> Option<Place> {
    let (first, rest) = name.split_once('.').map_or((name, None), |(first, rest)| (first, Some(rest)));
    table.iter().find_map(|(key, value)| {
        if key.get_ref() != first {
            return None;
        }
        match (value.get_ref(), rest) {
            (DeValue::Table(inner), Some(rest)) => place(inner, rest),
            (_, None) => Some(Place { key: key.span(), value: value.span() }),
            (_, Some(_)) => None,
        }
    })
}

/// Returns a setting's default.
fn default_of(name: &str) -> Result<toml::Value, EditError> {
    if let Some(known) = declare::of(name) {
        return known.default.parse().map_err(|error: toml::de::Error| EditError::File(error.to_string()));
    }
    if SECTIONS.iter().any(|section| section.name == name && !name.is_empty()) {
        return Err(EditError::Section { name: name.to_owned() });
    }
    let near = declare::all().map(|known| (strsim::jaro_winkler(known.name, name), known.name));
    let near = near.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(how, _)| *how > 0.8);
    Err(EditError::Unknown {
        name: name.to_owned(),
        meant: near.map(|(_, known)| known.to_owned()).unwrap_or_default(),
    })
}

/// Reads a value as it is typed, in the type of the setting's default: a text needs no quotes.
fn value_of(name: &str, text: &str, default: &toml::Value) -> Result<toml::Value, EditError> {
    let read: Result<toml::Table, _> = format!("value = {text}").parse();
    let read = read.ok().and_then(|mut table| table.remove("value"));
    let wrong =
        |why: &str| EditError::Value { name: name.to_owned(), value: text.to_owned(), why: why.to_owned() };
    match (default, read) {
        (toml::Value::String(_), Some(toml::Value::String(value))) => Ok(toml::Value::String(value)),
        (toml::Value::String(_), _) => Ok(toml::Value::String(text.to_owned())),
        (toml::Value::Float(_), Some(toml::Value::Integer(number))) => i32::try_from(number)
            .map(|number| toml::Value::Float(number.into()))
            .map_err(|_| wrong("it is too large")),
        (default, Some(value)) if default.same_type(&value) => Ok(value),
        (toml::Value::Integer(_), _) => Err(wrong("it is a whole number")),
        (toml::Value::Float(_), _) => Err(wrong("it is a number")),
        (toml::Value::Boolean(_), _) => Err(wrong("it is true or false")),
        (toml::Value::Array(_), _) => Err(wrong("it is a list such as [\"a\", \"b\"]")),
        (toml::Value::Table(_), _) => Err(wrong("it is a table such as { A = \"b\" }")),
        (toml::Value::Datetime(_), _) => Err(wrong("it is a time")),
    }
}

/// Returns `text` with the setting `name` at `value`, as somebody types it.
///
/// # Errors
/// There is no such setting, or no such value of it.
pub fn with_setting(text: &str, name: &str, value: &str) -> Result<String, EditError> {
    let value = value_of(name, value, &default_of(name)?)?.to_string();
    let table = DeTable::parse(text).map_err(|error| EditError::File(error.to_string()))?;
    if let Some(place) = place(table.get_ref(), name) {
        return Ok([&text[..place.value.start], &value, &text[place.value.end..]].concat());
    }
    let (section, key) = name.rsplit_once('.').unwrap_or(("", name));
    let line = format!("{key} = {value}\n");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (begin, end) = match section {
        "" => (0, lines.iter().position(|line| line.trim_start().starts_with('[')).unwrap_or(lines.len())),
        section => {
            let head = format!("[{section}]");
            let Some(at) =
                lines.iter().position(|line| line.split('#').next().is_some_and(|line| line.trim() == head))
            else {
                if table.get_ref().iter().any(|(key, _)| key.get_ref() == section) {
                    return Err(EditError::Place { name: name.to_owned() });
                }
                let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
                return Ok(format!("{text}{gap}\n[{section}]\n{line}"));
            };
            let next = lines[at + 1..].iter().position(|line| line.trim_start().starts_with('['));
            (at + 1, next.map_or(lines.len(), |next| at + 1 + next))
        }
    };
    // Below its default, which is commented out; otherwise at the beginning of its section.
    let commented = format!("# {key} = ");
    let at = lines[begin..end]
        .iter()
        .position(|line| line.starts_with(&commented))
        .map_or(begin, |at| begin + at + 1);
    let before = lines[..at].concat();
    let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    Ok([&before, gap, &line, &lines[at..].concat()].concat())
}

/// Returns `text` without the setting `name`, so that it has its default; `None`: it is not written.
///
/// # Errors
/// There is no such setting, or it does not stand on lines of its own.
pub fn without_setting(text: &str, name: &str) -> Result<Option<String>, EditError> {
    default_of(name)?;
    let table = DeTable::parse(text).map_err(|error| EditError::File(error.to_string()))?;
    let Some(Place { key, value }) = place(table.get_ref(), name) else { return Ok(None) };
    let begin = text[..key.start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[value.end..].find('\n').map_or(text.len(), |at| value.end + at + 1);
    let rest = text[value.end..end].trim();
    let stands_alone =
        !text[begin..key.start].contains(['{', ',', '"']) && (rest.is_empty() || rest.starts_with('#'));
    if !stands_alone {
        return Err(EditError::Place { name: name.to_owned() });
    }
    Ok(Some([&text[..begin], &text[end..]].concat()))
}

#[cfg(test)]
mod tests {
    use super::{super::declare::default_toml, *};

    fn set(text: &str, name: &str, value: &str) -> String {
        with_setting(text, name, value).unwrap()
    }

    #[test]
    fn each_setting_of_the_embedded_file_can_be_set_and_unset_and_nothing_else_changes() {
        for name in declare::all().map(|known| known.name) {
            let value = default_of(name).unwrap().to_string();
            for text in [
                default_toml().as_str(),
                "",
                "# mine\n[limits]\nbatch_kib = 7 # seven\n",
                "log_level = \"warn\"",
            ] {
                let with = set(text, name, &value);
                let read: toml::Table =
                    with.parse().unwrap_or_else(|error| panic!("{name}: {error}: {with}"));
                let found = name
                    .split('.')
                    .try_fold(&toml::Value::Table(read), |at, part| at.get(part))
                    .map(ToString::to_string);
                assert_eq!(found.as_deref(), Some(value.as_str()), "{name}");
                if without_setting(text, name).unwrap().is_none() {
                    let without = without_setting(&with, name).unwrap().unwrap();
                    let kept = |text: &str| {
                        text.lines()
                            .filter(|line| !line.is_empty() && !line.starts_with('['))
                            .map(str::to_owned)
                            .collect::<Vec<_>>()
                    };
                    assert_eq!(kept(&without), kept(text), "{name}");
                }
            }
        }
    }

    #[test]
    fn comments_and_order_stay() {
        let text = "# mine\nlog_level = \"warn\"   # loud\n\n[limits]   # all\n# keep_days = 0\nbatch_kib = 7 # seven\n";
        assert_eq!(set(text, "log_level", "debug"), text.replace("\"warn\"", "\"debug\""));
        assert_eq!(set(text, "limits.batch_kib", "8"), text.replace('7', "8"));
        assert_eq!(
            set(text, "limits.keep_days", "30"),
            text.replace("# keep_days = 0\n", "# keep_days = 0\nkeep_days = 30\n")
        );
        assert_eq!(set(text, "timezone", "UTC"), format!("timezone = \"UTC\"\n{text}"));
        assert_eq!(set(text, "backup.to", "/srv"), format!("{text}\n[backup]\nto = \"/srv\"\n"));
        assert_eq!(
            without_setting(text, "limits.batch_kib").unwrap().unwrap(),
            text.replace("batch_kib = 7 # seven\n", "")
        );
        assert_eq!(without_setting(text, "limits.tasks").unwrap(), None);
        let lines = "[egress]\nallow = [\n  \"a\", # first\n]\n# end\n";
        assert_eq!(set(lines, "egress.allow", "[\"b\"]"), "[egress]\nallow = [\"b\"]\n# end\n");
        assert_eq!(without_setting(lines, "egress.allow").unwrap().unwrap(), "[egress]\n# end\n");
    }

    #[test]
    fn a_value_has_the_type_of_the_setting() {
        for (name, value, read) in [
            ("agent.claude.version", "2", Some("\"2\"")),
            ("sandbox.cpus", "2", Some("2.0")),
            ("limits.tasks", "many", None),
            ("limits.tasks", "1.5", None),
            ("ipc.require_token", "yes", None),
            ("ipc.require_token", "true", Some("true")),
            ("egress.allow", "a.example", None),
            ("agent.acp.env", "{ A = \"b\" }", Some("{ A = \"b\" }")),
            ("log_level", "warn\nx = 1", Some("\"\"\"\nwarn\nx = 1\"\"\"")),
        ] {
            let set = with_setting("", name, value).ok();
            assert_eq!(set.is_some(), read.is_some(), "{name} {value}: {set:?}");
            if let Some((set, read)) = set.zip(read) {
                assert!(set.ends_with(&format!("{} = {read}\n", name.rsplit('.').next().unwrap())), "{set}");
            }
        }
        let unknown = with_setting("", "limit.keep_days", "1").unwrap_err();
        assert_eq!(unknown.to_string(), "there is no setting limit.keep_days");
        assert!(matches!(unknown, EditError::Unknown { meant, .. } if meant == "limits.keep_days"));
        assert!(matches!(with_setting("", "limits", "1"), Err(EditError::Section { .. })));
        let braces = "limits = { keep_days = 3, tasks = 4 }\n";
        assert_eq!(set(braces, "limits.tasks", "5"), braces.replace('4', "5"));
        assert!(matches!(without_setting(braces, "limits.tasks"), Err(EditError::Place { .. })));
        assert!(matches!(with_setting(braces, "limits.archives", "5"), Err(EditError::Place { .. })));
    }
}
