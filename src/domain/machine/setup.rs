//! From nothing to a first answer: which steps there are, how each stands, and what is done next. Nothing is remembered between
//! two times: each step is judged by the facts, so a set-up that was broken off goes on where it stood.

use super::image::ImageKind;
use crate::{
    platforms::accounts::{NoAdapter, check_adapter},
    runs::run_settings::Provider,
    time::zone::named_like,
};

/// How many zones are named at a time.
const ZONES: usize = 20;

/// A step, in the order in which they are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Root,
    Engine,
    Image,
    Key,
    Zone,
    Channel,
    Service,
    Answer,
    Owner,
}

/// All steps, in their order.
pub const STEPS: [Step; 9] = [
    Step::Root,
    Step::Engine,
    Step::Image,
    Step::Key,
    Step::Zone,
    Step::Channel,
    Step::Service,
    Step::Answer,
    Step::Owner,
];

impl Step {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Engine => "engine",
            Self::Image => "image",
            Self::Key => "key",
            Self::Zone => "time zone",
            Self::Channel => "channel",
            Self::Service => "service",
            Self::Answer => "answer",
            Self::Owner => "owner",
        }
    }
}

/// Whether the container engine answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Engine {
    Answers,
    /// It does not; why.
    Away(String),
    /// The settings want none.
    NotWanted,
}

/// What is known of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageThere {
    No,
    /// `claude`: it holds Claude Code. `ours`: its runner is this program's.
    Yes {
        claude: bool,
        ours: bool,
    },
}

/// The service of systemd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    Runs,
    /// It is installed, and does not run.
    Down,
    Absent,
    /// No service manager answers; why.
    NoManager(String),
}

/// The world as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Where the root is, or would be.
    pub root: String,
    pub is_root_there: bool,
    pub engine: Engine,
    /// The name of the image that the settings want.
    pub image: String,
    pub image_there: ImageThere,
    /// The agent that the settings name.
    pub provider: Provider,
    /// The kind of the key that is there.
    pub key: Option<&'static str>,
    /// The time zone in use, and whether somebody has set it.
    pub zone: String,
    pub is_zone_set: bool,
    /// Accounts on chat platforms.
    pub accounts: Vec<String>,
    /// Channels on which somebody is an owner.
    pub owned: Vec<String>,
    pub service: Service,
    /// A daemon answers.
    pub is_up: bool,
    /// It has other settings than those that are written now.
    pub needs_restart: bool,
}

impl Facts {
    /// Whether the way leads on to Claude Code: a person is asked, or a key is there to use it. One who has set another agent has chosen.
    fn leads_to_claude(&self, wishes: &Wishes) -> bool {
        match self.provider {
            Provider::Acp => false,
            Provider::Claude => true,
            Provider::Scripted => !wishes.yes || wishes.key == Some(KeyWish::Given),
        }
    }
}

