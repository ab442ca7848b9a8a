//! Rows for people and for programs.
//!
//! On a terminal a table fits, and times are said as people say them. Anywhere else a table is whole, and times are instants,
//! as in JSON.

use ipc_handlers::Time;
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::Value;

use super::{
    CliResult, Context,
    colours::Paint,
    out,
    table::{Column, Gives, Laid, fitted, whole},
};
use crate::{
    domain::{shown::screen::acts, time::times},
    ops::{Answer, OpError},
};

/// The longest cell that a terminal is given, characters.
const WIDEST: usize = 400;
/// The longest value within a sentence, characters.
const IN_A_SENTENCE: usize = 160;

/// What is printed on.
pub(super) struct Sheet {
    pub(super) colours: bool,
    /// None: not a terminal.
    pub(super) screen: Option<Screen>,
}

/// A terminal, and who sits before it.
pub(super) struct Screen {
    /// How many columns it has; none: as many as are wanted.
    pub(super) width: Option<usize>,
    pub(super) now: Time,
    /// The clocks that people here read.
    pub(super) zone: TimeZone,
}

/// Which columns of a table are wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns {
    /// All, and whole.
    pub(super) wide: bool,
    /// These, in this order; none: those of the command.
    pub(super) named: Vec<String>,
}

impl Sheet {
    /// Returns what stdout is.
    pub(super) fn stdout(context: &Context) -> Self {
        let is_terminal = out::is_terminal();
        let screen = is_terminal.then(|| Screen {
            width: (!context.columns.wide).then(out::width),
            now: context.world.now(),
            zone: context.config().map_or(TimeZone::UTC, |config| config.zone.zone),
        });
        Self { colours: context.color.holds(&context.environment, is_terminal), screen }
    }

    /// Returns a value of a column as it stands in a cell.
    pub(super) fn cell(&self, column: &str, value: &Value) -> String {
        match &self.screen {
            Some(screen) => screen.cell(column, value),
            None => line(value, usize::MAX),
        }
    }

    /// Returns a moment as people say it, or as an instant.
    pub(super) fn time(&self, at: Time) -> String {
        self.screen
            .as_ref()
            .map_or_else(|| at.to_string(), |screen| times::shown(at, screen.now, &screen.zone))
    }

    pub(super) fn painted(&self, paint: Paint, text: &str) -> String {
        if self.colours { paint.on(text) } else { text.to_owned() }
    }
}

impl Screen {
    /// Returns the same at another time.
    pub(super) fn at(&self, now: Time) -> Self {
        Self { width: self.width, now, zone: self.zone.clone() }
    }

    fn cell(&self, column: &str, value: &Value) -> String {
        let instant = || Some(Time::from_jiff(value.as_str()?.parse().ok()?));
        if is_time(column)
            && let Some(at) = instant()
        {
            return times::shown(at, self.now, &self.zone);
        }
        if column.ends_with("_ms")
            && let Some(ms) = value.as_i64()
        {
            return times::length(ms);
        }
        line(value, WIDEST)
    }
}

/// Whether a field holds an instant.
fn is_time(column: &str) -> bool {
    ["_at", "_since", "_until", "_due"].iter().any(|end| column.ends_with(end))
        || [
            "at",
            "since",
            "due",
            "utc",
            "last_in",
            "last_out",
            "next_run",
            "last_run",
            "last_sign",
            "last_work",
            "oldest_unsent",
        ]
        .contains(&column)
}

/// Prints rows: one JSON array, or a table with these columns.
///
/// The name of a column says what it does where a terminal has no room for all: `-name` is left out first, from the right,
/// and `~name` is a text, which is cut.
pub(super) fn rows<T: Serialize>(context: &Context, rows: &[T], columns: &[&str]) -> CliResult {
    let values: Vec<Value> = rows.iter().map(|row| serde_json::to_value(row).unwrap_or_default()).collect();
    if context.json {
        return out::json(json_lines(&values));
    }
    let names = wanted(&context.columns, columns, &values)?;
    table(&Sheet::stdout(context), &values, &names)
}

/// Returns columns by their names, with what each gives.
pub(super) fn columns(names: &[&str]) -> Vec<(String, Gives)> {
    let read = |name: &&str| match (name.strip_prefix('-'), name.strip_prefix('~')) {
        (Some(name), _) => (name.to_owned(), Gives::Way),
        (None, Some(name)) => (name.to_owned(), Gives::Width),
        (None, None) => ((*name).to_owned(), Gives::Nothing),
    };
    names.iter().map(read).collect()
}

