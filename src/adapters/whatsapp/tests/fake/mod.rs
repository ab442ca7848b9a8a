//! A WhatsApp of the tests' own: one account with a phone, peers with Signal sessions, groups, and an offline queue.
//! It is judged by Baileys, which nobody here has written.

mod answers;
mod files;
mod noise;
mod peers;
mod signal;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    sync::mpsc,
};
use tokio_websockets::{Message as Frame, ServerBuilder, WebSocketStream};
use whatsapp_rust::{
    Jid, NodeBuilder,
    prelude::{MessageField, wa},
    wacore::libsignal::crypto::hmac_sha256,
    wacore_binary::{Node, SERVER_JID},
};

use noise::{Frames, Handshake, Identity, Pipe};
use peers::{Peer, Written, head};
use signal::{Bundle, Keys, encoded, rng};

/// The account's number and its other id.
pub(crate) const NUMBER: &str = "491000000001";
pub(crate) const LID: &str = "900000000000001";
/// Something that does not come in this time does not come.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a peer has read of the account, or the phone of itself.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) by: String,
    pub(crate) chat: String,
    pub(crate) id: String,
    pub(crate) message: wa::Message,
}

/// A group and its members' numbers.
#[derive(Clone, Debug)]
struct Group {
    subject: String,
    members: Vec<String>,
    /// Those of them who are admins.
    admins: Vec<String>,
}

#[derive(Default)]
struct World {
    /// Each connection in the order in which it came, and how it is written to.
    connections: Vec<mpsc::UnboundedSender<Out>>,
    /// The connection that waits to be linked, by the reference of its picture.
    unlinked: HashMap<String, usize>,
    /// The connection that is logged in.
    live: Option<usize>,
    /// The keys that the companion brought.
    bundle: Option<Bundle>,
    one_time: VecDeque<(u32, [u8; 32])>,
    /// What was sent to the companion, and is not received, in order.
    queue: Vec<(String, Node)>,
    /// What peers wrote, by its id: it is sent again to a companion that can't read it.
    written: HashMap<String, Written>,
    peers: BTreeMap<String, Peer>,
    groups: BTreeMap<String, Group>,
    read: Vec<Read>,
    /// Receipts and signs of life that the companion sent.
    told: Vec<Node>,
    files: HashMap<String, Vec<u8>>,
    /// Texts to these chats are refused with this number.
    refuses: HashMap<String, u16>,
    /// The connection that has what waited.
    drained: Option<usize>,
    /// The connections to which the phone has given its key.
    keyed: std::collections::HashSet<usize>,
    /// Requests for a code that is typed into the phone.
    codes: usize,
    ids: u64,
    logins: usize,
    /// Answers to messages are held back.
    mute: bool,
}

enum Out {
    Node(Node),
    Close,
}

struct Shared {
    world: Mutex<World>,
    changed: Condvar,
    identity: Identity,
    phone: Keys,
    port: u16,
}

/// A running WhatsApp.
pub(crate) struct Fake {
    shared: Arc<Shared>,
    runtime: Runtime,
}

impl Shared {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the world, and tells those who wait for that.
    fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let done = change(&mut self.world());
        self.changed.notify_all();
        done
    }
}

impl World {
    /// Returns the companion's keys, with one of those that are used once.
    fn bundle_for_one(&mut self) -> Option<Bundle> {
        let bundle = self.bundle.clone()?;
        Some(Bundle { one_time: self.one_time.pop_front(), ..bundle })
    }

    fn send(&self, to: usize, node: Node) {
        // A connection that is gone reads nothing.
        let _ = self.connections[to].send(Out::Node(node));
    }

    fn id(&mut self) -> String {
        self.ids += 1;
        format!("3A{:018X}", self.ids)
    }

    /// Sends something that has to arrive, now or later.
    fn deliver(&mut self, id: &str, node: Node) {
        self.queue.push((id.to_owned(), node.clone()));
        if let Some(live) = self.live {
            self.send(live, node);
        }
    }

