//! `g2.toml` and `.env`.

use std::path::Path;

use super::{
    Subject,
    row::{Row, chain},
};
use crate::{
    config::{Config, ConfigError, Environment, InTheOpen, dotenv, secrets_of as secrets_in_settings},
    domain::problems::{checks::Check, mend::Mend},
    loops::problems::{open_secrets, secrets as secrets_of},
};

/// Decides on the outcome of reading the settings.
pub(super) fn judge(loaded: &Result<Config, ConfigError>, root: &Path) -> Row {
    let path = root.join("g2.toml");
    match loaded {
        Ok(_) if path.exists() => Row::ok(Check::Settings, format!("{} can be read", path.display())),
        Ok(_) => Row::ok(Check::Settings, "no g2.toml: every setting is at its default"),
        Err(error) => {
            let detail = one_line(&error.to_string());
            let source =
                std::error::Error::source(error).map(|s| format!(": {}", chain(s))).unwrap_or_default();
            let fix = format!(
                "correct {}; `g2 init` in an empty folder writes one with every setting at its default",
                path.display()
            );
            Row::fail(Check::Settings, format!("{detail}{source}"), fix)
        }
    }
}

/// The secrets that stand in `g2.toml` itself.
pub(super) fn in_the_open(root: &Path) -> impl Iterator<Item = Row> {
    secrets_in_settings(root).into_iter().map(|InTheOpen { name, twin }| {
        let fix = match twin {
            Some((account, key)) => format!(
                "put it into a file of yours, such as data/secrets/{account}.{key}, and write {key}_file = \"data/secrets/{account}.{key}\" instead"
            ),
            None => "let nobody read g2.toml who may not know it; this setting can't be in a file of its own".to_owned(),
        };
        Row::warn(Check::Secrets, format!("the secret {name} stands in g2.toml itself"), fix).of(name)
    })
}

/// The names of v1 in `.env` that have no effect. They are no problem.
pub(super) fn replaced(root: &Path) -> impl Iterator<Item = Row> {
    let told = dotenv::replaced(&dotenv::text(root), &Environment::default());
    told.into_iter().map(|text| {
        let name = text.split_whitespace().next().unwrap_or_default().to_owned();
        Row::ok(Check::Settings, text).of(name)
    })
}

/// A message of the TOML reader without its picture of the line.
fn one_line(text: &str) -> String {
    let is_picture = |line: &&str| {
        line.trim_start_matches(|c: char| c.is_ascii_digit() || c.is_whitespace()).starts_with('|')
    };
    let lines: Vec<&str> = text.lines().filter(|line| !is_picture(line) && !line.trim().is_empty()).collect();
    lines.join(": ")
}

/// The files of secrets, and how one is closed that others can read.
pub(super) fn secrets(subject: &Subject) -> Vec<Row> {
    let files = secrets_of(&subject.config, &subject.root).into_iter();
    let rows = files.filter(|path| path.symlink_metadata().is_ok()).map(|path| match open_secrets(&path) {
        Some(problem) => Row::Found(problem.finding()).mended_by(Mend::CloseFile(path)),
        None => {
            Row::ok(Check::Secrets, format!("{} is private", path.display())).of(path.display().to_string())
        }
    });
    rows.collect()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test plays the user")]
mod tests {
    use super::*;

    #[test]
    fn each_secret_of_an_account_has_a_file_of_its_own_to_go_to() {
        let root = tempfile::tempdir().unwrap();
        let text = "[channels.matrix]\npassword = \"a\"\naccess_token = \"b\"\nlogin = { key = \"c\" }\n";
        std::fs::write(root.path().join("g2.toml"), text).unwrap();
        let fixes: Vec<String> = in_the_open(root.path()).map(|row| format!("{row:?}")).collect();
        assert_eq!(fixes.len(), 3, "{fixes:?}");
        assert!(
            fixes[0].contains("access_token_file = \\\"data/secrets/matrix.access_token\\\""),
            "{fixes:?}"
        );
        assert!(
            fixes[1].contains("channels.matrix.login.key")
                && fixes[1].contains("can't be in a file of its own")
        );
        assert!(fixes[2].contains("password_file = \\\"data/secrets/matrix.password\\\""), "{fixes:?}");
    }

    #[test]
    fn the_picture_of_a_line_is_left_out() {
        let text = "TOML parse error at line 2, column 1\n  |\n2 | x = 1\n  | ^\nunknown field `x`\n";
        assert_eq!(one_line(text), "TOML parse error at line 2, column 1: unknown field `x`");
    }
}
