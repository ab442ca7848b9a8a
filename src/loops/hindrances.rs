//! Sees what kept groups' runs from their work put right: another key, another model, an image that is there. Then what rests for it is tried
//! again at once. Without that it is tried again when its rest is over.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use ipc_handlers::{Folder, Time};
use tokio_util::sync::CancellationToken;

use super::Runs;
use crate::{
    domain::{
        machine::loops::LoopName,
        runs::{hindrance::Hindrance, lanes::Event},
        shown::feed::EventKind,
    },
    engine::{Either, Error, Loop, Plan, Then, Why, either},
    gateway::Credential,
    sandbox::SandboxError,
    store::HindranceRow,
    system::locked::Locked as _,
};

/// How often it is looked while something rests, and at most, however many runs begin and end.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Since when the image of a group was wanted and was not there, and whether it was still missing at the last look.
type Missing = BTreeMap<Folder, (Time, bool)>;

/// Sees put right what kept groups' runs from their work.
pub struct Hindrances {
    sight: Arc<Sight>,
    /// Nobody has looked since the last daemon.
    is_first: bool,
}

/// What the loop works with.
pub struct Sight {
    runs: Arc<Runs>,
    /// Groups whose hindrances an earlier daemon met: anything may have been put right since.
    perhaps: Mutex<BTreeSet<Folder>>,
    missing: Mutex<Missing>,
    /// The key with which each group was tried again last: once for each, as not all of them ask by the gateway.
    tried: Mutex<BTreeMap<Folder, Credential>>,
    /// What was asked for since the last look, and what was said.
    asked: Mutex<Asked>,
}

/// What groups share that rest for the same.
#[derive(Default)]
struct Asked {
    another_key: Option<Option<Credential>>,
    /// By image: whether it is there; `None`: nobody can tell.
    images: BTreeMap<String, Option<bool>>,
}

/// The work about a hindrance.
#[derive(Clone, Debug)]
pub enum Job {
    /// It rests: look whether it is put right.
    Look(HindranceRow),
    /// The model's host has answered a run of the group: nothing hinders it any more.
    IsOver,
}

/// How a hindrance stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Rests,
    IsOver,
    /// It is tried again, and nobody knows yet how that goes.
    IsTried,
    /// It may be tried again, and nobody does.
    Waits,
}

/// Decides how a hindrance stands. `answered`: whether the model's host has answered the group's run, which may be long before its
/// end; `None`: there is none.
fn stand(what: Hindrance, until: Time, answered: Option<bool>, now: Time) -> Stand {
    match answered {
        // A limit was lifted before its end.
        Some(true) if what.is_weather() => Stand::IsOver,
        _ if until > now => Stand::Rests,
        Some(true) if what.is_of_the_model() => Stand::IsOver,
        Some(false) if what.is_of_the_model() => Stand::IsTried,
        Some(_) | None => Stand::Waits,
    }
}

impl Hindrances {
    #[must_use]
    pub fn new(runs: Arc<Runs>) -> Self {
        let (perhaps, missing) = (Mutex::default(), Mutex::default());
        let (tried, asked) = (Mutex::default(), Mutex::default());
        Self { sight: Arc::new(Sight { runs, perhaps, missing, tried, asked }), is_first: true }
    }
}

impl Loop for Hindrances {
    const NAME: LoopName = LoopName::Hindrances;
    const FOLLOWS: &'static [EventKind] = &[EventKind::Run];
    const NOT_SOONER: Duration = LOOK_AGAIN;
    const AT_ONCE: usize = 8;
    const RESTS_AT_MOST: Duration = Duration::from_secs(10);
    type Key = Folder;
    type Job = Job;
    type Hands = Sight;

    fn hands(&self) -> Arc<Sight> {
        Arc::clone(&self.sight)
    }

