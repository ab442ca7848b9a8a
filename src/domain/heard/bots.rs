//! Whether another bot is answered. A bot may be an agent, too: two that answer each other would never end.
//!
//! A group hears bots only if it wants to. A turn is a message of a bot that would wake the agent. After [`TURNS`] turns of one
//! bot in [`WITHIN_MS`], or [`TURNS_OF_ALL`] of all bots in a chat, a bot's messages are context: the agent reads them with the
//! next message, and they wake nobody. They count on, so the bot is answered again once it is quieter. The bound of all bots holds
//! where one is not known again: a webhook may have a new id for each message.

use ipc_handlers::{Time, words};

/// The turns of one bot that are answered in [`WITHIN_MS`].
pub const TURNS: usize = 8;
/// The turns of all bots of a chat that are answered in that time.
pub const TURNS_OF_ALL: usize = 24;
/// The time in which turns are counted, ms.
pub const WITHIN_MS: i64 = 600_000;
/// How many messages of a chat's bots are looked through for turns.
pub const LOOKED_THROUGH: usize = 500;
/// A chat is told of it at most once in that time, ms.
pub const TOLD_EVERY_MS: i64 = 3_600_000;
/// What a chat is told.
pub const TOLD: &str = "Other bots and I answer each other all the time: within 10 minutes one of them has written to me 8 times, or all of them 24 times. I read their messages, and answer none of them until it is quieter. Write to me if you want me to go on.";
/// Why it is not answered.
pub const WHY: &str = "in the 10 minutes before, this bot wrote to the agent 8 times or more, or all bots of the chat 24 times or more, so it is not answered until it is quieter";

words! {
    /// What a group makes of messages of other bots.
    #[derive(Default)]
    pub enum Bots: "treatment of bots" {
        /// They are nothing to it.
        #[default]
        Ignored = "ignored",
        /// They are heard as people are, up to a bound.
        Heard = "heard",
    }
}

/// A message of a bot that would wake the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub at: Time,
    /// Whether it is of the bot that is asked about.
    pub own: bool,
}

/// Whether a bot that takes a turn now, after these of its chat, is no longer answered.
#[must_use]
pub fn is_loop(turns: &[Turn], now: Time) -> bool {
    let recent = || turns.iter().filter(|turn| turn.at.0 > now.0 - WITHIN_MS);
    recent().filter(|turn| turn.own).count() >= TURNS || recent().count() >= TURNS_OF_ALL
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(of: impl IntoIterator<Item = i64>, own: bool) -> Vec<Turn> {
        of.into_iter().map(|seconds| Turn { at: Time(seconds * 1000), own }).collect()
    }

    #[test]
    fn eight_turns_are_answered_in_ten_minutes_and_the_ninth_is_not() {
        let eight = turns((0..8).map(|n| n * 10), true);
        assert!(!is_loop(&eight[1..], Time(71_000)));
        assert!(is_loop(&eight, Time(71_000)));
        // The first of them is ten minutes old: there is room for one.
        assert!(is_loop(&eight, Time(599_999)));
        assert!(!is_loop(&eight, Time(600_000)));
        assert!(!is_loop(&[], Time(0)));
    }

    #[test]
    fn bots_that_are_not_known_again_are_answered_24_times_in_ten_minutes() {
        let others = turns(0..24, false);
        assert!(!is_loop(&others[1..], Time(24_000)));
        assert!(is_loop(&others, Time(24_000)));
        assert!(!is_loop(&others, Time(600_000)));
        // Other bots leave one its own turns.
        let mixed = [turns(0..16, false), turns(0..7, true)].concat();
        assert!(!is_loop(&mixed, Time(24_000)));
    }

    #[test]
    fn two_bots_that_answer_each_other_at_once_end_and_one_that_goes_on_is_answered_at_times() {
        // Both hear the other; each message is a turn of who wrote it.
        let (mut taken, mut said, mut now) = ([Vec::new(), Vec::new()], 0, Time(0));
        while !is_loop(&taken[said % 2], now) {
            taken[said % 2].push(Turn { at: now, own: true });
            (said, now) = (said + 1, now.plus_ms(100));
            assert!(said < 100);
        }
        assert_eq!(said, 2 * TURNS);
        // A bot that speaks each second, answered or not, is not answered while it does; one each two minutes always is. If it
        // has a new name each time, it is answered more often, and no more without end.
        let answered = |every: i64, own: bool| {
            let all = turns((0..3600).map(|n| n * every), own);
            (0..all.len()).filter(|n| !is_loop(&all[..*n], all[*n].at)).count()
        };
        assert_eq!((answered(1, true), answered(120, true)), (TURNS, 3600));
        assert_eq!((answered(1, false), answered(120, false)), (TURNS_OF_ALL, 3600));
    }

    #[test]
    fn what_is_told_names_the_bounds() {
        assert_eq!((TURNS, TURNS_OF_ALL, WITHIN_MS), (8, 24, 10 * 60_000));
        for text in [TOLD, WHY] {
            assert!(text.contains("8 times") && text.contains("24 times"));
        }
    }
}
