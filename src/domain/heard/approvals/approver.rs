//! The choice of the person to ask, and of the next one where somebody is not reached.

use ipc_handlers::{Time, words};

/// Somebody who may answer a question, and where they can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub user: String,
    /// The chat in which they are asked, and the channel that it is on.
    pub chat: String,
    pub channel: String,
    /// Whether they are known to be in that chat: it was set for them, opened with them, or they have written there. Otherwise it is
    /// but what their id looks like.
    pub known: bool,
    pub class: Class,
    pub granted_at: Time,
}

/// Why somebody may answer; the first class is asked before the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// An admin of every group in question.
    OfTheGroup,
    /// An admin of everything.
    Admin,
    Owner,
}

words! {
    /// Why somebody who was to be asked was not, as the audit of the question has it.
    pub enum Missed: "reason why somebody was not asked" {
        /// Their chat could not be opened, or the card could not be said there.
        NotReached = "not reached",
        /// Their platform opens no chats.
        NoWay = "no way known",
    }
}

/// How somebody is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// In their chat.
    Card,
    /// A chat with them is opened first.
    Open,
}

/// At most this many people are asked for one question before it waits for another message.
pub const MOST_ASKED: usize = 8;

/// Why nobody is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Nobody {
    #[error("there is neither an owner nor an admin who could be asked; make one with `g2 users role`")]
    MayDecide,
    #[error("nobody who may decide can be reached: no channel of this daemon leads to one of them")]
    IsReachable,
}

/// Returns the person to ask, and how: by class, then by the longest time in it. People on the channel of the question come first,
/// then people on one of `channels`. People who were `missed` for this question, the one first who was missed first, come after all
/// others.
///
/// # Errors
/// [`Nobody`], and why.
pub fn whom_to_ask(
    candidates: Vec<Candidate>,
    origin: &str,
    channels: &[String],
    missed: &[(String, Missed)],
) -> Result<(Candidate, Way), Nobody> {
    if candidates.is_empty() {
        return Err(Nobody::MayDecide);
    }
    let candidates = reachable(candidates, channels);
    let again = || {
        let one = missed.iter().find_map(|(user, _)| candidates.iter().find(|one| one.user == *user))?;
        Some((one.clone(), way_to(one)))
    };
    next_to_ask(&candidates, origin, missed).or_else(again).ok_or(Nobody::IsReachable)
}

/// Returns the person to ask next where nobody has said anything anew: somebody who was not missed, otherwise somebody whose platform
/// opens no chats, in the chat that their id looks like. `candidates` are [`reachable`].
#[must_use]
pub fn next_to_ask(
    candidates: &[Candidate],
    origin: &str,
    missed: &[(String, Missed)],
) -> Option<(Candidate, Way)> {
    let of = |one: &Candidate| missed.iter().find(|(user, _)| *user == one.user).map(|(_, how)| *how);
    let best = |wanted: Option<Missed>| {
        let there = || candidates.iter().filter(|one| of(one) == wanted);
        there().find(|one| one.channel == origin).or_else(|| there().next())
    };
    if missed.len() >= MOST_ASKED {
        return None;
    }
    let fresh = best(None).map(|one| (one.clone(), way_to(one)));
    fresh.or_else(|| best(Some(Missed::NoWay)).map(|one| (one.clone(), Way::Card)))
}

/// Returns the candidates on one of `channels`, in the order in which they are asked.
#[must_use]
pub fn reachable(mut candidates: Vec<Candidate>, channels: &[String]) -> Vec<Candidate> {
    candidates.sort_by(|a, b| (a.class, a.granted_at, &a.user).cmp(&(b.class, b.granted_at, &b.user)));
    candidates.retain(|candidate| channels.contains(&candidate.channel));
    candidates
}

