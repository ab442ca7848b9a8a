//! A row of the report: the check, its result, the reason and the fix.

use std::borrow::Cow;

use serde::Serialize;

use crate::domain::host::{
    errors,
    problems::{Finding, Severity},
    screen::acts,
};

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    Ok,
    /// It works, but not as it should.
    Warn,
    /// Something does not work.
    Fail,
}

/// One row of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Row {
    pub(super) check: Cow<'static, str>,
    pub(super) status: Status,
    /// The result in words.
    pub(super) detail: String,
    /// How to fix it; `None` if all is well.
    pub(super) fix: Option<String>,
}

impl Row {
    pub(super) fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Self { check: check.into(), status: Status::Ok, detail: detail.into(), fix: None }
    }

    pub(super) fn warn(check: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check: check.into(), status: Status::Warn, detail: detail.into(), fix: Some(fix.into()) }
    }

    pub(super) fn fail(check: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check: check.into(), status: Status::Fail, detail: detail.into(), fix: Some(fix.into()) }
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
        }
    }
}

/// Returns the rows for people: aligned, with each fix below its problem.
pub(super) fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.check.len()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let status = match row.status {
            Status::Ok => "ok  ",
            Status::Warn => "WARN",
            Status::Fail => "FAIL",
        };
        text.push_str(&format!("{status}  {:width$}  {}\n", row.check, plain(&row.detail)));
        if let Some(fix) = &row.fix {
            text.push_str(&format!("      {:width$}  fix: {}\n", "", plain(fix)));
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
        let text = table(&rows);
        assert!(text.contains("WARN  disk   a b\n             fix: tidy up\n"), "{text}");
        assert!(text.ends_with("1 failed, 1 to look at\n"), "{text}");
        assert!(table(&rows[..1]).ends_with("all is well\n"));
    }
}