/// Returns rows as a table of a terminal, `width` wide.
pub(super) fn laid(screen: &Screen, values: &[Value], names: &[(String, Gives)], width: usize) -> Laid {
    fitted(&cells(values, names, Head::WithoutUnits, |name, value| screen.cell(name, value)), width)
}

/// Returns the columns that are wanted, with what each gives.
fn wanted(
    wanted: &Columns,
    usual: &[&str],
    values: &[Value],
) -> Result<Vec<(String, Gives)>, super::Failure> {
    let usual = columns(usual);
    let columns = wanted;
    if columns.named.is_empty() {
        return Ok(usual);
    }
    let known = |name: &String| {
        values.iter().any(|value| value.get(name).is_some()) || usual.iter().any(|(usual, _)| usual == name)
    };
    if let Some(unknown) = columns.named.iter().find(|name| !known(name)) {
        let fields =
            values.first().and_then(Value::as_object).map(|row| row.keys().cloned().collect::<Vec<_>>());
        let fields = fields.unwrap_or_else(|| usual.iter().map(|(name, _)| name.clone()).collect());
        return Err(OpError::invalid(format!("there is no column {unknown}"))
            .hint(format!("there are {}", fields.join(", ")))
            .into());
    }
    let gives = |name: &String| {
        let usual = usual.iter().find(|(usual, _)| usual == name);
        // What was asked for by its name is cut before it is left out.
        usual.map_or(Gives::Width, |(_, gives)| if *gives == Gives::Way { Gives::Width } else { *gives })
    };
    Ok(columns.named.iter().map(|name| (name.clone(), gives(name))).collect())
}

fn table(sheet: &Sheet, values: &[Value], names: &[(String, Gives)]) -> CliResult {
    let all = |head| cells(values, names, head, |name, value| sheet.cell(name, value));
    let laid = match &sheet.screen {
        Some(screen @ Screen { width: Some(width), .. }) => laid(screen, values, names, *width),
        Some(Screen { width: None, .. }) => whole(&all(Head::WithoutUnits)),
        None => whole(&all(Head::Whole)),
    };
    out::clean(&text(sheet, &laid, names))
}

/// How columns are headed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    Whole,
    /// A length has its unit with it.
    WithoutUnits,
}

fn cells(
    values: &[Value],
    names: &[(String, Gives)],
    head: Head,
    cell: impl Fn(&str, &Value) -> String,
) -> Vec<Column> {
    let column = |(name, gives): &(String, Gives)| {
        let whole = name.to_uppercase();
        let short = whole.strip_suffix("_MS").filter(|_| head == Head::WithoutUnits).map(str::to_owned);
        let cells = values.iter().map(|value| cell(name, &value[name])).collect();
        Column { name: short.unwrap_or(whole), cells, gives: *gives }
    };
    names.iter().map(column).collect()
}

/// Returns a table as it is printed.
fn text(sheet: &Sheet, laid: &Laid, names: &[(String, Gives)]) -> String {
    let mut text = String::new();
    for (n, cells) in laid.lines.iter().enumerate() {
        let paint = |at: usize, cell: &String| match n {
            0 => Some(Paint::Bold),
            _ => Paint::of(&names[laid.columns[at]].0, cell.trim_end()),
        };
        let cells = cells.iter().enumerate().map(|(at, cell)| match paint(at, cell) {
            Some(paint) => sheet.painted(paint, cell),
            None => cell.clone(),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(if sheet.colours { &line } else { line.trim_end() });
        text.push('\n');
    }
    if sheet.screen.is_some() && !laid.left_out.is_empty() && laid.lines.len() > 1 {
        let more = format!("--wide shows {} too", laid.left_out.join(", ").to_lowercase());
        text.push_str(&sheet.painted(Paint::Dim, &more));
        text.push('\n');
    }
    text
}

/// Returns how much that is, for people.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    UNITS.into_iter().find(|(_, shift)| bytes >> shift > 0).map_or_else(
        || format!("{bytes} bytes"),
        |(unit, shift)| {
            let tenths = (u128::from(bytes) * 10) >> shift;
            if tenths < 100 {
                format!("{}.{} {unit}", tenths / 10, tenths % 10)
            } else {
                format!("{} {unit}", tenths / 10)
            }
        },
    )
}

