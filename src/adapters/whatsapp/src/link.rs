//! The link to WhatsApp: how the account is let in, and what happens to the connection.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use adapter_kit::{Ended, Host};
use channel_protocol::{
    Addresses, Can, Format, Hello, Light, Media, Myself, Pair, SentTwice, Start, TextLimit, Unit,
};
use tokio::{
    sync::mpsc,
    time::{Interval, MissedTickBehavior},
};
use whatsapp_rust::{
    Client, Jid, TokioRuntime,
    bot::{Bot, BotHandle},
    pair_code::PairCodeOptions,
    store::SqliteStore,
    types::{
        events::{
            Event, EventHandler, EventInterest, EventKind, GroupUpdate, InboundMessage, UnavailableType,
        },
        message::MessageInfo,
    },
    wacore::store::device::DevicePropsOverride,
    waproto::whatsapp::device_props::PlatformType,
};

use crate::{
    WhatsApp,
    acks::Acks,
    asked::MOST_FILES,
    inbox::{Inbox, Took},
    known::Known,
    lights::{Change, Left, Lights, all, change},
    net,
    out::pace,
    places::{Places, person},
    read::Us,
    settings::{Settings, upstream},
};

/// The longest text, characters.
pub(crate) const LONGEST: usize = 20_000;
/// The longest text with a file, characters.
const LONGEST_CAPTION: usize = 1024;
/// The file that WhatsApp's login and keys are in.
const STORE: &str = "whatsapp.db";
/// When the account was linked is noted here.
const LINKED: &str = "linked";
/// How much news may wait. What comes beyond is told by the next facts about a chat, or was unreadable.
const MOST_NEWS: usize = 1024;
/// How many messages may wait that WhatsApp does not keep for us.
const MOST_AGAIN: usize = 1024;
/// How often the daemon hears of an account that is not let in yet.
const ALIVE: Duration = Duration::from_secs(45);
/// After how many times without any change WhatsApp can't be reached.
const MOST_QUIET: u32 = 3;
/// How often it is looked whether the connection still stands: not each end of one is told.
const LOOK: Duration = Duration::from_secs(10);
/// After how many looks in a row without a connection a new life is quicker than the next try of this one.
const MOST_AWAY: u32 = 9;
const ENDED: &str = "the connection to WhatsApp has ended";
const UNREACHABLE: &str = "WhatsApp can't be reached";

/// Something that is worked on beside the messages.
pub(crate) enum News {
    /// A group has other facts.
    Group(Jid),
    /// A message that can't be read.
    Unreadable(UnavailableType),
    /// A person has another number.
    Moved { old: Jid, new: Jid, lid: Option<Jid> },
}

/// A message that WhatsApp takes for received before the daemon has it.
pub(crate) enum Again {
    /// The phone sent it again because we could not read it.
    Recovered(InboundMessage),
    /// It is shown once, on the phone.
    ShownOnce(Arc<MessageInfo>),
}

/// Takes events off WhatsApp's own tasks.
struct Events {
    changes: mpsc::UnboundedSender<Change>,
    news: mpsc::Sender<News>,
    again: mpsc::Sender<Again>,
    acks: Arc<Acks>,
}

impl Events {
    fn again(&self, one: Again) {
        if self.again.try_send(one).is_err() {
            eprintln!("a message that WhatsApp does not keep is lost: too many wait for the daemon");
        }
    }
}

impl EventHandler for Events {
    fn handle_event(&self, event: Arc<Event>) {
        if let Some(change) = change(&event) {
            if !matches!(change, Change::Connected) {
                self.acks.broke();
            }
            // Nobody listens any more where the adapter leaves.
            let _ = self.changes.send(change);
            return;
        }
        let news = match &*event {
            Event::ServerAck(ack) => return self.acks.came(&ack.id, ack.error.as_deref()),
            Event::GroupUpdate(GroupUpdate { group_jid, .. }) => News::Group(group_jid.clone()),
            Event::UndecryptableMessage(message) if message.unavailable_type == UnavailableType::ViewOnce => {
                return self.again(Again::ShownOnce(Arc::clone(&message.info)));
            }
            Event::UndecryptableMessage(message) => News::Unreadable(message.unavailable_type),
            Event::ContactNumberChanged(moved) => News::Moved {
                old: moved.old_jid.clone(),
                new: moved.new_jid.clone(),
                lid: moved.new_lid.clone(),
            },
            Event::Messages(batch) if !batch.hook_committed => {
                for one in batch.iter().filter(|one| one.info.unavailable_request_id.is_some()) {
                    self.again(Again::Recovered(one.clone()));
                }
                return;
            }
            _ => return,
        };
        let _ = self.news.try_send(news);
    }

