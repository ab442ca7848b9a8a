//! A row of the report: a problem, or a check that passed.

use serde::{Serialize, Serializer};

use crate::{
    cli::wrap::hanging,
    domain::{
        problems::{Finding, Passed, Severity, checks::Check, mend::Mend},
        shown::{errors, screen::acts},
    },
};

/// One row of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Row {
    Passed(Passed),
    Found(Finding),
}

/// A row as programs and people see it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(in crate::cli) struct Told<'a> {
    pub(in crate::cli) check: Check,
    /// `ok`, or how bad it is.
    pub(in crate::cli) status: &'static str,
    /// The result in words.
    pub(in crate::cli) detail: &'a str,
    /// How to fix it; `None` if all is well.
    pub(super) fix: Option<&'a str>,
    /// The page that tells more; `None` if all is well.
    pub(super) see: Option<&'static str>,
}

impl Row {
    pub(super) fn ok(code: Check, text: impl Into<String>) -> Self {
        Self::Passed(Passed { code, about: String::new(), text: text.into() })
    }

    pub(super) fn warn(code: Check, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Found(Finding::warn(code, text, fix))
    }

    pub(super) fn fail(code: Check, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Found(Finding::fail(code, text, fix))
    }

    /// Returns this as a row about one group, image or file.
    pub(super) fn of(mut self, one: impl Into<String>) -> Self {
        match &mut self {
            Self::Passed(Passed { about, .. }) | Self::Found(Finding { about, .. }) => *about = one.into(),
        }
        self
    }

    /// Returns this with a way in which `--fix` mends it.
    pub(super) fn mended_by(mut self, by: Mend) -> Self {
        if let Self::Found(Finding { mend, .. }) = &mut self {
            *mend = Some(by);
        }
        self
    }

    /// Its check; how bad it is, `None`: all is well.
    pub(super) fn outcome(&self) -> (Check, Option<Severity>) {
        match self {
            Self::Passed(passed) => (passed.code, None),
            Self::Found(found) => (found.code, Some(found.severity)),
        }
    }

    pub(super) fn mend(&self) -> Option<&Mend> {
        if let Self::Found(found) = self { found.mend.as_ref() } else { None }
    }

    pub(super) fn is_fail(&self) -> bool {
        self.outcome().1 == Some(Severity::Fail)
    }

    pub(in crate::cli) fn told(&self) -> Told<'_> {
        match self {
            Self::Passed(Passed { code, text, .. }) => {
                Told { check: *code, status: "ok", detail: text, fix: None, see: None }
            }
            Self::Found(Finding { code, severity, text, fix, .. }) => Told {
                check: *code,
                status: severity.as_str(),
                detail: text,
                fix: Some(fix),
                see: Some(code.page()),
            },
        }
    }

    /// Whether a problem of the list is about the same, or one of both is about everything.
    fn is_told_by(&self, problem: &Finding) -> bool {
        let (Self::Passed(Passed { code, about, .. }) | Self::Found(Finding { code, about, .. })) = self;
        *code == problem.code && (about == &problem.about || about.is_empty() || problem.about.is_empty())
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.told().serialize(serializer)
    }
}

/// Returns the list of problems, and of `own` the rows about which it tells nothing; how such a row is mended goes over to the
/// problem.
pub(super) fn merged(mut list: Vec<Finding>, mut own: Vec<Row>) -> Vec<Row> {
    own.retain(|row| {
        let mut is_told = false;
        for problem in list.iter_mut().filter(|problem| row.is_told_by(problem)) {
            is_told = true;
            if let Some(mend) = row.mend() {
                problem.mend = Some(mend.clone());
            }
        }
        !is_told
    });
    list.into_iter().map(Row::Found).chain(own).collect()
}

/// Returns the rows for people: aligned, with each fix below its problem.
///
/// `docs`: the folder that holds `docs/`, with a slash at its end; empty if it is not known. On a terminal that is `screen`
/// columns wide a text goes on below itself.
pub(super) fn table(rows: &[Row], docs: &str, screen: Option<usize>) -> String {
    let width = rows.iter().map(|row| row.told().check.as_str().len()).max().unwrap_or(0);
    let hang = " ".repeat(width + 8);
    let lines = |head: String, words: &str| hanging(&head, words, &hang, screen.unwrap_or(usize::MAX)) + "\n";
    let mut text = String::new();
    for row in rows {
        let status = match row.outcome().1 {
            None => "ok  ",
            Some(Severity::Warn) => "WARN",
            Some(Severity::Fail) => "FAIL",
        };
        let told = row.told();
        text.push_str(&lines(format!("{status}  {:width$}  ", told.check.as_str()), &plain(told.detail)));
        if let Some(fix) = told.fix {
            text.push_str(&lines(format!("{hang}fix: "), &plain(fix)));
        }
        if let Some(see) = told.see {
            text.push_str(&format!("{hang}see: {docs}{see}\n"));
        }
    }
    let count = |severity| rows.iter().filter(|row| row.outcome().1 == Some(severity)).count();
    let (warned, failed) = (count(Severity::Warn), count(Severity::Fail));
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
            Row::ok(Check::Root, "there"),
            Row::warn(Check::Disk, "a\nb", "tidy up"),
            Row::fail(Check::Store, "no", "repair it"),
        ];
        let text = table(&rows, "/d/", None);
        assert!(text.contains("WARN  disk   a b\n             fix: tidy up\n"), "{text}");
        assert!(text.contains("             see: /d/docs/troubleshooting.md#the-machine\n"), "{text}");
        let narrow = table(&[Row::warn(Check::Disk, "a b c d", "tidy up soon")], "", Some(18));
        assert!(
            narrow.starts_with("WARN  disk  a b c\n            d\n            fix: tidy\n            up\n"),
            "{narrow}"
        );
        assert!(text.ends_with("1 failed, 1 to look at\n"), "{text}");
        assert!(table(&rows[..1], "", None).ends_with("all is well\n"));
    }
}
