//! What is told of rows that can't be taken, or are taken with a change: counted in full, and the first ones kept.

use ipc_handlers::words;
use schemars::JsonSchema;
use serde::Serialize;

use super::rows::Kind;

/// As many findings of one sort are kept with their words; the others are counted.
const KEPT: usize = 200;
/// The longest key or reason that is kept, characters.
const LONGEST: usize = 300;

words! {
    /// How much a finding matters.
    #[derive(JsonSchema)]
    pub enum Sort: "sort of finding" {
        /// It is not taken.
        Left = "left",
        /// It is taken with a change.
        Changed = "changed",
        /// It will act differently.
        Differs = "differs",
    }
}

/// Something to know of a row, a file or a whole source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    pub sort: Sort,
    pub kind: Kind,
    /// The row's key in its source, or a path below it.
    pub key: String,
    /// Why, in a sentence for people. It repeats no secret.
    pub why: String,
    /// The setting or command that changes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// Why something is not taken, in a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotTaken(pub String);

impl From<String> for NotTaken {
    fn from(why: String) -> Self {
        Self(why)
    }
}

impl From<&str> for NotTaken {
    fn from(why: &str) -> Self {
        Self(why.to_owned())
    }
}

impl From<NotTaken> for String {
    fn from(why: NotTaken) -> Self {
        why.0
    }
}

impl Finding {
    /// A row that is not taken.
    pub fn left(kind: Kind, key: impl Into<String>, why: impl Into<String>) -> Self {
        Self { sort: Sort::Left, kind, key: key.into(), why: why.into(), fix: None }
    }

    /// A row that is taken with a change.
    pub fn changed(kind: Kind, key: impl Into<String>, why: impl Into<String>) -> Self {
        Self { sort: Sort::Changed, ..Self::left(kind, key, why) }
    }

    /// Something that will act differently.
    pub fn differs(kind: Kind, key: impl Into<String>, why: impl Into<String>) -> Self {
        Self { sort: Sort::Differs, ..Self::left(kind, key, why) }
    }

    /// Names the setting or command that changes it.
    #[must_use]
    pub fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}

/// Findings in the order in which they were made: a bounded number of each sort and kind, and how many there were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Findings {
    pub kept: Vec<Finding>,
    /// How many there were of each sort and kind.
    pub counts: Vec<Count>,
}

/// How many findings of a sort and a kind there were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Count {
    pub sort: Sort,
    pub kind: Kind,
    pub count: u64,
}

impl Findings {
    /// Takes one in.
    pub fn add(&mut self, finding: Finding) {
        let same = |count: &&mut Count| count.sort == finding.sort && count.kind == finding.kind;
        let count = match self.counts.iter_mut().find(same) {
            Some(count) => {
                count.count += 1;
                count.count
            }
            None => {
                self.counts.push(Count { sort: finding.sort, kind: finding.kind, count: 1 });
                1
            }
        };
        if count <= KEPT as u64 {
            let short = |text: String| match text.char_indices().nth(LONGEST) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            };
            let Finding { sort, kind, key, why, fix } = finding;
            self.kept.push(Finding { sort, kind, key: short(key), why: short(why), fix: fix.map(short) });
        }
    }

    /// Takes all of others in.
    pub fn merge(&mut self, others: Self) {
        let Self { kept, counts } = others;
        let mut uncounted = counts;
        for finding in kept {
            let same = |count: &&mut Count| count.sort == finding.sort && count.kind == finding.kind;
            if let Some(count) = uncounted.iter_mut().find(same) {
                count.count -= 1;
            }
            self.add(finding);
        }
        for Count { sort, kind, count } in uncounted {
            if let Some(sum) = self.counts.iter_mut().find(|sum| sum.sort == sort && sum.kind == kind) {
                sum.count += count;
            }
        }
    }

    /// Returns how many of a sort there were.
    #[must_use]
    pub fn count(&self, sort: Sort) -> u64 {
        self.counts.iter().filter(|count| count.sort == sort).map(|count| count.count).sum()
    }
}

impl Extend<Finding> for Findings {
    fn extend<T: IntoIterator<Item = Finding>>(&mut self, findings: T) {
        findings.into_iter().for_each(|finding| self.add(finding));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_findings_as_a_source_makes_are_counted_and_few_are_kept() {
        let mut findings = Findings::default();
        findings.extend((0..1000).map(|n| Finding::left(Kind::Message, format!("{n}"), "x".repeat(5000))));
        findings.add(Finding::differs(Kind::Wiring, "a", "b").fix("g2 wirings set"));
        assert_eq!(findings.count(Sort::Left), 1000);
        assert_eq!(findings.kept.len(), KEPT + 1);
        let mut both = Findings::default();
        both.merge(findings.clone());
        both.merge(findings.clone());
        assert_eq!((both.count(Sort::Left), both.kept.len()), (2000, KEPT + 2));
        assert!(findings.kept.iter().all(|finding| finding.why.chars().count() <= LONGEST + 1));
    }
}