    fn interest(&self) -> EventInterest {
        EventInterest::of(&[
            EventKind::Connected,
            EventKind::Disconnected,
            EventKind::PairingQrCode,
            EventKind::PairingCode,
            EventKind::PairingCodeError,
            EventKind::PairingCodeRefresh,
            EventKind::PairingQrCodesExhausted,
            EventKind::PairError,
            EventKind::LoggedOut,
            EventKind::StreamReplaced,
            EventKind::TemporaryBan,
            EventKind::ClientOutdated,
            EventKind::ConnectFailure,
            EventKind::ServerAck,
            EventKind::GroupUpdate,
            EventKind::UndecryptableMessage,
            EventKind::ContactNumberChanged,
            EventKind::Messages,
        ])
    }
}

/// A connection, and what comes of it.
pub(crate) struct Link {
    pub(crate) handle: BotHandle,
    pub(crate) changes: mpsc::UnboundedReceiver<Change>,
    pub(crate) lights: Lights,
    pub(crate) state_dir: PathBuf,
    pub(crate) instance: String,
    /// How often in a row there was no change while the account waited to be let in.
    quiet: u32,
}

/// What waits to be worked on beside the messages. None of these waits for another.
pub(crate) struct Work {
    again: mpsc::Receiver<Again>,
    news: mpsc::Receiver<News>,
    /// Groups whose facts are asked for.
    asked: mpsc::Receiver<Jid>,
}

/// Why a life ends before its time.
enum Over {
    Left,
    Failed(String),
}

/// Links the account where it is not linked, logs in, and says who we are. `held` keeps the connection, so that it can be ended.
///
/// # Errors
/// Why that failed; where a person has to do something, the host has been told.
pub(crate) async fn connect(
    start: Start,
    host: Host,
    held: Arc<Mutex<Option<Arc<Client>>>>,
) -> Result<Arc<WhatsApp>, String> {
    let settings =
        Settings::read(&start).and_then(|settings| Ok((settings, upstream(start.upstream.as_deref())?)));
    let (settings, upstream) = match settings {
        Ok(read) => read,
        Err(error) => {
            let why = error.to_string();
            host.state(all(Light::Refused, &why, "correct the account's table in g2.toml"))
                .await
                .map_err(|gone| gone.to_string())?;
            return Err(why);
        }
    };
    let state_dir = PathBuf::from(&start.state_dir);
    let known = Arc::new(Mutex::new(Known::read(&state_dir, start.chats.keys().cloned())));
    let places = Places::of(&start.instance, &start.prefix);
    let acks = Arc::new(Acks::default());
    let (tell_changes, changes) = mpsc::unbounded_channel();
    let (inbox, asked) = Inbox::new(host.clone(), places.clone(), Arc::clone(&known), tell_changes.clone());
    let (tell_news, news) = mpsc::channel(MOST_NEWS);
    let (tell_again, again) = mpsc::channel(MOST_AGAIN);
    let events =
        Events { changes: tell_changes, news: tell_news, again: tell_again, acks: Arc::clone(&acks) };
    let store = state_dir.join(STORE);
    let store = SqliteStore::new(&store.display().to_string()).await;
    let store = store.map_err(|error| format!("the account's own store can't be opened: {error}"))?;
    let device = DevicePropsOverride::new().with_os("G2").with_platform_type(PlatformType::DESKTOP);
    let mut builder = Bot::builder()
        .with_backend(store)
        .with_transport_factory(net::sockets(upstream.as_deref()))
        .with_http_client(net::Web::new(upstream.as_deref()))
        .with_runtime(TokioRuntime)
        .with_device_props(device)
        .with_event_handler(events)
        .with_inbound_durability_hook(Took(Arc::clone(&inbox)))
        .skip_history_sync();
    if !settings.phone.is_empty() {
        builder = builder
            .with_pair_code(PairCodeOptions { phone_number: settings.phone.clone(), ..Default::default() });
    }
    if let Some(version) = settings.version() {
        builder = builder.with_version(version);
    }
    let bot = builder.build().await.map_err(|error| format!("WhatsApp's client can't be made: {error}"))?;
    let client = bot.client();
    if let Ok(mut held) = held.lock() {
        *held = Some(Arc::clone(&client));
    }
    let mut link = Link {
        handle: bot.spawn(),
        changes,
        lights: Lights::default(),
        state_dir,
        instance: start.instance.clone(),
        quiet: 0,
    };
    host.state(link.lights.state()).await.map_err(|gone| gone.to_string())?;
    let mut alive = every(ALIVE);
    loop {
        match link.next(&client, &host, &mut alive).await {
            Ok(true) => break,
            Ok(false) => {}
            Err(Over::Left) => return Err("the host is gone".into()),
            Err(Over::Failed(why)) => return Err(why),
        }
    }
    let Some(number) = client.pn() else { return Err("WhatsApp does not say which number it is".into()) };
    let us = Us {
        number: number.to_non_ad(),
        lid: client.lid().map(|lid| lid.to_non_ad()),
        mark: settings.mark(),
    };
    let linked_s = linked(&link.state_dir);
    host.hello(hello(&us, &settings, linked_s, client.push_name())).await.map_err(|gone| gone.to_string())?;
    inbox.begins(us.clone());
    Ok(Arc::new(WhatsApp {
        client,
        places,
        settings,
        us,
        known,
        inbox,
        acks,
        spool: PathBuf::from(&start.spool),
        files: tokio::sync::Semaphore::new(MOST_FILES),
        link: tokio::sync::Mutex::new(link),
        work: tokio::sync::Mutex::new(Work { again, news, asked }),
    }))
}

