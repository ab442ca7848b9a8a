//! Rows for people and for programs.

use serde::Serialize;
use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

use super::{CliResult, Context, out};
use crate::{domain::host::screen::acts, ops::Answer};

/// How many characters of a name a table shows; `--json` has it whole.
const WIDEST_NAME: usize = 48;

/// Prints rows: one JSON array, or a table with these columns.
pub(super) fn rows<T: Serialize>(context: &Context, rows: &[T], columns: &[&str]) -> CliResult {
    let values: Vec<Value> = rows.iter().map(|row| serde_json::to_value(row).unwrap_or_default()).collect();
    if context.json {
        return out::json(json_lines(&values));
    }
    out::text(&table(&values, columns))
}

/// Returns rows as an aligned table.
fn table(values: &[Value], columns: &[&str]) -> String {
    let mut table: Vec<Vec<String>> = vec![columns.iter().map(|c| (*c).to_uppercase()).collect()];
    table.extend(
        values
            .iter()
            .map(|value| columns.iter().map(|column| in_a_column(column, cell(&value[*column]))).collect()),
    );
    let widths: Vec<usize> = (0..columns.len())
        .map(|column| table.iter().map(|row| row[column].width()).max().unwrap_or(0))
        .collect();
    let mut whole = String::new();
    for row in table {
        let line: Vec<String> = row.iter().zip(&widths).map(|(text, width)| padded(text, *width)).collect();
        whole.push_str(line.join("  ").trim_end());
        whole.push('\n');
    }
    whole
}

/// Returns how much that is, for people.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    UNITS.into_iter().find(|(_, shift)| bytes >> shift > 0).map_or_else(
        || format!("{bytes} bytes"),
        |(unit, shift)| {
            let tenths = u128::from(bytes) * 10 >> shift;
            if tenths < 100 {
                format!("{}.{} {unit}", tenths / 10, tenths % 10)
            } else {
                format!("{} {unit}", tenths / 10)
            }
        },
    )
}

/// Returns a text with blanks after it, so that it takes `width` columns of a terminal.
fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// Prints one thing: a JSON object, or its fields a line each.
pub(super) fn object<T: Serialize>(context: &Context, thing: &T) -> CliResult {
    let value = serde_json::to_value(thing).unwrap_or_default();
    if context.json {
        return out::json(value);
    }
    if let Value::Object(fields) = &value {
        let width = fields.keys().map(String::len).max().unwrap_or(0);
        for (name, value) in fields {
            match value {
                Value::Array(items) if items.iter().any(Value::is_object) => {
                    out::line(format!("{name}:"))?;
                    for item in items {
                        out::line(format!("  {}", cell(item)))?;
                    }
                }
                other => out::line(format!("{name:width$}  {}", cell(other)))?,
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

/// A name of an agent's choice must not push all other columns out of sight.
fn in_a_column(column: &str, text: String) -> String {
    match text.char_indices().nth(WIDEST_NAME) {
        Some((end, _)) if column == "name" => format!("{}…", &text[..end]),
        _ => text,
    }
}

/// An array with a row on each line, for eyes and for `jq` alike.
fn json_lines(values: &[Value]) -> String {
    let lines: Vec<String> = values.iter().map(|value| format!("  {value}")).collect();
    if lines.is_empty() { "[]".into() } else { format!("[\n{}\n]", lines.join(",\n")) }
}

/// One line of text for a value: nothing that acts on a terminal, or turns its text around, can reach it.
pub(super) fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(" "),
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, v)| !v.is_null())
            .map(|(k, v)| format!("{k}={}", cell(v)))
            .collect::<Vec<_>>()
            .join(" "),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    };
    let mut line: String = text.chars().map(|c| if acts(c) { ' ' } else { c }).take(160).collect();
    if text.chars().count() > 160 {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other_whatever_script_a_name_is_in() {
        let row = |name: &str| serde_json::json!({"name": name, "id": 7});
        let shown = table(&[row("日本"), row("Zoe\u{308}"), row("abcde")], &["name", "id"]);
        assert_eq!(shown, "NAME   ID\n日本   7\nZoe\u{308}    7\nabcde  7\n");
    }

    #[test]
    fn nothing_in_a_cell_acts_on_a_terminal_or_turns_its_text_around() {
        for acts in
            ['\n', '\u{1b}', '\u{9b}', '\u{202e}', '\u{2066}', '\u{200f}', '\u{61c}', '\u{feff}', '\u{e0041}']
        {
            for value in [format!("a{acts}b").into(), serde_json::json!([format!("a{acts}b")])] {
                assert_eq!(cell(&value), "a b", "{acts:?}");
            }
        }
        assert_eq!(cell(&"Zoë שלום 日本".into()), "Zoë שלום 日本");
    }
}