    fn close(&mut self) {
        if let Some(live) = self.live.take() {
            let _ = self.connections[live].send(Out::Close);
        }
    }
}

pub(crate) fn jid(number: &str) -> Jid {
    Jid::pn(number)
}

fn companion() -> Jid {
    Jid::pn_device(NUMBER, 1)
}

impl Fake {
    pub(crate) fn start() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let shared = Arc::new(Shared {
            world: Mutex::default(),
            changed: Condvar::new(),
            identity: Identity::new(),
            phone: Keys::new(),
            port: listener.local_addr().unwrap().port(),
        });
        let serve = Arc::clone(&shared);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(Arc::clone(&serve), stream));
            }
        });
        Self { shared, runtime }
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://127.0.0.1:{}/ws/chat", self.shared.port)
    }

    /// The key by which a client can check who the server is.
    pub(crate) fn root(&self) -> Vec<u8> {
        self.shared.identity.root.public_key.public_key_bytes().to_vec()
    }

    /// Waits until the world shows something.
    pub(crate) fn wait<T>(&self, what: &str, mut shows: impl FnMut(&Fake) -> Option<T>) -> T {
        let until = std::time::Instant::now() + PATIENCE;
        loop {
            if let Some(shown) = shows(self) {
                return shown;
            }
            let left = until.saturating_duration_since(std::time::Instant::now());
            assert!(!left.is_zero(), "WhatsApp never saw {what}");
            let world = self.shared.world();
            // A change between the look and the wait is seen a moment later.
            drop(self.shared.changed.wait_timeout(world, left.min(Duration::from_millis(50))));
        }
    }

    fn wait_for<T>(&self, what: &str, mut shows: impl FnMut(&mut World) -> Option<T>) -> T {
        self.wait(what, |fake| shows(&mut fake.shared.world()))
    }

    /// Plays the phone that scans a picture.
    pub(crate) fn scan(&self, picture: &str) {
        use base64::Engine as _;
        // A new companion has new keys.
        self.shared.phone.forget();
        let picture = picture.rsplit('#').next().unwrap();
        let parts: Vec<&str> = picture.split(',').collect();
        let key = |at: usize| base64::prelude::BASE64_STANDARD.decode(parts[at]).unwrap();
        let (identity, secret) = (key(2), key(3));
        let phone = self.shared.phone.identity();
        let details = encoded(&wa::ADVDeviceIdentity {
            raw_id: Some(1),
            timestamp: Some(1_790_000_000),
            key_index: Some(1),
            ..Default::default()
        });
        let signed: Vec<u8> = [&[6, 0][..], &details, &identity].concat();
        let signature = phone.private_key().calculate_signature(&signed, &mut rng()).unwrap().to_vec();
        let details = encoded(&wa::ADVSignedDeviceIdentity {
            details: Some(details),
            account_signature_key: Some(phone.public_key().public_key_bytes().to_vec()),
            account_signature: Some(signature),
            ..Default::default()
        });
        let hmac = hmac_sha256(&secret, &details).to_vec();
        let proof = encoded(&wa::ADVSignedDeviceIdentityHMAC {
            details: Some(details),
            hmac: Some(hmac),
            ..Default::default()
        });
        let linked = NodeBuilder::new("pair-success")
            .children([
                NodeBuilder::new("device-identity").bytes(proof).build(),
                NodeBuilder::new("device")
                    .attr("jid", companion())
                    .attr("lid", Jid::lid_device(LID, 1))
                    .build(),
                NodeBuilder::new("platform").attr("name", "android").build(),
            ])
            .build();
        let reference = parts[0].to_owned();
        let at = self.wait_for("the client of this picture", |world| world.unlinked.get(&reference).copied());
        let iq = NodeBuilder::new("iq")
            .attr("from", SERVER_JID)
            .attr("type", "set")
            .attr("id", "pair-2")
            .attr("xmlns", "md")
            .children([linked])
            .build();
        self.shared.world().send(at, iq);
    }

    /// Waits until the account is logged in, and its keys are here.
    pub(crate) fn until_live(&self) {
        self.wait_for("a login", |world| (world.live.is_some() && world.bundle.is_some()).then_some(()));
    }

    /// Somebody new, by their number; their other id is 9 in front of it.
    pub(crate) fn person(&self, number: &str, name: &str) {
        let peer = Peer {
            keys: Keys::new(),
            name: name.into(),
            lid: format!("9{number}"),
            by_lid: false,
            distributed: Default::default(),
        };
        self.shared.change(|world| world.peers.insert(number.to_owned(), peer));
    }

    /// From now on somebody writes by their other id, or by their number again.
    pub(crate) fn by_lid(&self, number: &str, by_lid: bool) {
        self.shared.change(|world| world.peers.get_mut(number).unwrap().by_lid = by_lid);
    }

    /// A group of persons and the account.
    pub(crate) fn group(&self, id: &str, subject: &str, members: &[&str]) {
        let members = members.iter().map(|one| (*one).to_owned()).collect();
        self.shared.change(|world| {
            world.groups.insert(id.to_owned(), Group { subject: subject.into(), members, admins: Vec::new() })
        });
    }

    /// Begins a session with the companion, where there is none.
    fn session(&self, keys: &Keys) {
        if keys.has_session() {
            return;
        }
        let bundle = self.wait_for("the account's keys", |world| {
            let bundle = world.bundle.clone()?;
            Some(Bundle { one_time: world.one_time.pop_front(), ..bundle })
        });
        self.runtime.block_on(keys.begin(&bundle));
    }

    /// Somebody writes to the account. Returns the id.
    pub(crate) fn writes(&self, number: &str, text: &str) -> String {
        self.sends(number, &wa::Message { conversation: Some(text.into()), ..Default::default() })
    }

    /// Somebody sends any message to the account.
    pub(crate) fn sends(&self, number: &str, message: &wa::Message) -> String {
        self.sends_marked(number, "", message, "")
    }

    /// Somebody writes to a group.
    pub(crate) fn writes_to_group(&self, number: &str, group: &str, text: &str) -> String {
        self.sends_to_group(
            number,
            group,
            &wa::Message { conversation: Some(text.into()), ..Default::default() },
        )
    }

    /// A member is an admin.
    pub(crate) fn admin(&self, number: &str, group: &str) {
        self.shared.change(|world| world.groups.get_mut(group).unwrap().admins.push(number.to_owned()));
    }

    pub(crate) fn sends_to_group(&self, number: &str, group: &str, message: &wa::Message) -> String {
        self.sends_marked(number, group, message, "")
    }

    /// Somebody writes to a group, or to the account alone (`""`), with the mark of an edit that their client sets.
    pub(crate) fn sends_marked(
        &self,
        number: &str,
        group: &str,
        message: &wa::Message,
        mark: &str,
    ) -> String {
        let written = Written {
            by: number.to_owned(),
            group: group.to_owned(),
            mark: mark.to_owned(),
            message: message.clone(),
        };
        let id = self.shared.change(|world| {
            let id = world.id();
            world.written.insert(id.clone(), written.clone());
            id
        });
        self.wait_for("the account's keys", |world| world.bundle.is_some().then_some(()));
        self.runtime.block_on(self.shared.send_written(&id, &written));
        id
    }

    /// A message that nobody can read: it is of a session that the account never had.
    pub(crate) fn garbles(&self, number: &str) -> String {
        let id = self.shared.change(World::id);
        self.garble(number, &id);
        id
    }

    fn garble(&self, number: &str, id: &str) {
        let peer = self.shared.world().peers[number].clone();
        let strange = Keys::new();
        self.session(&strange);
        let message = wa::Message { conversation: Some("x".into()), ..Default::default() };
        let bytes = self.runtime.block_on(strange.encrypt_without_greeting(&message));
        let node = head(&peer, id).attr("from", jid(number));
        let node = node
            .children([NodeBuilder::new("enc").attr("v", "2").attr("type", "msg").bytes(bytes).build()])
            .build();
        self.shared.change(|world| world.deliver(id, node));
    }

    /// A text that nobody can read at first. Its sender has it, and sends it again to a companion that asks for that.
    pub(crate) fn garbles_at_first(&self, number: &str, text: &str) -> String {
        let message = wa::Message { conversation: Some(text.into()), ..Default::default() };
        let written = Written { by: number.to_owned(), group: String::new(), mark: String::new(), message };
        let id = self.shared.change(|world| {
            let id = world.id();
            world.written.insert(id.clone(), written);
            id
        });
        self.garble(number, &id);
        id
    }

    /// Somebody has a new phone: its sessions are gone.
    pub(crate) fn new_phone(&self, number: &str) {
        self.shared.world().peers[number].keys.forget();
    }

    /// Puts a file there, as a peer's phone does.
    pub(crate) fn file(&self, path: &str, bytes: Vec<u8>) {
        self.shared.change(|world| world.files.insert(path.to_owned(), bytes));
    }

    /// Returns a file that the account brought.
    pub(crate) fn brought(&self, path: &str) -> Vec<u8> {
        self.shared.world().files[path].clone()
    }

    /// Waits for the next message that this peer reads.
    pub(crate) fn read(&self, by: &str) -> Read {
        self.wait_for("a message of the account", |world| {
            let at = world.read.iter().position(|read| read.by == by)?;
            Some(world.read.remove(at))
        })
    }

    /// Waits for a receipt, or a sign of life, such as `read`, `composing`; empty: that a message has arrived.
    pub(crate) fn told(&self, what: &str, id: &str) -> Node {
        self.wait_for("a receipt or a sign of life", |world| {
            let at = world.told.iter().position(|node| is_told(node, what, id))?;
            Some(world.told.remove(at))
        })
    }

    /// Whether the account has told that a message is there.
    pub(crate) fn has_receipt(&self, id: &str) -> bool {
        !self.shared.world().queue.iter().any(|(waiting, _)| waiting == id)
    }

    /// Waits until the account has told that a message is there.
    pub(crate) fn until_received(&self, id: &str) {
        self.wait("a receipt", |fake| fake.has_receipt(id).then_some(()));
    }

    /// Texts to a chat are refused with a number.
    pub(crate) fn refuses(&self, chat: &str, code: u16) {
        self.shared.change(|world| world.refuses.insert(chat.to_owned(), code));
    }

    /// Says nothing more about texts that come.
    pub(crate) fn mutes(&self) {
        self.shared.change(|world| world.mute = true);
    }

    pub(crate) fn codes(&self) -> usize {
        self.shared.world().codes
    }

    pub(crate) fn logins(&self) -> usize {
        self.shared.world().logins
    }

    /// Ends the connection without a word.
    pub(crate) fn hangs_up(&self) {
        self.shared.change(World::close);
    }

    /// The phone unlinks the account.
    pub(crate) fn unlinks(&self) {
        let error = NodeBuilder::new("stream:error")
            .attr("code", "401")
            .children([NodeBuilder::new("conflict").attr("type", "device_removed").build()])
            .build();
        self.ends_with(error);
    }

    /// Another program has taken the login.
    pub(crate) fn replaces(&self) {
        let error = NodeBuilder::new("stream:error")
            .children([NodeBuilder::new("conflict").attr("type", "replaced").build()])
            .build();
        self.ends_with(error);
    }

    fn ends_with(&self, node: Node) {
        self.shared.change(|world| {
            if let Some(live) = world.live {
                world.send(live, node);
            }
            world.close();
        });
    }
}

