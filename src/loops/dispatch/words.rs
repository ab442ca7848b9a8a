//! Words in a chat: who may say one, what is done for it, and what is answered.

use ipc_handlers::{Folder, Time};

use super::{
    Dispatch, Event, LaneId,
    judging::{NotJudged, because},
};
use crate::{
    config::Config,
    domain::{
        heard::{
            access::Standing,
            chat_commands::{
                Asked, May, Word,
                told::{self, Model, OF_ALL},
            },
            engage::{EngageVerdict, Rule},
        },
        rows::Group,
        runs::{
            budget::{Budget, Day},
            group_config::{GroupConfig, Key},
        },
    },
    ipc::peek,
    store::{self, Beside, Judged, Spoken, Store, Unjudged, Why, Wish},
    system::panics::caught,
};

/// For how long a model is known that some group has used, ms.
const MODELS_MS: i64 = 30 * 86_400_000;
/// How many such models are read.
const MODELS: usize = 100;

/// A word that somebody said who may, or who is told that they may not.
pub(super) struct Said {
    group: Folder,
    asked: Asked,
    may: May,
}

impl Dispatch {
    /// Returns the word that a message consists of, where it is one for its sender and the chat is its group's. A member who may not
    /// say it is told so where the message is for the agent.
    pub(super) async fn word_of(&mut self, row: &Unjudged) -> Result<Option<Said>, NotJudged> {
        let Some(group) = row.group.clone() else { return Ok(None) };
        let is_said = row.engage_mode.is_some() && !row.from_me && !row.bot && !row.late && !row.pressed;
        let said = self.runs.config.now().words.said(&row.text, &row.trigger, row.mentioned);
        let Some(asked) = said.filter(|_| is_said) else { return Ok(None) };
        let may = asked.word.may(row.standing, row.commands);
        let (listed, written) = (self.judging.listed(row), row.origin.no_command().is_none());
        let is_word =
            caught(async { may.is_word(row.standing, listed, written, || self.judging.wakes(row)) }).await;
        let is_word = is_word.map_err(|panicked| NotJudged::ours("judging a word", &panicked))?;
        Ok(is_word.then_some(Said { group, asked, may }))
    }

    /// Does what a word asks for, and returns how its message is judged.
    pub(super) async fn obey(&mut self, row: &Unjudged, said: Said) -> Result<Judged, NotJudged> {
        let Said { group, asked, may } = said;
        let now = self.runs.machine.world.now();
        let wish = match may {
            May::Yes => {
                let wish = self.wish(row, &group, &asked, now).await;
                match wish.map_err(because("reading what a word in a chat asks for"))? {
                    Some(wish) => wish,
                    None => return Ok(judged(row, "the group was removed".to_owned())),
                }
            }
            May::Refused | May::No => Wish::Refuse(told::refused(&asked.spelled)),
        };
        let spoken =
            Spoken { lane: row.lane, seq: row.seq, by: row.sender.clone(), word: asked.word.as_str() };
        let done = self.runs.store.heard_word(spoken, wish, now).await;
        let done = done.map_err(because("doing what a word in a chat asks for"))?;
        if let Some(run) = done.stops {
            self.hear(Event::StopAsked { group: group.clone(), run });
        }
        if done.wakes {
            self.tell(Event::Woken { group: group.clone(), lane: LaneId(row.lane) });
            for waiting in self.waiting_in(&group) {
                self.tell(Event::Waiting { group: group.clone(), waiting });
            }
        }
        if done.relaunches {
            self.hear(Event::CloseAsked { group });
        }
        Ok(judged(row, done.note))
    }

