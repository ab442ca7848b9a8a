//! Whether another bot is answered. A bot may be an agent, too: two that answer each other would never end.
//!
//! A group hears bots only if it wants to. A turn is a message of a bot that would wake the agent. After [`TURNS`] turns of one
//! bot in [`WITHIN_MS`] its messages are context: the agent reads them with the next message, and they wake nobody. They count
//! on, so the bot is answered again once it is quieter.

use ipc_handlers::{Time, words};

/// The turns of one bot that are answered in [`WITHIN_MS`].
pub const TURNS: usize = 8;
/// The time in which turns are counted, ms.
pub const WITHIN_MS: i64 = 600_000;
/// How many of a bot's messages are looked through for turns.
pub const LOOKED_THROUGH: usize = 200;
/// A chat is told of it at most once in that time, ms.
pub const TOLD_EVERY_MS: i64 = 3_600_000;
/// What a chat is told.
pub const TOLD: &str = "Another bot and I have answered each other 8 times within 10 minutes. I read its messages, and answer none of them until it is quieter. Write to me if you want me to go on.";
/// Why it is not answered.
pub const WHY: &str = "this bot wrote to the agent 8 times or more in the 10 minutes before, so it is not answered until it is quieter";

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

/// Whether a bot that takes a turn now, after these, is no longer answered.
#[must_use]
pub fn is_loop(turns: &[Time], now: Time) -> bool {
    turns.iter().filter(|turn| turn.0 > now.0 - WITHIN_MS).count() >= TURNS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_turns_are_answered_in_ten_minutes_and_the_ninth_is_not() {
        let at = |seconds: &[i64]| seconds.iter().map(|s| Time(s * 1000)).collect::<Vec<_>>();
        let eight: Vec<i64> = (0..8).map(|n| n * 10).collect();
        assert!(!is_loop(&at(&eight[1..]), Time(71_000)));
        assert!(is_loop(&at(&eight), Time(71_000)));
        // The first of them is ten minutes old: there is room for one.
        assert!(is_loop(&at(&eight), Time(599_999)));
        assert!(!is_loop(&at(&eight), Time(600_000)));
        assert!(!is_loop(&[], Time(0)));
    }

    #[test]
    fn two_bots_that_answer_each_other_at_once_end_and_one_that_goes_on_is_answered_at_times() {
        // Both hear the other; each message is a turn of who wrote it.
        let (mut turns, mut said, mut now) = ([Vec::new(), Vec::new()], 0, Time(0));
        while !is_loop(&turns[said % 2], now) {
            turns[said % 2].push(now);
            (said, now) = (said + 1, now.plus_ms(100));
            assert!(said < 100);
        }
        assert_eq!(said, 2 * TURNS);
        // A bot that speaks each second, answered or not, is not answered while it does; one each two minutes always is.
        let answered = |every_ms: i64| {
            let all: Vec<Time> = (0..3600).map(|n| Time(n * every_ms)).collect();
            (0..all.len()).filter(|n| !is_loop(&all[..*n], all[*n])).count()
        };
        assert_eq!((answered(1000), answered(120_000)), (TURNS, 3600));
    }

    #[test]
    fn what_is_told_names_the_bound() {
        assert_eq!((TURNS, WITHIN_MS), (8, 10 * 60_000));
        assert!(TOLD.contains("8 times") && WHY.contains("8 times"));
    }
}
