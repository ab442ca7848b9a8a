//! The choice of the person to ask.

use ipc_handlers::Time;

/// Somebody who may answer a question, and where they can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub user: String,
    /// The chat in which they are asked, and the channel that it is on.
    pub chat: String,
    pub channel: String,
    /// Whether they are known to be in that chat: it was set for them, or they have written there. Otherwise it is but
    /// what their id looks like.
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

/// Why nobody is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Nobody {
    #[error("there is neither an owner nor an admin who could be asked; make one with `g2 users role`")]
    MayDecide,
    #[error("nobody who may decide can be reached: no channel of this daemon leads to one of them")]
    IsReachable,
}

/// Returns the person to ask: by class, then by the longest time in it. People on the channel of the question come first,
/// then people on one of `channels`. People who are not known to be in their chat come after all who are, and people who
/// could not be reached (`unreached`, a chat) last.
///
/// # Errors
/// [`Nobody`], and why.
pub fn whom_to_ask(
    mut candidates: Vec<Candidate>,
    origin: &str,
    channels: &[String],
    unreached: Option<&str>,
) -> Result<Candidate, Nobody> {
    if candidates.is_empty() {
        return Err(Nobody::MayDecide);
    }
    candidates.sort_by(|a, b| (a.class, a.granted_at, &a.user).cmp(&(b.class, b.granted_at, &b.user)));
    candidates.retain(|candidate| channels.contains(&candidate.channel));
    let fresh = |candidate: &&Candidate| unreached != Some(candidate.chat.as_str());
    let best = |known: bool| {
        let there = || candidates.iter().filter(fresh).filter(|candidate| candidate.known == known);
        there().find(|candidate| candidate.channel == origin).or_else(|| there().next())
    };
    best(true).or_else(|| best(false)).or(candidates.first()).cloned().ok_or(Nobody::IsReachable)
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

    fn ask(candidates: Vec<Candidate>, origin: &str, unreached: Option<&str>) -> Result<String, Nobody> {
        let channels = ["tg".to_owned(), "local".to_owned()];
        whom_to_ask(candidates, origin, &channels, unreached).map(|asked| asked.user)
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
            let asked = ask(left.clone(), "tg", None).unwrap();
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
        assert_eq!(ask(all.clone(), "tg", None).as_deref(), Ok("tg:owner"));
        assert_eq!(ask(all.clone(), "local", None).as_deref(), Ok("local:me"));
        assert_eq!(ask(all, "discord", None).as_deref(), Ok("local:me"), "nobody is there: by rank");
    }

    #[test]
    fn who_cannot_be_reached_is_passed_over() {
        let away = candidate("signal:1", Class::OfTheGroup, 1);
        let owner = candidate("local:me", Class::Owner, 2);
        assert_eq!(ask(vec![away.clone(), owner], "signal", None).as_deref(), Ok("local:me"));
        assert_eq!(ask(vec![away], "signal", None), Err(Nobody::IsReachable));
        assert_eq!(ask(vec![], "signal", None), Err(Nobody::MayDecide));
    }

    #[test]
    fn whoever_could_not_be_told_is_asked_again_only_when_nobody_else_is_left() {
        let (first, second) = (candidate("tg:1", Class::Owner, 1), candidate("local:me", Class::Owner, 2));
        assert_eq!(ask(vec![first.clone(), second], "tg", Some("tg:1")).as_deref(), Ok("local:me"));
        assert_eq!(ask(vec![first], "tg", Some("tg:1")).as_deref(), Ok("tg:1"));
    }

    #[test]
    fn a_chat_that_is_guessed_is_the_last_resort() {
        let guessed = Candidate { known: false, ..candidate("tg:1", Class::OfTheGroup, 1) };
        let owner = candidate("local:me", Class::Owner, 2);
        let all = vec![guessed.clone(), owner];
        assert_eq!(ask(all.clone(), "tg", None).as_deref(), Ok("local:me"));
        assert_eq!(ask(all, "tg", Some("local:me")).as_deref(), Ok("tg:1"));
        assert_eq!(ask(vec![guessed], "tg", None).as_deref(), Ok("tg:1"));
    }
}