    /// Returns what is to be done for a word, with what is answered. `None`: the group was removed.
    async fn wish(
        &self,
        row: &Unjudged,
        group: &Folder,
        asked: &Asked,
        now: Time,
    ) -> store::Result<Option<Wish>> {
        let (store, config) = (&self.runs.store, self.runs.config.now());
        let Some(known) = store.group(group).await? else { return Ok(None) };
        Ok(Some(match (asked.word, &asked.name) {
            (Word::Stop, _) => Wish::Stop,
            (Word::Retry, _) => Wish::Retry,
            (Word::New, _) => Wish::New,
            (Word::Help, _) => Wish::Tell(told::help(&config.words, row.standing, row.commands)),
            (Word::Status, _) => {
                let stands = store.stands(group, row.lane)?;
                let problems = (row.standing == Standing::Owner).then(|| self.runs.machine.problems());
                let model = model(store, &config, &known, now)?;
                let machine = &self.runs.machine;
                let obstacle = machine.obstacle().map(|obstacle| obstacle.to_string());
                let lane = store.lanes_called(&[row.lane], now)?.into_iter().next().map(|mut lane| {
                    lane.wait_for_folder(|group| machine.lost().contains(group));
                    lane
                });
                let waits = lane.and_then(|lane| told::told_wait(&lane, obstacle.as_deref()));
                Wish::Tell(told::status(group.as_str(), &stands, waits.as_deref(), &model, problems, now))
            }
            (Word::Model, None) => {
                let model = model(store, &config, &known, now)?;
                let names = models(store, &known, &model, now)?;
                Wish::Tell(told::models(&model, &names, &asked.spelled))
            }
            (Word::Model, Some(name)) => {
                let name = if name.eq_ignore_ascii_case(OF_ALL) { "" } else { name };
                match own(&known).with(Key::Model, name) {
                    Ok(changed) => {
                        let of_all = config.run_settings().model;
                        let model = Model { own: changed.model, of_all, meanwhile: None };
                        Wish::Model { name: name.to_owned(), says: told::model_set(&model) }
                    }
                    Err(error) => Wish::Tell(error.to_string()),
                }
            }
            (Word::Tasks, _) => {
                let tasks = store.tasks_for(group, &row.chat_jid)?;
                let zone = store.zone_of(group, &config.zones).await?;
                Wish::Tell(told::tasks(&tasks, now, &zone.zone))
            }
            (Word::Why, _) => {
                let about = store.asked_about(row.seq)?;
                let why = about.map(|seq| store.why(seq, now)).transpose()?.flatten();
                let told = why.filter(|why| why.message.chat_jid == row.chat_jid);
                Wish::Tell(told.map_or_else(
                    || told::NO_MESSAGE.to_owned(),
                    |mut why| {
                        self.look_further(&mut why, group, now);
                        told::why(&why.message.shown, &why.answer)
                    },
                ))
            }
            (Word::Usage, _) => {
                let prices = &config.budget.prices;
                let day = Day::of(now, &config.zone.zone);
                let used = store.used_of_day(group, day, prices, now)?;
                let budget: Budget = config.budget.of(&known);
                Wish::Tell(told::usage(&used, &budget, !prices.is_empty()))
            }
        }))
    }
}

impl Dispatch {
    /// Says what the store can't know of a message: what keeps a group's work from beginning.
    fn look_further(&self, why: &mut Why, group: &Folder, now: Time) {
        why.keep_of(group);
        let machine = &self.runs.machine;
        let lost = machine.lost().clone();
        let data = self.runs.root.join("data");
        why.look_beside(&Beside {
            obstacle: machine.obstacle().map(|obstacle| obstacle.to_string()),
            lives: &|owner| owner == self.owner,
            is_lost: &|group| lost.contains(group),
            heard_of: &|group| peek::heard_of(&data, group, now),
        });
    }
}

/// A word is no message to an agent.
fn judged(row: &Unjudged, reason: String) -> Judged {
    Judged {
        n: row.n,
        read_as: row.read_as(),
        verdict: EngageVerdict::Ignore,
        rule: Rule::Word,
        reason,
        sticks: false,
        refused: None,
        answers: None,
    }
}

/// The settings that are a group's own. Other code reports those that can't be read.
fn own(group: &Group) -> GroupConfig {
    group.config().unwrap_or_default()
}

fn model(store: &Store, config: &Config, group: &Group, now: Time) -> store::Result<Model> {
    Ok(Model {
        own: own(group).model,
        of_all: config.run_settings().model,
        meanwhile: store.fallback_of(&group.folder, now)?,
    })
}

/// Returns the models that are known: those that settings name, and those that were used of late.
fn models(store: &Store, group: &Group, model: &Model, now: Time) -> store::Result<Vec<String>> {
    let named = [model.own.clone(), model.of_all.clone(), own(group).model_fallback];
    let mut all: Vec<String> = named.into_iter().flatten().collect();
    all.extend(store.models_since(now.plus_ms(-MODELS_MS), MODELS)?);
    let mut known = std::collections::BTreeSet::new();
    all.retain(|name| known.insert(name.clone()));
    Ok(all)
}
