//! A text that is said while it grows: how that which a platform shows becomes what it is to show.

use g2_text::Rendered;
use ipc_handlers::words;

words! {
    /// Whether a text that is said before it is whole is whole now.
    pub enum Growth: "growth" {
        Growing = "growing",
        Grown = "grown",
    }
}

/// The shortest and the longest time between two changes of a text, ms.
pub const PACE_MS: std::ops::RangeInclusive<u64> = 1..=60_000;

/// A change of one part, by its number from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is shown, and becomes another text.
    Change(u32, Rendered),
    /// It is shown, and goes.
    Remove(u32),
    /// It is not there yet.
    Add(u32, Rendered),
}

/// Returns what is left to do, in order, until a platform that shows `shown` shows `wanted`.
#[must_use]
pub fn steps(shown: &[Rendered], wanted: Vec<Rendered>) -> Vec<Step> {
    let count = u32::try_from(wanted.len()).unwrap_or(u32::MAX);
    let part = |(n, want): (u32, Rendered)| match shown.get(n as usize - 1) {
        Some(now) if *now == want => None,
        Some(_) => Some(Step::Change(n, want)),
        None => Some(Step::Add(n, want)),
    };
    let surplus = count.saturating_add(1)..=u32::try_from(shown.len()).unwrap_or(u32::MAX);
    let mut steps: Vec<Step> = (1..).zip(wanted).filter_map(part).collect();
    steps.extend(surplus.rev().map(Step::Remove));
    steps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn part(text: &str) -> Rendered {
        Rendered { text: text.to_owned(), ..Rendered::default() }
    }

    fn texts() -> impl Strategy<Value = Vec<Rendered>> {
        prop::collection::vec("[ab]{1,2}".prop_map(|text| part(&text)), 1..5)
    }

    proptest! {
        /// However often it is interrupted, and whatever was wanted meanwhile, the end is what is wanted last.
        #[test]
        fn what_is_shown_becomes_what_is_wanted(rounds in prop::collection::vec((texts(), 0..9_usize), 1..6), last in texts()) {
            let mut shown: Vec<Rendered> = Vec::new();
            let all = rounds.into_iter().chain([(last.clone(), usize::MAX)]);
            for (wanted, most) in all {
                for step in steps(&shown, wanted).into_iter().take(most) {
                    match step {
                        Step::Change(n, text) => shown[n as usize - 1] = text,
                        Step::Remove(n) => {
                            prop_assert_eq!(n as usize, shown.len());
                            shown.pop();
                        }
                        Step::Add(n, text) => {
                            prop_assert_eq!(n as usize, shown.len() + 1);
                            shown.push(text);
                        }
                    }
                }
            }
            prop_assert_eq!(&shown, &last);
            prop_assert_eq!(steps(&shown, last), vec![]);
        }
    }
}