    async fn look(&mut self, _: &Why<Folder>) -> Result<Plan<Folder, Job>, Error> {
        let Sight { runs, perhaps, missing, asked, .. } = &*self.sight;
        let rows = runs.store.hindrances()?;
        let active = if rows.is_empty() { Vec::new() } else { runs.store.active_runs()? };
        let waiting: BTreeSet<&Folder> =
            rows.iter().filter(|row| row.what == Hindrance::NoImage).map(|row| &row.group).collect();
        missing.locked().retain(|group, _| waiting.contains(group));
        let mut perhaps = perhaps.locked();
        if std::mem::take(&mut self.is_first) {
            perhaps.extend(rows.iter().map(|row| row.group.clone()));
        }
        perhaps.retain(|group| rows.iter().any(|row| row.group == *group));
        *asked.locked() = Asked::default();
        let (mut begin, mut again) = (Vec::new(), None);
        for row in rows {
            let answered = active.iter().find(|run| run.group == row.group);
            let answered = answered.and_then(|run| runs.gateway.has_answered(run.id));
            let stand = stand(row.what, row.until, answered, runs.machine.world.now());
            if stand == Stand::Waits {
                perhaps.remove(&row.group);
                continue;
            }
            again = Some(LOOK_AGAIN);
            match stand {
                Stand::Rests => begin.push((row.group.clone(), Job::Look(row))),
                Stand::IsOver => begin.push((row.group, Job::IsOver)),
                Stand::IsTried | Stand::Waits => {}
            }
        }
        Ok(Plan { begin, again, ..Plan::default() })
    }

    async fn perform(
        sight: Arc<Sight>,
        group: Folder,
        job: Job,
        stop: CancellationToken,
    ) -> Result<Then, Error> {
        match either(stop.cancelled(), sight.perform(&group, job)).await {
            Either::First(()) => Ok(Then::Done),
            Either::Second(done) => done.map(|()| Then::Done),
        }
    }
}

impl Sight {
    async fn perform(&self, group: &Folder, job: Job) -> Result<(), Error> {
        match job {
            Job::Look(row) => self.look_at(&row).await,
            Job::IsOver => {
                let woken = self.runs.store.hinders_no_more(group, self.runs.machine.world.now()).await?;
                self.runs.lanes.wake(group, &woken);
                Ok(())
            }
        }
    }

    /// Has what rests of a group tried again if what it rests for is put right.
    async fn look_at(&self, row: &HindranceRow) -> Result<(), Error> {
        let group = &row.group;
        if row.until <= self.runs.machine.world.now() {
            return Ok(());
        }
        let perhaps = self.perhaps.locked().contains(group);
        if !perhaps && !self.is_right(row).await? {
            return if row.ends.is_some() { self.prolong(group).await } else { Ok(()) };
        }
        tracing::info!(%group, what = %row.what, "what kept a group's runs from their work may be put right; it is tried again");
        let lanes = match self.runs.store.try_again(group, self.runs.machine.world.now()).await {
            Ok(lanes) => lanes,
            Err(error) => {
                // It is not seen to be put right twice.
                self.perhaps.locked().insert(group.clone());
                return Err(error.into());
            }
        };
        self.perhaps.locked().remove(group);
        if let Some(key) = self.asked.locked().another_key.clone().flatten() {
            self.tried.locked().insert(group.clone(), key);
        }
        self.runs.lanes.wake(group, &lanes);
        Ok(())
    }

    /// Has lanes that wait for the end of a limit rest until then.
    async fn prolong(&self, group: &Folder) -> Result<(), Error> {
        for lane in self.runs.store.prolong(group, self.runs.machine.world.now()).await? {
            let waiting = (&lane).into();
            self.runs.lanes.tell(Event::Waiting { group: group.clone(), waiting });
        }
        Ok(())
    }

