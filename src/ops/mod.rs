#![doc = include_str!("README.md")]

use std::{collections::BTreeMap, future::Future, path::Path, pin::Pin, sync::Arc};

use ipc_handlers::Folder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    config::Config,
    domain::{machine::loops::LoopName, platforms::chats::Listed},
    ipc::{Claimed, GroupBoxes, Owner},
    store::Store,
    system::{failpoint, world::World},
};

pub mod alone;
pub mod args;
mod asked;
pub mod audit;
mod by;
mod error;
mod schema;

mod commands;

pub mod approvals;
pub mod backup;
pub mod channels;
pub mod chats;
pub mod config;
pub mod egress;
pub mod groups;
pub mod ipc;
pub mod lanes;
pub mod loops;
pub mod messages;
pub mod moving;
pub mod notices;
pub mod outbox;
pub mod people;
pub mod restored;
pub mod runs;
pub mod sessions;
pub mod tasks;
pub mod web;
pub mod wirings;

pub use alone::Alone;
pub use asked::Loss;
pub use by::{Asker, By};
pub use error::{OpCode, OpError, missing};
pub use schema::{Described, Is, schema};

/// What an operation works on.
pub struct Site<'a> {
    pub world: &'a World,
    pub root: &'a Path,
    /// The settings, or why they can't be read.
    pub settings: Result<&'a Config, &'a str>,
    pub store: &'a Store,
    /// User and group of containers; `None`: our own.
    pub box_owner: Option<Owner>,
    pub keeper: &'a dyn Keeper,
}

impl Site<'_> {
    /// Returns the settings.
    ///
    /// # Errors
    /// Why they can't be read.
    fn config(&self) -> Result<&Config, OpError> {
        self.settings.map_err(|why| OpError::new(OpCode::Failed, why))
    }

    /// Returns a group's row.
    ///
    /// # Errors
    /// There is none; the store's.
    async fn group(&self, folder: &Folder) -> Result<crate::domain::rows::Group, OpError> {
        self.store
            .group(folder)
            .await?
            .ok_or_else(|| OpError::not_found(format!("group {folder} does not exist")))
    }
}

/// Work that is waited for.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Who keeps a root while an operation runs: the daemon that serves it, or a program that holds its lock.
pub trait Keeper: Send + Sync {
    /// Has everybody look at what was changed in the store, about a group or about who knows what. Done when the boxes are
    /// as they should be, and the snapshots.
    ///
    /// # Errors
    /// The world's.
    fn changed<'a>(&'a self, group: Option<&'a Folder>) -> Later<'a, Result<(), OpError>>;

    /// Has the settings hold that stand in the files now, as far as no restart is needed, and the accounts on platforms follow
    /// them. Done when those that are gone have left.
    fn settings(&self) -> Later<'_, ()>;

    /// Tells that a message waits in a lane of a group.
    fn waits(&self, group: &Folder, lane: i64);

    /// Tells that somebody has ended the rests of these lanes of a group.
    fn wake(&self, group: &Folder, lanes: &[i64]);

    /// Has what is left of the mailbox of a group that is gone removed, so that a new group of that name begins with an empty one.
    /// Nothing is done to that of a group that is there.
    ///
    /// # Errors
    /// The world's; commands of the one that is gone are not settled, and nobody is there who settles them.
    fn clear<'a>(&'a self, group: &'a Folder) -> Later<'a, Result<(), OpError>>;

    /// Has the rules about hosts outside hold that the store has of a group, for its live run too.
    ///
    /// # Errors
    /// Those of the store.
    fn rules_changed(&self, group: &Folder) -> Result<(), OpError>;

    /// Asks a group's live run to leave: its next one needs other settings than this one has.
    fn relaunch(&self, group: &Folder);

    /// Tells that a group that had lost its folder has one again.
    fn has_its_folder(&self, group: &Folder);

    /// Tells that a person wants a group's run of this number ended; how is on its row.
    fn stop_run(&self, group: &Folder, run: i64);

