//! One field of a cron expression: text → the numbers it names.

/// What a field may hold.
pub(super) struct Spec {
    /// Its name, for messages.
    pub(super) name: &'static str,
    pub(super) min: u32,
    pub(super) max: u32,
    /// Three letters or the whole word; the first names `min`.
    pub(super) words: &'static [&'static str],
    /// How it may look, for messages.
    pub(super) example: &'static str,
}

pub(super) const SECOND: Spec =
    Spec { name: "second", min: 0, max: 59, words: &[], example: "0, */15 or 10,40" };
pub(super) const MINUTE: Spec =
    Spec { name: "minute", min: 0, max: 59, words: &[], example: "0, */15 or 0,30" };
pub(super) const HOUR: Spec = Spec { name: "hour", min: 0, max: 23, words: &[], example: "9, 9-17 or */2" };
pub(super) const DAY_OF_MONTH: Spec =
    Spec { name: "day-of-month", min: 1, max: 31, words: &[], example: "1, 1-7 or L (the last day)" };
pub(super) const MONTH: Spec = Spec {
    name: "month",
    min: 1,
    max: 12,
    words: &[
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ],
    example: "1, JAN-MAR or */3",
};
/// 0 and 7 are Sunday.
pub(super) const DAY_OF_WEEK: Spec = Spec {
    name: "day-of-week",
    min: 0,
    max: 7,
    words: &["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"],
    example: "1-5, MON,WED, 5L (the last Friday) or 1#2 (the second Monday)",
};

/// Numbers from 0 to 63, one bit each.
pub(super) type Bits = u64;

impl Spec {
    /// Returns the text of a mistake; `fault` is about `item`, a part of the field.
    pub(super) fn fault(&self, item: &str, fault: &str) -> String {
        format!("the {} field: {} {fault}", self.name, crate::refusal::quoted(item))
    }

    /// Returns all numbers of the field.
    pub(super) fn all(&self) -> Bits {
        (self.min..=self.max).fold(0, |bits, n| bits | 1 << n)
    }

    /// Returns the numbers that one item (a list has several) names: `*`, `?`, `a`, `a-b`, each with `/step`.
    pub(super) fn item(&self, item: &str) -> Result<Bits, String> {
        let (base, step) = match item.split_once('/') {
            Some((base, step)) => (base, Some(self.step(item, step)?)),
            None => (item, None),
        };
        let (low, high) = match base.split_once('-') {
            _ if matches!(base, "*" | "?") => (self.min, self.max),
            Some((low, high)) => (self.number(item, low)?, self.range_end(item, low, high)?),
            None => {
                let low = self.number(item, base)?;
                (low, if step.is_some() { self.max } else { low })
            }
        };
        if high < low {
            return Err(self.fault(item, "is a range that runs backwards; write it as two, with a comma"));
        }
        Ok((low..=high).step_by(step.unwrap_or(1)).fold(0, |bits, n| bits | 1 << n))
    }

    /// Returns the number that a word or digits say.
    pub(super) fn number(&self, item: &str, text: &str) -> Result<u32, String> {
        if let Some(at) = self.words.iter().position(|word| is_word(text, word)) {
            return Ok(self.min + u32::try_from(at).unwrap_or(0));
        }
        if text.is_empty() || text.len() > 4 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(self.fault(item, "can't be understood"));
        }
        match text.parse::<u32>() {
            Ok(number) if (self.min..=self.max).contains(&number) => Ok(number),
            Ok(_) | Err(_) => Err(self.fault(item, &format!("is outside {}-{}", self.min, self.max))),
        }
    }

    /// Returns the end of a range; Sunday by name ends a range as 7 (`FRI-SUN`).
    fn range_end(&self, item: &str, low: &str, high: &str) -> Result<u32, String> {
        let number = self.number(item, high)?;
        let by_name = high.starts_with(|c: char| c.is_ascii_alphabetic());
        let whole_week = self.max == 7 && number == 0 && by_name && self.number(item, low)? > 0;
        Ok(if whole_week { 7 } else { number })
    }

    fn step(&self, item: &str, text: &str) -> Result<usize, String> {
        // What comes back to the start of the field at the same place is plain enough: */60 is every hour.
        let most = self.all().count_ones() as usize;
        let digits = !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<usize>() {
            Ok(0) if digits => Err(self.fault(item, "has a step of 0")),
            Ok(step) if digits && step > most => Err(self.fault(
                item,
                &format!("has a step over {most}; for longer distances use schedule_type \"interval\""),
            )),
            Ok(step) if digits => Ok(step),
            Ok(_) | Err(_) => Err(self.fault(item, "has a step that is no whole number")),
        }
    }
}