fn is_told(node: &Node, what: &str, id: &str) -> bool {
    let text = |name: &str| node.attrs.get(name).map(|value| value.to_string()).unwrap_or_default();
    match &*node.tag {
        "receipt" => text("type") == what && (text("id") == id || listed(node, id)),
        "chatstate" => node.get_optional_child(what).is_some(),
        _ => false,
    }
}

fn listed(node: &Node, id: &str) -> bool {
    let list = node.get_optional_child("list").and_then(|list| list.children()).unwrap_or_default();
    list.iter().any(|item| item.attrs.get("id").is_some_and(|value| *value == *id))
}

/// Answers whatever comes to the port.
async fn answer(shared: Arc<Shared>, stream: TcpStream) {
    let mut head = [0; 2048];
    let read = loop {
        match stream.peek(&mut head).await {
            Ok(0) | Err(_) => return,
            Ok(read) if head[..read].windows(4).any(|end| end == b"\r\n\r\n") || read == head.len() => {
                break read;
            }
            Ok(_) => tokio::task::yield_now().await,
        }
    };
    let text = String::from_utf8_lossy(&head[..read]).to_ascii_lowercase();
    if text.contains("upgrade: websocket") {
        talk(&shared, stream).await;
    } else {
        files::answer(&shared, stream).await;
    }
}