    /// Has nothing started in a group until [`Keeper::let_in`], as it is being removed.
    ///
    /// # Errors
    /// Refused, when another removal of it is under way.
    fn keep_out(&self, group: &Folder) -> Result<(), OpError>;

    /// Ends [`Keeper::keep_out`]. For whatever else the group is held, it stays held.
    fn let_in(&self, group: &Folder);

    /// Has the run of a group leave that is to be removed, and settles what lies in its boxes, as far as the group's limits let it.
    ///
    /// # Errors
    /// The run does not end, or commands that are claimed can't be settled, or a box can't be read: then it stays.
    fn empty<'a>(&'a self, group: &'a Folder) -> Later<'a, Result<(), OpError>>;

    /// Has the mailbox of a group that was removed go, and frees its name. Returns how many commands went unread.
    ///
    /// # Errors
    /// The world's; its commands are not settled. The daemon tries again, each minute and at its start, and no group of that name
    /// is made before.
    fn put_away<'a>(&'a self, group: &'a Folder) -> Later<'a, Result<usize, OpError>>;

    /// Returns a group's boxes, opening them where they are not.
    ///
    /// # Errors
    /// The world's.
    fn boxes(&self, group: &Folder) -> Result<Arc<GroupBoxes>, OpError>;

    /// Returns the means to act on commands.
    ///
    /// # Errors
    /// The world's.
    fn hand(&self) -> Result<ipc::ByHand<'_>, OpError>;

    /// Has a claimed command settled as it is, by who settles its group's. Where nobody does, it is given back.
    fn settle(&self, claimed: Claimed) -> Later<'_, Option<Claimed>>;

    /// Asks accounts for their chats, at most once a minute each. Returns what came of it, but of those that have not answered in time.
    fn list_chats<'a>(&'a self, accounts: &'a [String]) -> Later<'a, BTreeMap<String, Listed>>;

    /// Lets keys of a loop go on that were set aside or rest after a failure: one, or all. Returns how many do; without a daemon
    /// no key rests.
    ///
    /// # Errors
    /// The loop does not come round.
    fn release_keys<'a>(&'a self, name: LoopName, key: Option<&'a str>) -> Later<'a, Result<usize, OpError>>;

    /// Tells that a text for an owner waits for a program, or for an address on the web.
    fn pushes(&self);

    /// Tells that a person asks for a backup.
    fn backs_up(&self);

    /// Whether a run may begin meanwhile, so that emptying the group again is worth it.
    fn is_serving(&self) -> bool;
}

/// What came of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Done<R> {
    /// What was made or changed, as it is now; of what was removed, as it was.
    pub row: R,
    /// What was done, in one sentence for people.
    pub says: String,
    /// Further notes for people, a sentence each.
    pub notes: Vec<String>,
}

impl<R> Done<R> {
    fn new(row: R, says: impl Into<String>) -> Self {
        Self { row, says: says.into(), notes: Vec::new() }
    }

    fn noting(mut self, notes: impl IntoIterator<Item = String>) -> Self {
        self.notes.extend(notes);
        self
    }
}

/// What came of an operation, as it is told over the socket and by `--json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// What was made or changed, as it is now; of what was removed, as it was.
    pub row: Value,
    /// What was done, in one sentence for people.
    pub says: String,
    /// Further notes for people, a sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The arguments of one operation, and what it does.
trait Operation {
    /// What it makes or changes.
    type Row: Serialize + JsonSchema;

