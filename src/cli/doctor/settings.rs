//! `g2.toml` and `.env`.

use std::{os::unix::fs::PermissionsExt as _, path::Path};

use super::row::{Row, chain};
use crate::config::{Config, ConfigError};

/// Decides on the outcome of reading the settings.
pub(super) fn judge(loaded: &Result<Config, ConfigError>, root: &Path) -> Row {
    let path = root.join("g2.toml");
    match loaded {
        Ok(_) if path.exists() => Row::ok("settings", format!("{} is understood", path.display())),
        Ok(_) => Row::ok("settings", "no g2.toml: every setting is at its default"),
        Err(error) => {
            let detail = one_line(&error.to_string());
            let source =
                std::error::Error::source(error).map(|s| format!(": {}", chain(s))).unwrap_or_default();
            let fix = format!(
                "correct {}; `g2 init` in an empty folder writes one with every setting and its default",
                path.display()
            );
            Row::fail("settings", format!("{detail}{source}"), fix)
        }
    }
}

/// What is set and can't be used.
pub(super) fn unusable(loaded: &Result<Config, ConfigError>) -> Vec<Row> {
    let all = loaded.as_ref().map_or(&[][..], |config| &config.unusable);
    all.iter().map(|why| Row::warn("settings", why.clone(), "correct it, or take it out")).collect()
}

/// A message of the TOML reader without its picture of the line.
fn one_line(text: &str) -> String {
    let is_picture = |line: &&str| {
        line.trim_start_matches(|c: char| c.is_ascii_digit() || c.is_whitespace()).starts_with('|')
    };
    let lines: Vec<&str> = text.lines().filter(|line| !is_picture(line) && !line.trim().is_empty()).collect();
    lines.join(": ")
}

/// Looks whether others can read a file of secrets, where there is one.
pub(super) fn secrets(path: &Path) -> Option<Row> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    let mode = meta.permissions().mode() & 0o777;
    Some(judge_secrets(path, mode, meta.is_symlink()))
}

fn judge_secrets(path: &Path, mode: u32, is_link: bool) -> Row {
    // What a link leads to is its owner's business.
    if is_link || mode & 0o077 == 0 {
        return Row::ok("secrets", format!("{} is closed to others", path.display()));
    }
    let detail =
        format!("{} has mode {mode:04o}: other users can read or change what is secret", path.display());
    Row::warn("secrets", detail, format!("`chmod 600 {}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_of_a_line_is_left_out() {
        let text = "TOML parse error at line 2, column 1\n  |\n2 | x = 1\n  | ^\nunknown field `x`\n";
        assert_eq!(one_line(text), "TOML parse error at line 2, column 1: unknown field `x`");
    }
}
