//! Updates that nobody can read: tried again one by one, then passed over, so that the next ones come. Pure.

use channel_protocol::Start;
use tokio::time::Instant;

use crate::kit::Unread;

/// How many updates are asked for at once.
const MOST: u32 = 100;

/// What the last answers were like.
#[derive(Clone, Debug)]
pub(super) struct Stuck(Unread);

impl Stuck {
    pub(super) fn of(start: &Start) -> Self {
        Self(Unread::of(start))
    }

    /// Returns how many updates are asked for: one, while one of them is in the way.
    pub(super) const fn limit(&self) -> u32 {
        if self.0.is_stuck() { 1 } else { MOST }
    }

    /// An answer could be read.
    pub(super) const fn read(&mut self) {
        self.0.read();
    }

    /// An answer could not be read. Returns the update that is passed over: the first one of it, where its number is known.
    pub(super) fn unread(&mut self, first: Option<i64>, now: Instant) -> Option<i64> {
        let is_enough = self.0.again(now);
        let first = first.filter(|_| is_enough)?;
        self.read();
        Some(first)
    }
}

/// Finds the number of the first update in an answer that is no JSON.
pub(super) fn first_number(answer: &[u8]) -> Option<i64> {
    const NAME: &[u8] = b"\"update_id\"";
    let at = answer.windows(NAME.len()).position(|window| window == NAME)? + NAME.len();
    let rest = answer[at..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let digits: Vec<u8> = rest.iter().copied().take_while(u8::is_ascii_digit).take(19).collect();
    str::from_utf8(&digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn one_update_is_tried_three_times_and_for_a_minute_by_itself_and_then_passed_over() {
        let now = Instant::now();
        let at = |s| now + Duration::from_secs(s);
        let mut stuck = Stuck::of(&Start::default());
        assert_eq!((stuck.limit(), stuck.unread(Some(7), at(0)), stuck.limit()), (100, None, 1));
        assert_eq!((stuck.unread(Some(7), at(1)), stuck.unread(Some(7), at(3))), (None, None));
        assert_eq!((stuck.limit(), stuck.unread(Some(7), at(60)), stuck.limit()), (1, Some(7), 100));
        stuck.unread(Some(8), at(100));
        stuck.read();
        assert_eq!(
            (stuck.limit(), stuck.unread(Some(8), at(200)), stuck.unread(Some(8), at(300))),
            (100, None, None)
        );
    }

    #[test]
    fn what_names_no_update_is_no_answer_and_passes_nothing_over() {
        let now = Instant::now();
        let mut stuck = Stuck::of(&Start::default());
        assert!((0..100).all(|s| stuck.unread(None, now + Duration::from_secs(s)).is_none()));
        assert_eq!(stuck.unread(Some(9), now + Duration::from_secs(100)), Some(9));
    }

    #[test]
    fn the_number_of_an_update_is_found_in_what_is_no_json() {
        for (text, number) in [
            (r#"{"ok":true,"result":[{"update_id":845,"message":{"text":"\x"#, Some(845)),
            ("{\"update_id\" : \n 7 , \"update_id\":8", Some(7)),
            ("<html>", None),
            (r#"{"update_id":"7"}"#, None),
            (r#"{"update_id":"#, None),
            (r#"{"update_id":9999999999999999999}"#, None),
            ("", None),
        ] {
            assert_eq!(first_number(text.as_bytes()), number, "{text}");
        }
        assert_eq!(first_number(b"\"update_id\":\xff1"), None);
    }
}