    /// Does it.
    fn run(self, site: &Site<'_>, by: &By) -> impl Future<Output = Result<Done<Self::Row>, OpError>> + Send;
}

async fn erased<O: Operation>(operation: O, site: &Site<'_>, by: &By) -> Result<Answer, OpError> {
    let Done { row, says, notes } = operation.run(site, by).await?;
    let row = serde_json::to_value(row).map_err(|error| OpError::new(OpCode::Failed, error.to_string()))?;
    Ok(Answer { row, says, notes })
}

/// The one list of operations: what each is called, its arguments, what it does, and who but the owner may ask for it.
macro_rules! operations {
    ($( $variant:ident = $name:literal: $args:ty, by [$($who:ident),*]; )+) => {
        /// An operation with its arguments.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[serde(tag = "name", content = "args")]
        pub enum Op {
            $( #[serde(rename = $name)] $variant($args), )+
        }

        impl Op {
            /// Every operation.
            pub const ALL: &'static [Described] =
                &[$(Described::of::<$args, <$args as Operation>::Row>($name, &[$(Asker::$who),*])),+];

            /// Returns the name.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $( Self::$variant(_) => $name, )+ }
            }

            /// Does it. Nothing is looked at but the operation's own rules.
            async fn act(self, site: &Site<'_>, by: &By) -> Result<Answer, OpError> {
                match self { $( Self::$variant(args) => Box::pin(erased(args, site, by)).await, )+ }
            }
        }

        $( impl From<$args> for Op {
            fn from(args: $args) -> Self {
                Self::$variant(args)
            }
        } )+
    };
}

operations! {
    GroupsAdd = "groups.add": groups::add::Args, by [Page];
    GroupsSet = "groups.set": groups::set::Args, by [Page];
    GroupsEdit = "groups.edit": groups::edit::Args, by [Page];
    GroupsBack = "groups.back": groups::back::Args, by [Page];
    GroupsRestart = "groups.restart": groups::restart::Args, by [Page, Token];
    GroupsRestore = "groups.restore": groups::restore::Args, by [Page];
    GroupsRenew = "groups.renew": groups::renew::Args, by [Page];
    GroupsRemove = "groups.remove": groups::remove::Args, by [Page];
    EgressAllow = "egress.allow": egress::allow::Args, by [Page];
    EgressDeny = "egress.deny": egress::deny::Args, by [Page];
    EgressRemove = "egress.remove": egress::remove::Args, by [Page];
    WiringsAdd = "wirings.add": wirings::add::Args, by [Page];
    WiringsSet = "wirings.set": wirings::set::Args, by [Page];
    WiringsUnstick = "wirings.unstick": wirings::unstick::Args, by [Page];
    WiringsRemove = "wirings.remove": wirings::remove::Args, by [Page];
    UsersAdd = "users.add": people::add::Args, by [Page];
    UsersRole = "users.role": people::give_role::Args, by [Page];
    UsersClaim = "users.claim": people::claim::Args, by [Page];
    UsersRemove = "users.remove": people::remove::Args, by [Page];
    MembersAdd = "members.add": people::add_member::Args, by [Page];
    MembersRemove = "members.remove": people::remove_member::Args, by [Page];
    ChatsSet = "chats.set": people::set_chat::Args, by [Page];
    ChatsRefresh = "chats.refresh": chats::refresh::Args, by [Page];
    DroppedClear = "dropped.clear": people::clear_dropped::Args, by [Page];
    ApprovalsApprove = "approvals.approve": approvals::approve::Args, by [Page, Person];
    ApprovalsDeny = "approvals.deny": approvals::deny::Args, by [Page, Person];
    ApprovalsDenyMany = "approvals.deny_many": approvals::deny_many::Args, by [Person];
    TasksAdd = "tasks.add": tasks::add::Args, by [Agent];
    TasksUpdate = "tasks.update": tasks::update::Args, by [Agent];
    TasksPause = "tasks.pause": tasks::pause::Args, by [Page, Token, Agent];
    TasksResume = "tasks.resume": tasks::resume::Args, by [Page, Token, Agent];
    TasksCancel = "tasks.cancel": tasks::cancel::Args, by [Page, Agent];
    TasksRun = "tasks.run": tasks::run::Args, by [Page, Token];
    LanesWake = "lanes.wake": lanes::wake::Args, by [Page, Token];
    LoopsRelease = "loops.release": loops::release::Args, by [Page, Token];
    SessionsAdopt = "sessions.adopt": sessions::adopt::Args, by [];
    SessionsArchive = "sessions.archive": sessions::archive::Args, by [Page, Agent];
    SessionsDelete = "sessions.delete": sessions::delete::Args, by [Page];
    SessionsResume = "sessions.resume": sessions::resume::Args, by [Page, Agent];
    SessionsClear = "sessions.clear": sessions::clear::Args, by [Page, Agent];
    IpcHold = "ipc.hold": ipc::hold::Args, by [Page, Token];
    IpcRelease = "ipc.release": ipc::release::Args, by [Page, Token];
    IpcDrop = "ipc.drop": ipc::drop::Args, by [Page, Token];
    IpcRetry = "ipc.retry": ipc::retry::Args, by [Page, Token];
    IpcSend = "ipc.send": ipc::send::Args, by [];
    MessagesSkip = "messages.skip": messages::skip::Args, by [Page, Token];
    RunsSay = "runs.say": runs::say::Args, by [];
    RunsStop = "runs.stop": runs::stop::Args, by [Page, Token];
    OutboxDrop = "outbox.drop": outbox::drop::Args, by [Page, Token];
    OutboxSay = "outbox.say": outbox::say::Args, by [];
    OutboxRetry = "outbox.retry": outbox::retry::Args, by [Page, Token];
    NoticesNote = "notices.note": notices::note::Args, by [Page];
    NoticesTry = "notices.try": notices::try_now::Args, by [Page];
    BackupNow = "backup.now": backup::now::Args, by [Page];
    RestoredResume = "restored.resume": restored::resume::Args, by [];
    RestoredDrop = "restored.drop": restored::drop::Args, by [];
    Import = "import": moving::import::Args, by [];
    ConfigSet = "config.set": config::set::Args, by [Page];
    ConfigUnset = "config.unset": config::unset::Args, by [];
    ChannelsAdd = "channels.add": channels::add::Args, by [Page];
    ChannelsRemove = "channels.remove": channels::remove::Args, by [Page];
    ChannelsRestart = "channels.restart": channels::restart::Args, by [Page, Token];
    WebOpen = "web.open": web::open::Args, by [];
    WebRevoke = "web.revoke": web::revoke::Args, by [Page];
    WebAddToken = "web.add_token": web::add_token::Args, by [];
    WebRevokeToken = "web.revoke_token": web::revoke_token::Args, by [];
}

impl Op {
    /// Returns what a program has to know of the operation of this name.
    #[must_use]
    pub fn described(name: &str) -> Option<&'static Described> {
        Self::ALL.iter().find(|described| described.name == name)
    }