fn way_to(candidate: &Candidate) -> Way {
    if candidate.known { Way::Card } else { Way::Open }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(user: &str, class: Class, granted_at: i64) -> Candidate {
        let channel = user.split(':').next().unwrap().to_owned();
        Candidate {
            user: user.into(),
            chat: user.into(),
            channel,
            known: true,
            class,
            granted_at: Time(granted_at),
        }
    }

    fn ask(candidates: Vec<Candidate>, origin: &str) -> Result<String, Nobody> {
        asked(candidates, origin, &[]).map(|(user, _)| user)
    }

    fn asked(
        candidates: Vec<Candidate>,
        origin: &str,
        missed: &[(&str, Missed)],
    ) -> Result<(String, Way), Nobody> {
        let channels = ["tg".to_owned(), "local".to_owned()];
        let missed: Vec<_> = missed.iter().map(|(user, how)| ((*user).to_owned(), *how)).collect();
        whom_to_ask(candidates, origin, &channels, &missed).map(|(asked, way)| (asked.user, way))
    }

    #[test]
    fn admins_of_the_group_are_asked_before_admins_of_everything_before_owners() {
        let all = vec![
            candidate("tg:owner", Class::Owner, 1),
            candidate("tg:admin", Class::Admin, 2),
            candidate("tg:late", Class::OfTheGroup, 4),
            candidate("tg:early", Class::OfTheGroup, 3),
            candidate("tg:early", Class::Owner, 0),
        ];
        let mut left = all.clone();
        for expected in ["tg:early", "tg:late", "tg:admin", "tg:early", "tg:owner"] {
            let asked = ask(left.clone(), "tg").unwrap();
            assert_eq!(asked, expected);
            let first = left
                .iter()
                .enumerate()
                .filter(|(_, c)| c.user == asked)
                .min_by_key(|(_, c)| c.class)
                .map(|(i, _)| i)
                .unwrap();
            left.remove(first);
        }
    }

    #[test]
    fn somebody_on_the_channel_of_the_question_goes_before_everybody_else() {
        let all = vec![candidate("local:me", Class::OfTheGroup, 1), candidate("tg:owner", Class::Owner, 2)];
        assert_eq!(ask(all.clone(), "tg").as_deref(), Ok("tg:owner"));
        assert_eq!(ask(all.clone(), "local").as_deref(), Ok("local:me"));
        assert_eq!(ask(all, "discord").as_deref(), Ok("local:me"), "nobody is there: by rank");
    }

    #[test]
    fn who_cannot_be_reached_is_passed_over() {
        let away = candidate("signal:1", Class::OfTheGroup, 1);
        let owner = candidate("local:me", Class::Owner, 2);
        assert_eq!(ask(vec![away.clone(), owner], "signal").as_deref(), Ok("local:me"));
        assert_eq!(ask(vec![away], "signal"), Err(Nobody::IsReachable));
        assert_eq!(ask(vec![], "signal"), Err(Nobody::MayDecide));
    }

    #[test]
    fn somebody_who_was_missed_is_asked_again_only_when_nobody_else_is_left() {
        use Missed::NotReached as Not;
        let (first, second) = (candidate("tg:1", Class::Owner, 1), candidate("local:me", Class::Owner, 2));
        let both = vec![first.clone(), second];
        let user = |missed: &[(&str, Missed)]| asked(both.clone(), "tg", missed).unwrap().0;
        assert_eq!(user(&[("tg:1", Not)]), "local:me");
        assert_eq!(user(&[("tg:1", Not), ("local:me", Not)]), "tg:1", "the one that was missed first");
        assert_eq!(user(&[("local:me", Not), ("tg:1", Not)]), "local:me");
        assert_eq!(user(&[("tg:gone", Not), ("local:me", Not), ("tg:1", Not)]), "local:me");
        let channels = ["tg".to_owned(), "local".to_owned()];
        let missed = [("tg:1".to_owned(), Not), ("local:me".to_owned(), Not)];
        assert_eq!(next_to_ask(&reachable(both, &channels), "tg", &missed), None, "but by a new message");
    }

    #[test]
    fn a_chat_that_nobody_knows_is_opened_and_one_that_is_guessed_is_the_last_resort() {
        let unknown = Candidate { known: false, ..candidate("tg:1", Class::OfTheGroup, 1) };
        let owner = candidate("local:me", Class::Owner, 2);
        let all = vec![unknown.clone(), owner];
        let ask = |missed: &[(&str, Missed)]| asked(all.clone(), "tg", missed).unwrap();
        assert_eq!(ask(&[]), ("tg:1".into(), Way::Open));
        let refused = [("tg:1", Missed::NotReached)];
        assert_eq!(ask(&refused), ("local:me".into(), Way::Card));
        let no_way = [("tg:1", Missed::NoWay), ("local:me", Missed::NotReached)];
        assert_eq!(ask(&no_way[..1]), ("local:me".into(), Way::Card));
        assert_eq!(ask(&no_way), ("tg:1".into(), Way::Card), "its address is tried");
        let tried = [no_way[1], refused[0]];
        assert_eq!(ask(&tried), ("local:me".into(), Way::Card));
        assert_eq!(asked(vec![unknown], "tg", &refused), Ok(("tg:1".into(), Way::Open)));
    }

    #[test]
    fn for_one_question_only_so_many_people_are_asked_by_themselves() {
        let channels = ["tg".to_owned()];
        let all: Vec<Candidate> =
            (0..20).map(|n| candidate(&format!("tg:{n:02}"), Class::Owner, n)).collect();
        let all = reachable(all, &channels);
        let mut missed = Vec::new();
        while let Some((one, _)) = next_to_ask(&all, "tg", &missed) {
            missed.push((one.user, Missed::NotReached));
        }
        assert_eq!(missed.len(), MOST_ASKED);
    }
}
