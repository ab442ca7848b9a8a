//! The first argument of a tool's use: what it is used on.

use serde_json::Value;

/// The arguments that say what a tool is used on, the best first.
const NAMED: [&str; 12] = [
    "command",
    "file_path",
    "notebook_path",
    "path",
    "pattern",
    "url",
    "query",
    "description",
    "prompt",
    "name",
    "text",
    "id",
];
/// The folder in which agents work: a path below it is shown without it.
const WORK: &str = "/workspace/group/";

/// Returns the first argument of a use; empty: it has none that is text.
pub(super) fn first(input: &Value) -> String {
    let text =
        |value: &Value| value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    let named = NAMED.iter().find_map(|name| text(&input[*name]));
    let any = || input.as_object().and_then(|all| all.values().find_map(text));
    let found = named.or_else(any).unwrap_or_default();
    found.strip_prefix(WORK).map(str::to_owned).unwrap_or(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_argument_is_what_the_tool_is_used_on() {
        for (input, first_one) in [
            (json!({"description": "list files", "command": "ls -la"}), "ls -la"),
            (json!({"file_path": "/workspace/group/CLAUDE.md", "limit": 5}), "CLAUDE.md"),
            (json!({"file_path": "/etc/hosts"}), "/etc/hosts"),
            (json!({"glob": "*.rs", "pattern": "fn main"}), "fn main"),
            (json!({"city": "Oslo", "days": 3}), "Oslo"),
            (json!({"days": 3, "command": " "}), ""),
            (json!({}), ""),
            (json!(null), ""),
            (json!("x"), ""),
        ] {
            assert_eq!(first(&input), first_one, "{input}");
        }
    }
}
