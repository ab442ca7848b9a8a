//! How fast an account may speak, as its platform says: a text is sent once the account, the chat, and a group's minute have room.

use std::collections::BTreeMap;

use channel_protocol::Pace;

/// More chats than this are not remembered, but those that have to wait.
const MOST_CHATS: usize = 1024;

/// One limit: `burst` at once, then one each `gap_ms`.
#[derive(Clone, Copy, Debug)]
struct Limit {
    gap_ms: i64,
    burst: i64,
}

impl Limit {
    /// In how many ms the next one may go, where the last ones are used up until `used_until`.
    fn wait(self, used_until: i64, now_ms: i64) -> i64 {
        (used_until - now_ms - self.gap_ms * (self.burst - 1)).max(0)
    }

    fn take(self, used_until: &mut i64, now_ms: i64) {
        *used_until = (*used_until).max(now_ms) + self.gap_ms;
    }
}

/// The pace of one account. Time counts from any moment, in ms.
#[derive(Debug)]
pub struct Gate {
    account: Limit,
    chat: Limit,
    group: Limit,
    account_until: i64,
    /// Of each chat: the chat's own limit, and a group's.
    chats: BTreeMap<String, (i64, i64)>,
    /// The platform wants to be left alone until then.
    busy_until: i64,
}

impl Gate {
    /// A gate at which nobody has passed yet.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        let per = |ms: i64, count: u32| Limit {
            gap_ms: if count == 0 { 0 } else { ms / i64::from(count).min(ms) },
            burst: i64::from(count.max(1)),
        };
        let chat_ms = i64::try_from(pace.chat_ms).unwrap_or(i64::MAX).min(3_600_000);
        Self {
            account: per(1000, pace.account_per_s),
            chat: Limit { gap_ms: chat_ms, burst: 1 },
            group: per(60_000, pace.group_per_min),
            account_until: 0,
            chats: BTreeMap::new(),
            busy_until: 0,
        }
    }

    /// The platform wants to be left alone for so long.
    pub fn rest(&mut self, ms: i64, now_ms: i64) {
        self.busy_until = self.busy_until.max(now_ms.saturating_add(ms));
    }

    /// Lets one text pass, or returns in how many ms to ask again. `yields`: others go first who wait for the account.
    ///
    /// # Errors
    /// In how many ms to ask again, and whether it is the account that has no room.
    pub fn pass(&mut self, chat: &str, is_group: bool, yields: bool, now_ms: i64) -> Result<(), Wait> {
        let (own, minute) = self.chats.get(chat).copied().unwrap_or_default();
        let group = if is_group { self.group.wait(minute, now_ms) } else { 0 };
        let of_chat = self.chat.wait(own, now_ms).max(group);
        let of_account = self.account.wait(self.account_until, now_ms).max(self.busy_until - now_ms);
        if of_chat > 0 && of_chat >= of_account {
            return Err(Wait { ms: of_chat, account: false });
        }
        if of_account > 0 || (yields && self.account.gap_ms > 0) {
            return Err(Wait { ms: of_account.max(self.account.gap_ms).max(1), account: true });
        }
        self.account.take(&mut self.account_until, now_ms);
        let slot = self.chats.entry(chat.to_owned()).or_default();
        self.chat.take(&mut slot.0, now_ms);
        if is_group {
            self.group.take(&mut slot.1, now_ms);
        }
        if self.chats.len() > MOST_CHATS {
            self.chats.retain(|_, (own, minute)| (*own).max(*minute) > now_ms);
        }
        Ok(())
    }
}

/// When to ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    pub ms: i64,
    /// The account has no room; otherwise the chat.
    pub account: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When each of these chats may speak, asking as soon as it is told to.
    fn passes(pace: Pace, chats: &[(&str, bool)]) -> Vec<i64> {
        let mut gate = Gate::new(pace);
        let mut now = 0;
        let mut at = Vec::new();
        for (chat, is_group) in chats {
            while let Err(wait) = gate.pass(chat, *is_group, false, now) {
                now += wait.ms;
            }
            at.push(now);
        }
        at
    }

    #[test]
    fn a_chat_a_group_and_the_account_have_a_pace_each_and_0_is_none() {
        let pace = |chat_ms, group_per_min, account_per_s| Pace { chat_ms, group_per_min, account_per_s };
        let (a, b) = (("a", false), ("b", false));
        assert_eq!(passes(pace(0, 0, 0), &[a; 4]), [0; 4]);
        assert_eq!(passes(pace(1000, 0, 0), &[a, b, a, a]), [0, 0, 1000, 2000]);
        assert_eq!(passes(pace(0, 0, 2), &[a, b, a, b]), [0, 0, 500, 1000]);
        assert_eq!(passes(pace(0, 3, 0), &[("g", true); 5]), [0, 0, 0, 20_000, 40_000]);
        assert_eq!(passes(pace(0, 3, 0), &[a; 5]), [0; 5], "a person's chat is no group");
    }

    #[test]
    fn tasks_wait_for_people_only_where_the_account_has_a_limit_and_a_busy_platform_is_left_alone() {
        let mut gate = Gate::new(Pace { account_per_s: 10, ..Pace::default() });
        assert_eq!(gate.pass("a", false, true, 0), Err(Wait { ms: 100, account: true }));
        assert_eq!(gate.pass("a", false, false, 0), Ok(()));
        gate.rest(490_000, 0);
        assert_eq!(gate.pass("b", false, false, 0), Err(Wait { ms: 490_000, account: true }));
        assert_eq!(gate.pass("b", false, false, 490_000), Ok(()));
        let mut gate = Gate::new(Pace::default());
        assert_eq!(gate.pass("a", false, true, 0), Ok(()));
    }

    #[test]
    fn chats_that_need_not_wait_are_forgotten() {
        let mut gate = Gate::new(Pace { chat_ms: 10, ..Pace::default() });
        for n in 0..10_000 {
            assert_eq!(gate.pass(&n.to_string(), false, false, n), Ok(()));
        }
        assert!(gate.chats.len() <= MOST_CHATS + 1);
    }
}
