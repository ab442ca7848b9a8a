//! What people are told of a budget.

use ipc_handlers::{Folder, Time};
use jiff::tz::TimeZone;

use super::{Budget, Part, Stand, Used, percent, shown};

/// Returns how much of a part is used: `400 of 500 requests`.
#[must_use]
pub fn short(budget: &Budget, used: &Used, part: Part) -> String {
    let (bound, used) = (budget.bound(part).unwrap_or(0), used.of(part));
    let amount = |amount| match part {
        Part::Requests | Part::Tokens => format!("{amount}"),
        Part::Money => format!("{:.2}", shown(part, amount)),
        Part::Minutes => format!("{}", shown(part, amount)),
    };
    let what = match part {
        Part::Money => "of money".to_owned(),
        Part::Requests | Part::Tokens | Part::Minutes => part.to_string(),
    };
    format!("{} of {} {what}", amount(used), amount(bound))
}

/// Returns the warning to the owner of a group that has used most of its budget, or all of it.
#[must_use]
pub fn for_the_owner(group: &Folder, budget: &Budget, used: &Used, stand: Stand) -> Option<String> {
    let part = stand.part()?;
    let (share, what) = (percent(budget.bound(part)?, used.of(part)), short(budget, used, part));
    let told = if stand.is_out() {
        format!("The group {group} has used up today's budget ({what}), and waits for tomorrow.")
    } else {
        format!(
            "The group {group} has used {share} % of today's budget ({what}). When it is used up, the group waits for tomorrow."
        )
    };
    Some(format!("{told} `g2 groups set {group} budget.{part}=N` gives it more."))
}

/// Returns what a chat is told whose work waits. It may be public: no figures.
#[must_use]
pub fn for_a_chat(until: Time, zone: &TimeZone) -> String {
    let until = until.to_jiff().to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M");
    format!(
        "Today's budget for my work is used up. I go on at {until} with what waits, or as soon as my owner gives me more."
    )
}
