//! One setting in the text of `g2.toml`, with everything around it left as it is.

/// Returns the text with a setting at this value.
///
/// A line that sets it, or that shows its default behind a `# `, is replaced; a comment behind the value stays. Otherwise the
/// setting is put below the header of its table, and a table that is missing at the end.
///
/// `name`: the setting in full, such as `agent.provider`. `value`: as TOML has it, on one line.
#[must_use]
pub fn set(text: &str, name: &str, value: &str) -> String {
    let (table, key) = name.rsplit_once('.').unwrap_or(("", name));
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let header = format!("[{table}]");
    let is_header = |line: &String| line.trim_start().starts_with('[');
    let begin = match table {
        "" => Some(0),
        _ => lines.iter().position(|line| line.trim() == header).map(|at| at + 1),
    };
    let Some(begin) = begin else {
        lines.extend([String::new(), header, format!("{key} = {value}")]);
        return ended(&lines);
    };
    let end = lines[begin..].iter().position(is_header).map_or(lines.len(), |length| begin + length);
    let sets = |line: &String| of(line, key).is_some();
    let shown = |line: &String| line.strip_prefix("# ").is_some_and(|rest| of(rest, key).is_some());
    let found =
        (begin..end).find(|at| sets(&lines[*at])).or_else(|| (begin..end).find(|at| shown(&lines[*at])));
    match found {
        Some(at) => {
            let line = lines[at].strip_prefix("# ").unwrap_or(&lines[at]);
            let comment =
                of(line, key).and_then(comment).map(|comment| format!(" {comment}")).unwrap_or_default();
            lines[at] = format!("{key} = {value}{comment}");
        }
        None => lines.insert(begin, format!("{key} = {value}")),
    }
    ended(&lines)
}

/// What stands behind the `=` in a line that sets this key.
fn of<'t>(line: &'t str, key: &str) -> Option<&'t str> {
    line.trim_start().strip_prefix(key)?.trim_start().strip_prefix('=')
}

/// The comment behind a value. A `#` inside of a text begins none.
fn comment(value: &str) -> Option<&str> {
    let mut quote = None;
    for (at, c) in value.char_indices() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (_, Some(open)) if c == open => quote = None,
            ('#', None) => return Some(&value[at..]),
            _ => {}
        }
    }
    None
}

fn ended(lines: &[String]) -> String {
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the reader of settings makes of a text.
    fn read(text: &str, name: &str) -> Option<String> {
        let table: toml::Table = text.parse().unwrap();
        let found = match name.split_once('.') {
            Some((table_name, key)) => table.get(table_name)?.get(key)?.clone(),
            None => table.get(name)?.clone(),
        };
        found.as_str().map(str::to_owned)
    }

    #[test]
    fn a_setting_is_put_in_its_place_and_the_rest_stays() {
        for (before, after) in [
            ("", "\n[agent]\nprovider = \"x\"\n"),
            (
                "[agent]\n# provider = \"scripted\"  # or another\n",
                "[agent]\nprovider = \"x\" # or another\n",
            ),
            ("[agent]\nprovider = \"a#b\" # c\n[b]\n", "[agent]\nprovider = \"x\" # c\n[b]\n"),
            ("[agent]\n[b]\nprovider = 1\n", "[agent]\nprovider = \"x\"\n[b]\nprovider = 1\n"),
            (
                "a = 1\n[agent]\n# provider = 1\nprovider=2\n",
                "a = 1\n[agent]\n# provider = 1\nprovider = \"x\"\n",
            ),
        ] {
            assert_eq!(set(before, "agent.provider", "\"x\""), after, "{before:?}");
            assert_eq!(read(after, "agent.provider").as_deref(), Some("x"));
        }
        assert_eq!(set("# timezone = \"\"\n[a]\n", "timezone", "\"UTC\""), "timezone = \"UTC\"\n[a]\n");
        assert_eq!(set("[a]\n", "timezone", "\"UTC\""), "timezone = \"UTC\"\n[a]\n");
    }

    #[test]
    fn every_setting_of_a_new_root_can_be_set_and_nothing_else_changes() {
        let shown = crate::config::DEFAULT_TOML;
        for name in ["timezone", "agent.provider", "sandbox.image", "sandbox.kind", "gateway.upstream"] {
            let text = set(shown, name, "\"v\"");
            assert_eq!(read(&text, name).as_deref(), Some("v"), "{name}");
            let changed = shown.lines().zip(text.lines()).filter(|(before, after)| before != after).count();
            assert_eq!((changed, text.lines().count()), (1, shown.lines().count()), "{name}");
        }
    }
}