/// Returns whether the text is the word or its first three letters.
fn is_word(text: &str, word: &str) -> bool {
    text.eq_ignore_ascii_case(word) || text.eq_ignore_ascii_case(&word[..3])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(bits: Bits) -> Vec<u32> {
        (0..64).filter(|n| bits >> n & 1 == 1).collect()
    }

    #[test]
    fn items_name_their_numbers() {
        for (spec, item, named) in [
            (&HOUR, "9", vec![9]),
            (&HOUR, "09", vec![9]),
            (&HOUR, "9-11", vec![9, 10, 11]),
            (&HOUR, "*/6", vec![0, 6, 12, 18]),
            (&HOUR, "20/2", vec![20, 22]),
            (&HOUR, "1-7/3", vec![1, 4, 7]),
            (&HOUR, "1-3/24", vec![1]),
            (&MINUTE, "*/60", vec![0]),
            (&MONTH, "feb", vec![2]),
            (&MONTH, "OCT-December", vec![10, 11, 12]),
            (&MONTH, "*/5", vec![1, 6, 11]),
            (&DAY_OF_WEEK, "1/2", vec![1, 3, 5, 7]),
            (&DAY_OF_WEEK, "fri-SUN", vec![5, 6, 7]),
            (&DAY_OF_WEEK, "SUN-TUE", vec![0, 1, 2]),
            (&DAY_OF_WEEK, "SUN-SUN", vec![0]),
        ] {
            assert_eq!(spec.item(item).map(numbers), Ok(named), "{item}");
        }
        assert_eq!(MINUTE.item("*"), Ok(MINUTE.all()));
        assert_eq!(MINUTE.item("?"), Ok(MINUTE.all()));
    }

    #[test]
    fn an_item_that_cannot_be_meant_says_why() {
        for (spec, item, fault) in [
            (&MINUTE, "60", "is outside 0-59"),
            (&HOUR, "24", "is outside 0-23"),
            (&DAY_OF_MONTH, "0", "is outside 1-31"),
            (&DAY_OF_WEEK, "8", "is outside 0-7"),
            (&HOUR, "22-2", "backwards"),
            (&DAY_OF_WEEK, "FRI-MON", "backwards"),
            (&DAY_OF_WEEK, "5-0", "backwards"),
            (&MINUTE, "*/0", "step of 0"),
            (&MINUTE, "*/90", "\"interval\""),
            (&MINUTE, "*/-5", "no whole number"),
            (&MINUTE, "*/+5", "no whole number"),
            (&MINUTE, "*/", "no whole number"),
            (&MINUTE, "1/2/3", "no whole number"),
            (&MINUTE, "", "can't be understood"),
            (&MINUTE, "+5", "can't be understood"),
            (&MINUTE, "5-", "can't be understood"),
            (&MINUTE, "99999999999", "can't be understood"),
            (&MINUTE, "MON", "can't be understood"),
            (&HOUR, "9am", "can't be understood"),
            (&MONTH, "febr", "can't be understood"),
        ] {
            let message = spec.item(item).expect_err(item);
            assert!(message.contains(fault) && message.contains(spec.name), "{item}: {message}");
        }
    }
}