    /// Whether it is seen to be put right.
    async fn is_right(&self, row: &HindranceRow) -> Result<bool, Error> {
        let now = self.runs.machine.world.now();
        if row.has_other_models || row.what.is_weather() && self.runs.store.may_fall_back(&row.group, now)? {
            return Ok(true);
        }
        match row.what {
            Hindrance::NoKey
            | Hindrance::Key
            | Hindrance::NotAllowed
            | Hindrance::NoCredit
            | Hindrance::NoModel
            | Hindrance::Limit
            | Hindrance::Busy => {
                let key = self.another_key().await?;
                Ok(key.is_some() && self.tried.locked().get(&row.group) != key.as_ref())
            }
            Hindrance::NoImage => {
                let Some(group) = self.runs.store.group(&row.group).await? else { return Ok(false) };
                // Settings that nothing can be run with are a problem of their own.
                let Ok((settings, _)) = self.runs.config.now().run_settings().for_group(&group) else {
                    return Ok(false);
                };
                let is_there = self.has_image(settings.image).await;
                Ok(is_back((&row.group, row.since), is_there, &mut self.missing.locked()))
            }
            Hindrance::Engine => Ok(false),
        }
    }

    /// The key, if it is another than the one that was refused last.
    async fn another_key(&self) -> Result<Option<Credential>, Error> {
        if let Some(known) = &self.asked.locked().another_key {
            return Ok(known.clone());
        }
        let gateway = Arc::clone(&self.runs.gateway);
        let key = self.runs.machine.world.blocking(move || gateway.another_key()).await?;
        self.asked.locked().another_key = Some(key.clone());
        Ok(key)
    }

    /// Whether an image is there; `None`: nobody can tell. The engine may be away, which is a problem of its own.
    async fn has_image(&self, image: String) -> Option<bool> {
        if let Some(known) = self.asked.locked().images.get(&image) {
            return *known;
        }
        let is_there = match self.runs.sandbox.check(&image).await {
            Ok(()) => Some(true),
            Err(SandboxError::NoImage { .. }) => Some(false),
            Err(_) => None,
        };
        self.asked.locked().images.insert(image, is_there);
        is_there
    }
}

/// Whether a group's image is there that was missing before: the run that met its want saw that, or a look did. One that was
/// there all the time is not what the run missed: it would be tried again and again without a rest.
fn is_back((group, since): (&Folder, Time), is_there: Option<bool>, missing: &mut Missing) -> bool {
    let seen = missing.entry(group.clone()).or_insert((since, true));
    if seen.0 != since {
        *seen = (since, true);
    }
    match is_there {
        Some(true) => std::mem::replace(&mut seen.1, false),
        Some(false) => {
            seen.1 = true;
            false
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_models_host_has_answered_is_over_before_its_run_ends() {
        let at = |what, until, answered| stand(what, Time(until), answered, Time(10));
        for answered in [None, Some(false), Some(true)] {
            assert_eq!(at(Hindrance::Key, 11, answered), Stand::Rests);
        }
        assert_eq!(at(Hindrance::Limit, 11, Some(false)), Stand::Rests);
        assert_eq!(at(Hindrance::Limit, 11, Some(true)), Stand::IsOver, "it was lifted");
        let stands = [Some(true), Some(false), None].map(|answered| at(Hindrance::Key, 10, answered));
        assert_eq!(stands, [Stand::IsOver, Stand::IsTried, Stand::Waits]);
        assert_eq!(at(Hindrance::NoImage, 10, Some(true)), Stand::Waits);
    }

    #[test]
    fn an_image_is_back_once_after_it_was_seen_missing() {
        let (main, mut missing) = (Folder::parse("main").unwrap(), Missing::new());
        let mut look = |since, is_there| is_back((&main, Time(since)), is_there, &mut missing);
        let looks = [Some(true), Some(true), Some(false), None, Some(false), Some(true), Some(true)];
        assert_eq!(looks.map(|is_there| look(1, is_there)), [true, false, false, false, false, true, false]);
        // Another want of it, later.
        assert_eq!(
            [Some(false), Some(true), Some(true)].map(|is_there| look(2, is_there)),
            [false, true, false]
        );
    }
}