/// What was said on the command line; `None`: the person is asked, or with `yes` the usual is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Nothing is asked.
    pub yes: bool,
    pub engine: Option<EngineWish>,
    pub image: Option<ImageWish>,
    /// A file with the key, or `-` for none.
    pub key: Option<KeyWish>,
    pub zone: Option<String>,
    /// `local`, or an account to add.
    pub channel: Option<String>,
    pub service: Option<Toggle>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineWish {
    /// It must answer.
    Docker,
    /// Go on without containers.
    Skip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageWish {
    Build(ImageKind),
    Skip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyWish {
    /// It is at hand.
    Given,
    Skip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toggle {
    Yes,
    No,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    MakeRoot,
    Build(ImageKind),
    /// Take the key, try it, keep it, and have agents be Claude Code.
    PutKey,
    /// Have agents be Claude Code, with the key that is there.
    UseKey,
    /// Ask the model's host whether it takes the key that is there: of this kind.
    TryKey(&'static str),
    SetZone(String),
    AddAccount(String),
    InstallService,
    /// Start the daemon in the background.
    Detach,
    SayHello,
    /// Show a code by which a person becomes an owner on the platform of each of these accounts, and wait for it.
    Claim(Vec<String>),
}

/// What a step comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is done already, or left out; why.
    Stands(String),
    /// This is done.
    Do(Act),
    /// A person is asked first.
    Ask(Question),
    /// It can't be done; the rest goes on. Why, and how to mend it.
    Lacks(String, String),
}

/// A question: what it is about, and what each answer does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub text: String,
    /// Letters or words, what each means, and what is done.
    pub choices: Vec<Choice>,
    /// The answer if nothing is typed.
    pub usual: &'static str,
    /// Whether any other word is an answer: a zone, an account.
    pub takes_words: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub key: &'static str,
    pub means: String,
    /// `None`: the step is left out.
    pub act: Option<Act>,
}

fn choice(key: &'static str, means: impl Into<String>, act: Option<Act>) -> Choice {
    Choice { key, means: means.into(), act }
}

fn yes_or_skip(text: String, act: Act) -> Question {
    let choices = vec![choice("y", "do it", Some(act)), choice("s", "skip", None)];
    Question { text, choices, usual: "y", takes_words: false }
}

/// Returns what a step comes to.
#[must_use]
pub fn next(step: Step, facts: &Facts, wishes: &Wishes) -> Next {
    let found = match step {
        Step::Root => root(facts),
        Step::Engine => engine(facts, wishes),
        Step::Image => image(facts, wishes),
        Step::Key => key(facts, wishes),
        Step::Zone => zone(facts, wishes),
        Step::Channel => channel(facts, wishes),
        Step::Service => service(facts, wishes),
        Step::Answer => Next::Do(Act::SayHello),
        Step::Owner => owner(facts, wishes),
    };
    match found {
        // With --yes the usual answer is given.
        Next::Ask(question) if wishes.yes => match taken(step, &question, "", &[]) {
            Ok(Some(act)) => Next::Do(act),
            Ok(None) | Err(_) => Next::Stands("left out".to_owned()),
        },
        next @ (Next::Stands(_) | Next::Do(_) | Next::Ask(_) | Next::Lacks(..)) => next,
    }
}

/// What was typed is no answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    #[error("{answer:?} is no answer; type one of {keys}")]
    Other { answer: String, keys: String },
    #[error("no time zone has {0:?} in its name; type a part of one, such as berlin or america")]
    NoZone(String),
    #[error("these have {part:?} in their names: {zones}")]
    Zones { part: String, zones: String },
    #[error("{0}; an adapter of your own: `g2 channels add NAME --program …` (docs/channel-protocol.md)")]
    NoAdapter(#[from] NoAdapter),
}

/// Returns what an answer asks for; `None`: the step is left out. `own`: the platforms that there are adapters for.
///
/// # Errors
/// It is no answer to this question.
pub fn taken(step: Step, question: &Question, answer: &str, own: &[&str]) -> Result<Option<Act>, NoAnswer> {
    let answer = answer.trim();
    let answer = if answer.is_empty() { question.usual } else { answer };
    if let Some(choice) = question.choices.iter().find(|choice| choice.key.eq_ignore_ascii_case(answer)) {
        return Ok(choice.act.clone());
    }
    if question.takes_words && step == Step::Zone {
        return zone_of(answer).map(|zone| Some(Act::SetZone(zone)));
    }
    if question.takes_words && step == Step::Channel {
        check_adapter(own, answer, None)?;
        return Ok(Some(Act::AddAccount(answer.to_owned())));
    }
    let keys: Vec<&str> = question.choices.iter().map(|choice| choice.key).collect();
    Err(NoAnswer::Other { answer: answer.to_owned(), keys: keys.join(", ") })
}

/// Reads a zone out of a part of its name.
fn zone_of(part: &str) -> Result<String, NoAnswer> {
    let zones = named_like(part);
    match zones[..] {
        [] => Err(NoAnswer::NoZone(part.to_owned())),
        [zone] => Ok(zone.to_owned()),
        [..] => {
            let mut named = zones[..zones.len().min(ZONES)].join(", ");
            if zones.len() > ZONES {
                named.push_str(&format!(" and {} more; type more of the name", zones.len() - ZONES));
            }
            Err(NoAnswer::Zones { part: part.to_owned(), zones: named })
        }
    }
}

fn root(facts: &Facts) -> Next {
    if facts.is_root_there {
        return Next::Stands(facts.root.clone());
    }
    Next::Ask(yes_or_skip(
        format!("Everything will lie in {}: settings, chats, the agents' folders. Make it?", facts.root),
        Act::MakeRoot,
    ))
}

/// How to get an engine.
pub const GET_DOCKER: &str = "on Debian: `sudo apt-get install docker.io`, then `sudo usermod -aG docker $USER`, log in again, \
                              and run `g2 setup` once more; who may use Docker rules the machine";

fn engine(facts: &Facts, wishes: &Wishes) -> Next {
    match (&facts.engine, wishes.engine) {
        (Engine::Answers, _) => Next::Stands("Docker answers".to_owned()),
        (Engine::NotWanted, _) => Next::Stands("left out: sandbox.kind = \"process\" in g2.toml".to_owned()),
        (Engine::Away(why), Some(EngineWish::Docker)) => Next::Lacks(why.clone(), GET_DOCKER.to_owned()),
        (Engine::Away(why), Some(EngineWish::Skip) | None) => Next::Stands(format!(
            "left out: {why}. The built-in agent runs as a plain process, without a boundary; for Claude Code {GET_DOCKER}"
        )),
    }
}

fn image(facts: &Facts, wishes: &Wishes) -> Next {
    if facts.engine != Engine::Answers {
        return Next::Stands("left out: no container engine".to_owned());
    }
    let name = &facts.image;
    // A wish is done where it is not yet so.
    match (wishes.image, facts.image_there) {
        (Some(ImageWish::Skip), _) => return Next::Stands("left out".to_owned()),
        (Some(ImageWish::Build(kind)), ImageThere::Yes { claude, ours: true })
            if claude == kind.has_claude() =>
        {
            return Next::Stands(format!("{name} is there"));
        }
        (Some(ImageWish::Build(kind)), _) => return Next::Do(Act::Build(kind)),
        (None, ImageThere::Yes { claude, ours: true }) if claude || !facts.leads_to_claude(wishes) => {
            let holds = if claude { "with Claude Code" } else { "with the built-in agent alone" };
            return Next::Stands(format!("{name} is there, {holds}"));
        }
        (None, _) => {}
    }
    let build = |kind: ImageKind| Some(Act::Build(kind));
    let bare_is_there = facts.image_there == ImageThere::Yes { claude: false, ours: true };
    let mut kinds = vec![("1", ImageKind::Full), ("2", ImageKind::Offline), ("3", ImageKind::Bare)];
    if bare_is_there {
        kinds.pop();
    }
    let mut choices: Vec<Choice> =
        kinds.into_iter().map(|(key, kind)| choice(key, kind.holds(), build(kind))).collect();
    choices.push(choice("s", if bare_is_there { "skip: the built-in agent answers" } else { "skip" }, None));
    // A person who was not asked waits for no gigabyte, unless a key is there to use them.
    let usual = match (wishes.yes, facts.key.is_some() || wishes.key == Some(KeyWish::Given)) {
        (true, false) => "3",
        (true, true) | (false, _) => "1",
    };
    let text = match facts.image_there {
        ImageThere::Yes { claude: false, ours: true } => {
            format!(
                "The image {name} has the built-in agent alone, which repeats what you say. Build one with Claude Code?"
            )
        }
        ImageThere::No => format!("Agents run in the image {name}. Which one shall be built?"),
        ImageThere::Yes { .. } => {
            format!("The image {name} was made for another version of g2. Which one shall be built?")
        }
    };
    Next::Ask(Question { text, choices, usual, takes_words: false })
}

fn key(facts: &Facts, wishes: &Wishes) -> Next {
    let is_claude = facts.provider == Provider::Claude;
    match (facts.key, wishes.key) {
        (_, Some(KeyWish::Given)) => Next::Do(Act::PutKey),
        (Some(kind), _) if is_claude => Next::Do(Act::TryKey(kind)),
        (_, Some(KeyWish::Skip)) => Next::Stands("left out: the built-in agent answers".to_owned()),
        (_, None) if facts.provider == Provider::Acp => {
            Next::Stands("left out: the agent has a way of its own".to_owned())
        }
        (_, None) if facts.image_there == (ImageThere::Yes { claude: true, ours: true }) && !wishes.yes => {
            if let Some(kind) = facts.key {
                return Next::Ask(Question {
                    text: format!(
                        "There is {kind}, and the built-in agent answers. Have Claude Code answer instead?"
                    ),
                    choices: vec![
                        choice("y", "use this key", Some(Act::UseKey)),
                        choice("n", "type in another key; it is not shown", Some(Act::PutKey)),
                        choice("s", "skip", None),
                    ],
                    usual: "y",
                    takes_words: false,
                });
            }
            Next::Ask(Question {
                text: "Claude Code needs a key of the API, or the token of `claude setup-token`. It is kept in .env, for you \
                       alone; no container gets it. Give one now?"
                    .to_owned(),
                choices: vec![
                    choice("y", "type it in; it is not shown", Some(Act::PutKey)),
                    choice("s", "skip: the built-in agent answers", None),
                ],
                usual: "y",
                takes_words: false,
            })
        }
        (None, None) if is_claude => Next::Lacks(
            "agents are Claude Code, and there is no key".to_owned(),
            "`g2 setup --key-file FILE`, or put ANTHROPIC_API_KEY=… into .env".to_owned(),
        ),
        (_, None) => Next::Stands("left out: the built-in agent needs none".to_owned()),
    }
}

fn zone(facts: &Facts, wishes: &Wishes) -> Next {
    match &wishes.zone {
        Some(zone) if facts.is_zone_set && *zone == facts.zone => Next::Stands(facts.zone.clone()),
        Some(zone) => Next::Do(Act::SetZone(zone.clone())),
        None if facts.is_zone_set => Next::Stands(facts.zone.clone()),
        None => Next::Ask(Question {
            text: format!(
                "Tasks run by your time zone. It seems to be {}. If it is another one, type a part of its name, such as berlin or \
                 america: a list follows.",
                facts.zone
            ),
            choices: vec![
                choice("y", "it is", Some(Act::SetZone(facts.zone.clone()))),
                choice("s", "skip", None),
            ],
            usual: "y",
            takes_words: true,
        }),
    }
}

fn channel(facts: &Facts, wishes: &Wishes) -> Next {
    match wishes.channel.as_deref() {
        Some("local") => Next::Stands("local: terminals of this machine".to_owned()),
        Some(name) if facts.accounts.iter().any(|account| account == name) => {
            Next::Stands(format!("{name} is there"))
        }
        Some(name) => Next::Do(Act::AddAccount(name.to_owned())),
        None if !facts.accounts.is_empty() => Next::Stands(facts.accounts.join(", ")),
        None => Next::Ask(Question {
            text: "Terminals of this machine reach the agent already (local). Add a chat platform?"
                .to_owned(),
            choices: vec![
                choice("s", "skip: local is enough", None),
                choice("telegram", "a bot of Telegram", Some(Act::AddAccount("telegram".to_owned()))),
                choice("discord", "a bot of Discord", Some(Act::AddAccount("discord".to_owned()))),
                choice("matrix", "an account of Matrix", Some(Act::AddAccount("matrix".to_owned()))),
                choice("slack", "an app of Slack", Some(Act::AddAccount("slack".to_owned()))),
                choice("whatsapp", "a number of WhatsApp", Some(Act::AddAccount("whatsapp".to_owned()))),
                choice("signal", "an account of signal-cli", Some(Act::AddAccount("signal".to_owned()))),
                choice("mail", "a mailbox of its own", Some(Act::AddAccount("mail".to_owned()))),
            ],
            usual: "s",
            takes_words: true,
        }),
    }
}

fn service(facts: &Facts, wishes: &Wishes) -> Next {
    let by_hand = "`g2 serve` runs it in the foreground; have your own supervisor run that";
    match (&facts.service, wishes.service) {
        (Service::Runs, _) if facts.needs_restart => Next::Do(Act::InstallService),
        (_, _) if facts.is_up && facts.needs_restart => Next::Lacks(
            "the daemon that runs needs a restart for the settings".to_owned(),
            "stop it with `g2 stop`, and run `g2 setup` again".to_owned(),
        ),
        (_, Some(Toggle::No)) => Next::Stands("left out: start the daemon with `g2 start`".to_owned()),
        (Service::Runs, _) => Next::Stands("it runs, and starts with the machine".to_owned()),
        (Service::NoManager(why), Some(Toggle::Yes)) => Next::Lacks(why.clone(), by_hand.to_owned()),
        (Service::NoManager(_), None) if facts.is_up => {
            Next::Stands("left out: a daemon runs already".to_owned())
        }
        (Service::NoManager(why), None) => Next::Ask(yes_or_skip(
            format!(
                "No service manager can run the daemon: {why}. Start it in the background now? It goes on when you log out, and does not \
                 start with the machine."
            ),
            Act::Detach,
        )),
        (Service::Absent | Service::Down, _) if facts.is_up => {
            Next::Stands("left out: a daemon runs already, and systemd did not start it".to_owned())
        }
        (Service::Absent | Service::Down, Some(Toggle::Yes)) => Next::Do(Act::InstallService),
        (Service::Absent | Service::Down, None) => Next::Ask(yes_or_skip(
            "Have systemd run the daemon, now and when the machine starts?".to_owned(),
            Act::InstallService,
        )),
    }
}

/// What makes somebody an owner later.
const LATER: &str = "`g2 users claim` makes you an owner there, from your phone";

fn owner(facts: &Facts, wishes: &Wishes) -> Next {
    let without: Vec<&str> =
        facts.accounts.iter().filter(|name| !facts.owned.contains(name)).map(String::as_str).collect();
    let there = without.join(", ");
    match (facts.accounts.is_empty(), there.is_empty()) {
        (true, _) => Next::Stands("you, at this machine".to_owned()),
        (false, true) => Next::Stands(format!("you, at this machine and on {}", facts.accounts.join(", "))),
        (false, false) if !facts.is_up => {
            Next::Stands(format!("left out, as no daemon runs: nobody is an owner on {there}; {LATER}"))
        }
        (false, false) if wishes.yes => {
            Next::Stands(format!("left out: nobody is an owner on {there}; {LATER}"))
        }
        (false, false) => Next::Ask(yes_or_skip(
            format!(
                "Who are you on {there}? You become the owner there by a code that you write to the bot. Otherwise \"/stop\" from your \
                 phone is a message like any other, and questions come to this machine alone."
            ),
            Act::Claim(without.iter().map(ToString::to_string).collect()),
        )),
    }
}

#[cfg(test)]
mod tests;