/// Beats after each time of this length; time that was slept through beats once.
fn every(time: Duration) -> Interval {
    let mut beats = tokio::time::interval_at(tokio::time::Instant::now() + time, time);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beats
}

/// Returns for how long the account is linked, s, and notes the first time.
fn linked(state_dir: &Path) -> u64 {
    let path = state_dir.join(LINKED);
    let since = std::fs::metadata(&path).and_then(|meta| meta.modified());
    match since {
        Ok(since) => since.elapsed().map_or(0, |elapsed| elapsed.as_secs()),
        Err(_) => {
            if let Err(error) = std::fs::write(&path, b"") {
                eprintln!("when the account was linked can't be noted: {error}");
            }
            0
        }
    }
}

fn hello(us: &Us, settings: &Settings, linked_s: u64, name: String) -> Hello {
    let name = if settings.shared_as.is_empty() { name } else { settings.shared_as.clone() };
    let mark = settings.mark().chars().count();
    Hello {
        adapter: format!("g2-whatsapp {}", env!("CARGO_PKG_VERSION")),
        myself: Myself { id: person(&us.number), name, handle: format!("+{}", us.number.user_base()) },
        text: TextLimit { max: LONGEST - mark, unit: Unit::Chars, format: Format::Whatsapp },
        caption_max: LONGEST_CAPTION - mark,
        // Nobody promises that WhatsApp shows a repeated id once.
        sent_twice: SentTwice::Never,
        can: vec![
            Can::Typing,
            Can::Edit,
            Can::Delete,
            Can::React,
            Can::Reply,
            Can::MediaIn,
            Can::MediaOut,
            Can::OpenDm,
            Can::ListChats,
        ],
        media: Media { out_max: net::LARGEST, in_max: net::LARGEST, together: 1 },
        pace: pace(settings.slow_start, linked_s),
        typing_ms: 10_000,
        // People see of each change that it is one.
        draft_ms: 10_000,
        addresses: Some(Addresses {
            endings: ["@g.us", "@s.whatsapp.net", "@lid"].map(str::to_owned).to_vec(),
            direct: r".*@(s\.whatsapp\.net|lid)".into(),
            ..Addresses::default()
        }),
        ..Hello::default()
    }
}

impl Link {
    /// Waits for the next change and tells what it means. Returns whether WhatsApp has let us in by it.
    async fn next(&mut self, client: &Arc<Client>, host: &Host, alive: &mut Interval) -> Result<bool, Over> {
        tokio::select! {
            biased;
            change = self.changes.recv() => {
                let Some(change) = change else { return Err(Over::Failed(ENDED.into())) };
                self.quiet = 0;
                self.tell(&change, client, host).await?;
                Ok(change == Change::Connected)
            }
            () = &mut self.handle => Err(self.rest(client, host).await),
            _ = alive.tick() => {
                host.state(self.lights.state()).await.map_err(|_| Over::Left)?;
                self.quiet += 1;
                match self.quiet >= MOST_QUIET && !client.is_logged_in() {
                    true => Err(Over::Failed(UNREACHABLE.into())),
                    false => Ok(false),
                }
            }
        }
    }

    /// The connection has ended for good: what it said last goes before its end, and may be why.
    async fn rest(&mut self, client: &Arc<Client>, host: &Host) -> Over {
        while let Ok(change) = self.changes.try_recv() {
            if let Err(over) = self.tell(&change, client, host).await {
                return over;
            }
        }
        Over::Failed(ENDED.into())
    }

    /// Looks whether the connection stands. `away`: how many looks in a row have found none.
    async fn look(
        &mut self,
        away: &mut u32,
        client: &Arc<Client>,
        acks: &Acks,
        host: &Host,
    ) -> Result<(), Over> {
        if client.is_logged_in() {
            *away = 0;
            return Ok(());
        }
        *away += 1;
        acks.broke();
        if self.lights.is_connected() {
            let change = Change::Disconnected("nothing comes from WhatsApp".into());
            self.tell(&change, client, host).await?;
        }
        if *away >= MOST_AWAY { Err(Over::Failed(UNREACHABLE.into())) } else { Ok(()) }
    }