/// Talks with one client until it or we leave.
async fn talk(shared: &Arc<Shared>, stream: TcpStream) {
    let Ok((_, mut socket)) = ServerBuilder::new().accept(stream).await else { return };
    let mut frames = Frames::default();
    let (mut handshake, mut pipe): (Option<Handshake>, Option<Pipe>) = (None, None);
    let (tell, mut to_tell) = mpsc::unbounded_channel();
    let me = shared.change(|world| {
        world.connections.push(tell);
        world.connections.len() - 1
    });
    loop {
        tokio::select! {
            out = to_tell.recv() => match (out, &mut pipe) {
                (Some(Out::Node(node)), Some(pipe)) => {
                    if socket.send(Frame::binary(pipe.write(&node))).await.is_err() {
                        break;
                    }
                }
                (Some(Out::Node(_)), None) => {}
                (Some(Out::Close) | None, _) => {
                    leave(&mut socket).await;
                    break;
                }
            },
            came = socket.next() => {
                let Some(Ok(came)) = came else { break };
                if !came.is_binary() {
                    continue;
                }
                frames.push(&came.into_payload());
                while let Some(frame) = frames.next() {
                    if let Some(pipe) = &mut pipe {
                        let node = pipe.read(frame);
                        answers::answer(shared, me, node).await;
                    } else if let Some(begun) = handshake.take() {
                        let (made, payload) = begun.finish(&frame);
                        pipe = Some(made);
                        answers::begins(shared, me, &payload).await;
                    } else {
                        let (begun, hello) = Handshake::hello(&shared.identity, &frame);
                        handshake = Some(begun);
                        if socket.send(Frame::binary(hello)).await.is_err() {
                            break;
                        }
                    }
                }
            }
        }
    }
    shared.change(|world| {
        if world.live == Some(me) {
            world.live = None;
        }
    });
}