    /// Reads an operation that a program asks for: `{"name": NAME, "args": {…}}`.
    ///
    /// # Errors
    /// [`OpCode::Invalid`]: there is no operation of that name, or its arguments are wrong.
    pub fn read(asked: Value) -> Result<Self, OpError> {
        let Some(Described { name, .. }) = asked["name"].as_str().and_then(Self::described) else {
            return Err(OpError::invalid("there is no operation of that name")
                .hint("`g2 ops schema` lists every operation with its arguments"));
        };
        serde_json::from_value(asked).map_err(|error| {
            OpError::invalid(format!("the arguments of {name} are wrong: {error}"))
                .hint("`g2 ops schema` has what it takes")
        })
    }
}

/// Does an operation for somebody, if they may. The audit tells of it before and afterwards.
///
/// # Errors
/// [`OpError`]: the mistake and its fix. The audit tells of the failure.
pub async fn perform(site: &Site<'_>, by: &By, op: Op) -> Result<Answer, OpError> {
    let ((what, secrets), name) = (audit::words(&op), op.name());
    failpoint::reach_of("op.begun", name);
    let asked = audit::ask(site, by, &what).await?;
    let done = match by.may(&op) {
        Ok(()) => op.act(site, by).await,
        Err(refused) => Err(refused),
    };
    audit::ended(site, by, asked, (&what, &secrets), &done).await;
    failpoint::reach_of("op.done", name);
    done
}