    async fn tell(&mut self, change: &Change, client: &Arc<Client>, host: &Host) -> Result<(), Over> {
        let pair = |kind: &str, data: &str, holds: Duration| {
            let until =
                jiff::Timestamp::now().checked_add(holds).map(|at| at.to_string()).unwrap_or_default();
            Pair { kind: kind.into(), data: data.to_owned(), until }
        };
        let shown = match change {
            Change::Picture(data, holds) => Some(pair("qr", data, *holds)),
            Change::Code(data, holds) => Some(pair("code", &in_halves(data), *holds)),
            _ => None,
        };
        if let Some(shown) = shown {
            host.pair(shown).await.map_err(|_| Over::Left)?;
        }
        if let Some(state) = self.lights.after(change, &self.instance) {
            host.state(state).await.map_err(|_| Over::Left)?;
        }
        if let Change::Refused { why, left, .. } = change {
            if *left == Left::Nothing {
                client.disconnect().await;
                self.set_aside();
            }
            return Err(Over::Failed(why.clone()));
        }
        Ok(())
    }

    /// Puts a login that does not hold any more aside, so that the next start links the account anew.
    fn set_aside(&self) {
        for end in ["", "-wal", "-shm"] {
            let (from, to) = (
                self.state_dir.join(format!("{STORE}{end}")),
                self.state_dir.join(format!("{STORE}.unlinked{end}")),
            );
            match std::fs::rename(&from, &to) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    eprintln!("the ended login can't be put aside; remove {}: {error}", from.display());
                }
                Ok(()) | Err(_) => {}
            }
        }
        if let Err(error) = std::fs::remove_file(self.state_dir.join(LINKED)) {
            eprintln!("the next link begins as fast as this one was: {error}");
        }
    }
}

/// Returns a code as the phone asks for it: two halves.
fn in_halves(code: &str) -> String {
    match code.split_at_checked(code.len() / 2) {
        Some((a, b)) if code.len() == 8 => format!("{a}-{b}"),
        _ => code.to_owned(),
    }
}

impl WhatsApp {
    /// Stays connected until the host is gone, or WhatsApp wants no more of us.
    pub(crate) async fn stay(&self, host: &Host) -> Ended {
        let (mut link, mut work) = (self.link.lock().await, self.work.lock().await);
        let Work { again, news, asked } = &mut *work;
        let over = tokio::select! {
            biased;
            over = self.watch(&mut link, host) => over,
            over = async {
                while let Some(one) = again.recv().await {
                    if self.hear_again(one).await.is_err() {
                        return Over::Left;
                    }
                }
                Over::Failed(ENDED.into())
            } => over,
            over = async {
                while let Some(one) = news.recv().await {
                    if self.hear(one).await.is_err() {
                        return Over::Left;
                    }
                }
                Over::Failed(ENDED.into())
            } => over,
            over = async {
                while let Some(group) = asked.recv().await {
                    if self.facts(&group).await.is_err() {
                        return Over::Left;
                    }
                }
                Over::Failed(ENDED.into())
            } => over,
        };
        match over {
            Over::Left => Ended::Left,
            Over::Failed(why) => Ended::Failed(why),
        }
    }

    /// Watches the connection. Nothing that WhatsApp is asked for holds it up.
    async fn watch(&self, link: &mut Link, host: &Host) -> Over {
        let (mut looks, mut away) = (every(LOOK), 0);
        loop {
            let told = tokio::select! {
                biased;
                change = link.changes.recv() => match change {
                    Some(change) => link.tell(&change, &self.client, host).await,
                    None => Err(Over::Failed(ENDED.into())),
                },
                () = &mut link.handle => Err(link.rest(&self.client, host).await),
                _ = looks.tick() => link.look(&mut away, &self.client, &self.acks, host).await,
            };
            if let Err(over) = told {
                return over;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_shown_as_the_phone_asks_for_it() {
        assert_eq!(
            (in_halves("ABCD1234"), in_halves("ABC"), in_halves("ü")),
            ("ABCD-1234".into(), "ABC".into(), "ü".into())
        );
    }

    #[test]
    fn the_time_of_the_link_is_noted_once() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(linked(dir.path()), 0);
        let long_ago = std::time::SystemTime::now() - Duration::from_secs(9 * 86_400);
        std::fs::File::open(dir.path().join(LINKED)).unwrap().set_modified(long_ago).unwrap();
        assert!(linked(dir.path()) >= 9 * 86_400);
    }
}