/// Prints one thing: a JSON object, or its fields a line each.
pub(super) fn object<T: Serialize>(context: &Context, thing: &T) -> CliResult {
    let value = serde_json::to_value(thing).unwrap_or_default();
    if context.json {
        return out::json(value);
    }
    let sheet = Sheet::stdout(context);
    if let Value::Object(fields) = &value {
        let width = fields.keys().map(String::len).max().unwrap_or(0);
        for (name, value) in fields {
            match value {
                Value::Array(items) if items.iter().any(Value::is_object) => {
                    out::line(format!("{name}:"))?;
                    for item in items {
                        out::line(format!("  {}", sheet.cell("", item)))?;
                    }
                }
                other => out::line(format!("{name:width$}  {}", sheet.cell(name, other)))?,
            }
        }
    }
    Ok(())
}

/// Prints what came of an operation: its row for programs, a sentence for people.
pub(super) fn answer(context: &Context, answer: &Answer) -> CliResult {
    answer.notes.iter().for_each(out::tell);
    if context.json { out::json(&answer.row) } else { out::line(&answer.says) }
}

/// Prints that something was done.
pub(super) fn done(context: &Context, what: &str) -> CliResult {
    if context.json { out::json(serde_json::json!({ "ok": true, "done": what })) } else { out::line(what) }
}

/// An array with a row on each line, for eyes and for `jq` alike.
fn json_lines(values: &[Value]) -> String {
    let lines: Vec<String> = values.iter().map(|value| format!("  {value}")).collect();
    if lines.is_empty() { "[]".into() } else { format!("[\n{}\n]", lines.join(",\n")) }
}

/// One line of text for a value within a sentence.
pub(super) fn cell(value: &Value) -> String {
    line(value, IN_A_SENTENCE)
}

/// One line of text for a value, of at most `most` characters: nothing that acts on a terminal, or turns its text around, can
/// reach it.
fn line(value: &Value, most: usize) -> String {
    let text = match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(|item| line(item, most)).collect::<Vec<_>>().join(" "),
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, v)| !v.is_null())
            .map(|(k, v)| format!("{k}={}", line(v, most)))
            .collect::<Vec<_>>()
            .join(" "),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    };
    let mut line: String = text.chars().map(|c| if acts(c) { ' ' } else { c }).take(most).collect();
    if text.chars().nth(most).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_in_a_cell_acts_on_a_terminal_or_turns_its_text_around() {
        for acts in
            ['\n', '\u{1b}', '\u{9b}', '\u{202e}', '\u{2066}', '\u{200f}', '\u{61c}', '\u{feff}', '\u{e0041}']
        {
            for value in [format!("a{acts}b").into(), json!([format!("a{acts}b")])] {
                assert_eq!(cell(&value), "a b", "{acts:?}");
            }
        }
        assert_eq!(cell(&"Zoë שלום 日本".into()), "Zoë שלום 日本");
    }

    #[test]
    fn times_are_said_on_a_terminal_only_and_never_of_a_text_that_looks_like_one() {
        let at = json!("2026-11-23T09:27:00.000Z");
        let screen = Screen {
            width: None,
            now: Time::from_jiff("2026-11-23T09:30:00Z".parse().unwrap()),
            zone: TimeZone::UTC,
        };
        let terminal = Sheet { colours: false, screen: Some(screen) };
        let pipe = Sheet { colours: false, screen: None };
        for (column, value, on_a_terminal, in_a_pipe) in [
            ("received_at", &at, "3 min ago", "2026-11-23T09:27:00.000Z"),
            ("text", &at, "2026-11-23T09:27:00.000Z", "2026-11-23T09:27:00.000Z"),
            ("since", &Value::Null, "-", "-"),
            ("at", &json!("soon"), "soon", "soon"),
            ("age_ms", &json!(180_000), "3 min", "180000"),
        ] {
            assert_eq!(
                (&*terminal.cell(column, value), &*pipe.cell(column, value)),
                (on_a_terminal, in_a_pipe)
            );
        }
    }

    #[test]
    fn named_columns_are_shown_and_unknown_ones_are_a_mistake() {
        let named = |names: &[&str]| {
            let columns =
                Columns { wide: false, named: names.iter().map(|name| (*name).to_owned()).collect() };
            wanted(
                &columns,
                &["id", "-cause", "~text"],
                &[json!({"id": 1, "cause": "x", "text": "y", "more": 2})],
            )
        };
        assert_eq!(named(&[]).unwrap()[1], ("cause".into(), Gives::Way));
        assert_eq!(
            named(&["more", "cause", "id"]).unwrap(),
            [("more".into(), Gives::Width), ("cause".into(), Gives::Width), ("id".into(), Gives::Nothing)]
        );
        let told = named(&["id", "colour"]).unwrap_err().to_string();
        assert!(told.contains("there is no column colour; there are cause, id, more, text"), "{told}");
    }
}
