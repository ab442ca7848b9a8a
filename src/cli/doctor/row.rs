//! A row of the report: the check, its result, the reason and the fix.

use std::borrow::Cow;

use serde::Serialize;

use crate::{
    cli::wrap::hanging,
    domain::host::{
        errors,
        mend::Mend,
        pages::page,
        problems::{Finding, Severity},
        screen::acts,
    },
};

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::cli) enum Status {
    Ok,
    /// It works, but not as it should.
    Warn,
    /// Something does not work.
    Fail,
}

/// One row of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct Row {
    pub(in crate::cli) check: Cow<'static, str>,
    pub(in crate::cli) status: Status,
    /// The result in words.
    pub(in crate::cli) detail: String,
    /// How to fix it; `None` if all is well.
    pub(super) fix: Option<String>,
    /// The page that tells more; `None` if all is well.
    pub(super) see: Option<&'static str>,
    /// How `--fix` mends it, if it can.
    #[serde(skip)]
    pub(super) mend: Option<Mend>,
}

impl Row {
    pub(super) fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Self {
            check: check.into(),
            status: Status::Ok,
            detail: detail.into(),
            fix: None,
            see: None,
            mend: None,
        }
    }

    pub(super) fn warn(check: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { status: Status::Warn, ..Self::fail(check, detail, fix) }
    }

    pub(super) fn fail(check: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            check: check.into(),
            status: Status::Fail,
            detail: detail.into(),
            fix: Some(fix.into()),
            see: page(check),
            mend: None,
        }
    }

    /// Returns this with a way in which `--fix` mends it.
    pub(super) fn mended_by(self, mend: Mend) -> Self {
        Self { mend: Some(mend), ..self }
    }
}

impl From<&Finding> for Row {
    fn from(finding: &Finding) -> Self {
        Self {
            check: finding.code.clone(),
            status: match finding.severity {
                Severity::Fail => Status::Fail,
                Severity::Warn => Status::Warn,
            },
            detail: finding.text.clone(),
            fix: Some(finding.fix.clone()),
            see: page(&finding.code),
            mend: match &*finding.code {
                "secrets" => Some(Mend::CloseFile(finding.about.clone().into())),
                _ => None,
            },
        }
    }
}

/// Returns the rows for people: aligned, with each fix below its problem.
///
/// `docs`: the folder that holds `docs/`, with a slash at its end; empty if it is not known. On a terminal that is `screen`
/// columns wide a text goes on below itself.
pub(super) fn table(rows: &[Row], docs: &str, screen: Option<usize>) -> String {
    let width = rows.iter().map(|row| row.check.len()).max().unwrap_or(0);
    let hang = " ".repeat(width + 8);
    let lines = |head: String, words: &str| hanging(&head, words, &hang, screen.unwrap_or(usize::MAX)) + "\n";
    let mut text = String::new();
    for row in rows {
        let status = match row.status {
            Status::Ok => "ok  ",
            Status::Warn => "WARN",
            Status::Fail => "FAIL",
        };
        text.push_str(&lines(format!("{status}  {:width$}  ", row.check), &plain(&row.detail)));
        if let Some(fix) = &row.fix {
            text.push_str(&lines(format!("{hang}fix: "), &plain(fix)));
        }
        if let Some(see) = row.see {
            text.push_str(&format!("{hang}see: {docs}{see}\n"));
        }
    }
    let count = |status| rows.iter().filter(|row| row.status == status).count();
    let (warned, failed) = (count(Status::Warn), count(Status::Fail));
    text.push_str(&match (warned, failed) {
        (0, 0) => "all is well\n".to_owned(),
        (warned, failed) => format!("{failed} failed, {warned} to look at\n"),
    });
    text
}

/// One line, safe for a terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if acts(c) { ' ' } else { c }).collect()
}

/// Returns an error with its causes, on one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    plain(&errors::chain(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_each_fix_below_its_problem_and_a_sum() {
        let rows = [
            Row::ok("root", "there"),
            Row::warn("disk", "a\nb", "tidy up"),
            Row::fail("store", "no", "repair it"),
        ];
        let text = table(&rows, "/d/", None);
        assert!(text.contains("WARN  disk   a b\n             fix: tidy up\n"), "{text}");
        assert!(text.contains("             see: /d/docs/troubleshooting.md#the-machine\n"), "{text}");
        let narrow = table(&[Row::warn("disk", "a b c d", "tidy up soon")], "", Some(18));
        assert!(
            narrow.starts_with("WARN  disk  a b c\n            d\n            fix: tidy\n            up\n"),
            "{narrow}"
        );
        assert!(text.ends_with("1 failed, 1 to look at\n"), "{text}");
        assert!(table(&rows[..1], "", None).ends_with("all is well\n"));
    }
}