/// Ends the connection, and reads what still comes: a socket that is closed over something unread takes the last words back.
async fn leave(socket: &mut WebSocketStream<TcpStream>) {
    let _ = socket.close().await;
    let rest = async { while let Some(Ok(_)) = socket.next().await {} };
    let _ = tokio::time::timeout(Duration::from_secs(5), rest).await;
}

/// Returns a message that the phone sends to the companion: a key for what both know of the account.
fn key_share() -> wa::Message {
    let key = wa::message::AppStateSyncKey {
        key_id: MessageField::some(wa::message::AppStateSyncKeyId { key_id: Some(vec![0, 0, 0, 0, 1, 1]) }),
        key_data: MessageField::some(wa::message::AppStateSyncKeyData {
            key_data: Some(vec![9; 32]),
            timestamp: Some(1_790_000_000),
            fingerprint: MessageField::some(wa::message::AppStateSyncKeyFingerprint {
                raw_id: Some(1),
                current_index: Some(1),
                device_indexes: vec![0, 1],
            }),
        }),
    };
    wa::Message {
        protocol_message: MessageField::some(wa::message::ProtocolMessage {
            r#type: Some(wa::message::protocol_message::Type::APP_STATE_SYNC_KEY_SHARE),
            app_state_sync_key_share: MessageField::some(wa::message::AppStateSyncKeyShare {
                keys: vec![key],
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}
