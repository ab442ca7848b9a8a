//! What WhatsApp answers to what a client asks and sends.

use std::sync::Arc;

use whatsapp_rust::{
    Jid, NodeBuilder,
    prelude::wa,
    wacore::prekeys::compute_key_bundle_digest,
    wacore_binary::{Node, NodeContent, SERVER_JID},
};

use super::{
    LID, NUMBER, Out, Read, Shared, World, jid, key_share,
    signal::{Bundle, Keys},
};

fn text(node: &Node, name: &str) -> String {
    node.attrs.get(name).map(|value| value.to_string()).unwrap_or_default()
}

fn child<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    node.get_optional_child(name)
}

fn children<'a>(node: &'a Node, name: &'a str) -> impl Iterator<Item = &'a Node> {
    node.children().unwrap_or_default().iter().filter(move |child| child.tag == name)
}

fn bytes(node: &Node) -> Vec<u8> {
    match &node.content {
        Some(NodeContent::Bytes(bytes)) => bytes.to_vec(),
        Some(NodeContent::String(text)) => text.as_bytes().to_vec(),
        _ => Vec::new(),
    }
}

fn number(node: Option<&Node>) -> u32 {
    node.map(bytes).unwrap_or_default().iter().fold(0, |all, byte| all << 8 | u32::from(*byte))
}

fn key(node: Option<&Node>) -> [u8; 32] {
    node.map(bytes).unwrap_or_default().try_into().unwrap()
}

/// A client has said who it is: a new one is shown references, a linked one is let in.
pub(super) async fn begins(shared: &Arc<Shared>, me: usize, payload: &wa::ClientPayload) {
    let Some(username) = payload.username else {
        let refs: Vec<String> = (0..6).map(|n| format!("2@ref{me}x{n}")).collect();
        shared.change(|world| world.unlinked.extend(refs.iter().map(|one| (one.clone(), me))));
        let refs = refs.into_iter().map(|one| NodeBuilder::new("ref").bytes(one.into_bytes()).build());
        let device = NodeBuilder::new("pair-device").children(refs).build();
        let iq = NodeBuilder::new("iq")
            .attr("from", SERVER_JID)
            .attr("type", "set")
            .attr("id", "pair-1")
            .attr("xmlns", "md")
            .children([device])
            .build();
        shared.world().send(me, iq);
        return;
    };
    assert_eq!(username.to_string(), NUMBER);
    shared.change(|world| {
        world.close();
        world.live = Some(me);
        world.logins += 1;
        let success = NodeBuilder::new("success")
            .attr("t", "1790000000")
            .attr("lid", Jid::lid_device(LID, 1))
            .attr("location", "fra")
            .build();
        world.send(me, success);
    });
}

pub(super) async fn answer(shared: &Arc<Shared>, me: usize, node: Node) {
    match &*node.tag {
        "iq" => match &text(&node, "type")[..] {
            "result" | "error" => linked(shared, me, &node),
            _ => {
                let answer = asked(shared, &node);
                shared.world().send(me, answer);
                if child(&node, "active").is_some() {
                    offline(shared, me);
                }
                share_key(shared, me).await;
            }
        },
        "message" => message(shared, me, &node).await,
        "receipt" => {
            let id = text(&node, "id");
            let ack = NodeBuilder::new("ack")
                .attr("class", "receipt")
                .attr("id", &id)
                .attr("from", text(&node, "to"))
                .build();
            let again = text(&node, "type") == "retry";
            shared.change(|world| {
                world.send(me, ack);
                if !again {
                    received(world, &node, &id);
                }
                world.told.push(node.clone());
            });
            if again {
                shared.send_again(&id).await;
            }
        }
        "ack" => shared.change(|world| received(world, &node, &text(&node, "id"))),
        "chatstate" | "presence" => shared.change(|world| world.told.push(node)),
        _ => {}
    }
}

/// The companion has a message: it is not sent again.
fn received(world: &mut World, node: &Node, id: &str) {
    let listed: Vec<String> = child(node, "list")
        .map(|list| children(list, "item").map(|item| text(item, "id")).collect())
        .unwrap_or_default();
    world.queue.retain(|(waiting, _)| waiting != id && !listed.contains(waiting));
}

/// The end of linking: the client begins again with its login.
fn linked(shared: &Arc<Shared>, me: usize, node: &Node) {
    if child(node, "pair-device-sign").is_some() {
        let again = NodeBuilder::new("stream:error").attr("code", "515").build();
        shared.change(|world| {
            world.send(me, again);
            let _ = world.connections[me].send(Out::Close);
        });
    }
}

/// The phone gives each login a key for what both know of the account, once the companion's own keys are here.
async fn share_key(shared: &Arc<Shared>, me: usize) {
    let bundle = shared.change(|world| {
        let bundle = world.bundle.clone()?;
        (world.live == Some(me) && world.keyed.insert(me))
            .then(|| Bundle { one_time: world.one_time.pop_front(), ..bundle })
    });
    let Some(bundle) = bundle else { return };
    if !shared.phone.has_session() {
        shared.phone.begin(&bundle).await;
    }
    let (kind, bytes) = shared.phone.encrypt(&key_share()).await;
    shared.change(|world| {
        let id = world.id();
        let enc = NodeBuilder::new("enc").attr("v", "2").attr("type", kind).bytes(bytes).build();
        let node = NodeBuilder::new("message")
            .attr("id", &id)
            .attr("from", jid(NUMBER))
            .attr("type", "text")
            .attr("category", "peer")
            .attr("t", "1790000000")
            .children([enc])
            .build();
        world.send(me, node);
    });
}

/// Sends what waited, and says that this is all.
fn offline(shared: &Arc<Shared>, me: usize) {
    shared.change(|world| {
        let waiting: Vec<Node> = world.queue.iter().map(|(_, node)| node.clone()).collect();
        let count = waiting.len().to_string();
        let mut preview = NodeBuilder::new("offline_preview").attr("count", &count).attr("message", &count);
        for other in ["receipt", "notification", "appdata", "call"] {
            preview = preview.attr(other, "0");
        }
        world.send(me, NodeBuilder::new("ib").attr("from", SERVER_JID).children([preview.build()]).build());
        for mut node in waiting {
            node.attrs.insert("offline", "0");
            world.send(me, node);
        }
        let end = NodeBuilder::new("offline").attr("count", &count).build();
        world.send(me, NodeBuilder::new("ib").attr("from", SERVER_JID).children([end]).build());
        world.drained = Some(me);
    });
}

/// Answers a question.
fn asked(shared: &Arc<Shared>, node: &Node) -> Node {
    let answer = NodeBuilder::new("iq").attr("id", text(node, "id")).attr("from", SERVER_JID);
    let (space, set) = (text(node, "xmlns"), text(node, "type") == "set");
    let mut world = shared.world();
    let said = match &space[..] {
        "encrypt" if set && child(node, "list").is_some() => {
            brought(&mut world, node);
            shared.changed.notify_all();
            None
        }
        "encrypt" if child(node, "count").is_some() => {
            Some(NodeBuilder::new("count").attr("value", world.one_time.len().to_string()).build())
        }
        "encrypt" if child(node, "digest").is_some() => match &world.bundle {
            Some(bundle) => Some(digest(bundle, &world)),
            None => {
                let error =
                    NodeBuilder::new("error").attr("code", "404").attr("text", "item-not-found").build();
                return answer.attr("type", "error").children([error]).build();
            }
        },
        "encrypt" => child(node, "key").map(|asked| bundles(shared, &world, asked)),
        "usync" => child(node, "usync").map(|asked| usync(&world, asked)),
        "w:g2" => return group(&world, node, answer),
        "w:m" => {
            let host =
                NodeBuilder::new("host").attr("hostname", "mmg.whatsapp.net").attr("type", "primary").build();
            let conn = NodeBuilder::new("media_conn")
                .attr("auth", "AUTH")
                .attr("ttl", "3600")
                .attr("auth_ttl", "3600")
                .attr("max_buckets", "12")
                .children([host])
                .build();
            Some(conn)
        }
        "w:sync:app:state" => child(node, "sync").map(|asked| {
            let all: Vec<Node> = children(asked, "collection")
                .map(|one| {
                    NodeBuilder::new("collection")
                        .attr("name", text(one, "name"))
                        .attr("version", text(one, "version"))
                        .attr("type", "result")
                        .build()
                })
                .collect();
            NodeBuilder::new("sync").children(all).build()
        }),
        "md" if child(node, "link_code_companion_reg").is_some() => {
            world.codes += 1;
            shared.changed.notify_all();
            let reference = NodeBuilder::new("link_code_pairing_ref").bytes(b"code-ref".to_vec()).build();
            Some(
                NodeBuilder::new("link_code_companion_reg")
                    .attr("stage", "companion_hello")
                    .children([reference])
                    .build(),
            )
        }
        "abt" | "w" => Some(NodeBuilder::new("props").build()),
        "privacy" => Some(NodeBuilder::new("privacy").build()),
        _ => None,
    };
    answer.attr("type", "result").children(said).build()
}

/// Keeps the keys that the companion brings.
fn brought(world: &mut World, node: &Node) {
    let one = |key_of: &Node| (number(child(key_of, "id")), key(child(key_of, "value")));
    let signed = child(node, "skey").unwrap();
    let (id, public) = one(signed);
    world.one_time =
        child(node, "list").map(|list| children(list, "key").map(one).collect()).unwrap_or_default();
    world.bundle = Some(Bundle {
        registration: number(child(node, "registration")),
        identity: key(child(node, "identity")),
        signed: (id, public, child(signed, "signature").map(bytes).unwrap_or_default()),
        one_time: None,
    });
}

fn three(id: u32) -> Vec<u8> {
    id.to_be_bytes()[1..].to_vec()
}

fn skey(bundle: &Bundle) -> Node {
    NodeBuilder::new("skey")
        .children([
            NodeBuilder::new("id").bytes(three(bundle.signed.0)).build(),
            NodeBuilder::new("value").bytes(bundle.signed.1.to_vec()).build(),
            NodeBuilder::new("signature").bytes(bundle.signed.2.clone()).build(),
        ])
        .build()
}

fn digest(bundle: &Bundle, world: &World) -> Node {
    let keys: Vec<&[u8]> = world.one_time.iter().map(|(_, key)| &key[..]).collect();
    let hash = compute_key_bundle_digest(&bundle.identity, &bundle.signed.1, &bundle.signed.2, &keys);
    let ids = world.one_time.iter().map(|(id, _)| NodeBuilder::new("id").bytes(three(*id)).build());
    NodeBuilder::new("digest")
        .children([
            NodeBuilder::new("registration").bytes(bundle.registration.to_be_bytes().to_vec()).build(),
            NodeBuilder::new("type").bytes(vec![5]).build(),
            NodeBuilder::new("identity").bytes(bundle.identity.to_vec()).build(),
            skey(bundle),
            NodeBuilder::new("list").children(ids).build(),
            NodeBuilder::new("hash").bytes(hash).build(),
        ])
        .build()
}

/// Returns whose device an address is, among those who are known here.
fn keys_of(shared: &Arc<Shared>, world: &World, address: &str) -> Option<Keys> {
    let user = address.split(['@', ':', '.']).next().unwrap_or_default();
    if user == NUMBER || user == LID {
        return Some(shared.phone.clone());
    }
    let found = world.peers.iter().find(|(number, peer)| *number == user || peer.lid == user);
    found.map(|(_, peer)| peer.keys.clone())
}

fn bundles(shared: &Arc<Shared>, world: &World, asked: &Node) -> Node {
    let users = children(asked, "user").filter_map(|user| {
        let address = text(user, "jid");
        let bundle = keys_of(shared, world, &address)?.bundle();
        let mut parts = vec![
            NodeBuilder::new("registration").bytes(bundle.registration.to_be_bytes().to_vec()).build(),
            NodeBuilder::new("type").bytes(vec![5]).build(),
            NodeBuilder::new("identity").bytes(bundle.identity.to_vec()).build(),
            skey(&bundle),
        ];
        if let Some((id, key)) = bundle.one_time {
            let parts_of = [
                NodeBuilder::new("id").bytes(three(id)).build(),
                NodeBuilder::new("value").bytes(key.to_vec()).build(),
            ];
            parts.push(NodeBuilder::new("key").children(parts_of).build());
        }
        Some(NodeBuilder::new("user").attr("jid", address.parse::<Jid>().unwrap()).children(parts).build())
    });
    NodeBuilder::new("list").children(users.collect::<Vec<_>>()).build()
}

/// Says which devices people have, and their other ids.
fn usync(world: &World, asked: &Node) -> Node {
    let users =
        child(asked, "list").map(|list| children(list, "user").collect::<Vec<_>>()).unwrap_or_default();
    let told = users.into_iter().map(|user| {
        let address = text(user, "jid");
        let contact = child(user, "contact").map(bytes).unwrap_or_default();
        let contact = String::from_utf8(contact).unwrap().trim_start_matches('+').to_owned();
        let name = if address.is_empty() {
            contact
        } else {
            address.split(['@', ':', '.']).next().unwrap_or_default().to_owned()
        };
        let found = world.peers.iter().find(|(number, peer)| **number == name || peer.lid == name);
        let (number, lid) = match found {
            Some((number, peer)) => (number.clone(), peer.lid.clone()),
            None => (NUMBER.to_owned(), LID.to_owned()),
        };
        let by = if name == lid { Jid::lid(&*lid) } else { jid(&number) };
        let list = NodeBuilder::new("device-list")
            .children([NodeBuilder::new("device").attr("id", "0").build()])
            .build();
        NodeBuilder::new("user")
            .attr("jid", by)
            .children([
                NodeBuilder::new("devices").children([list]).build(),
                NodeBuilder::new("lid").attr("val", Jid::lid(&*lid)).build(),
                NodeBuilder::new("contact").attr("type", "in").build(),
            ])
            .build()
    });
    NodeBuilder::new("usync")
        .attr("sid", text(asked, "sid"))
        .attr("index", "0")
        .attr("last", "true")
        .attr("mode", text(asked, "mode"))
        .attr("context", text(asked, "context"))
        .children([
            NodeBuilder::new("result").build(),
            NodeBuilder::new("list").children(told.collect::<Vec<_>>()).build(),
        ])
        .build()
}

/// Says what a group is.
fn group(world: &World, node: &Node, answer: NodeBuilder) -> Node {
    let describe = |id: &str, group: &super::Group| {
        let mut members: Vec<Node> = group
            .members
            .iter()
            .map(|number| {
                let member = NodeBuilder::new("participant").attr("jid", jid(number));
                let is_admin = group.admins.contains(number);
                if is_admin { member.attr("type", "admin").build() } else { member.build() }
            })
            .collect();
        members.push(NodeBuilder::new("participant").attr("jid", jid(NUMBER)).attr("type", "admin").build());
        NodeBuilder::new("group")
            .attr("id", id)
            .attr("subject", group.subject.as_str())
            .attr("creation", "1790000000")
            .attr("s_t", "1790000000")
            .attr("creator", jid(NUMBER))
            .attr("size", members.len().to_string())
            .attr("addressing_mode", "pn")
            .children(members)
            .build()
    };
    if child(node, "participating").is_some() {
        let all: Vec<Node> = world.groups.iter().map(|(id, group)| describe(id, group)).collect();
        return answer
            .attr("type", "result")
            .children([NodeBuilder::new("groups").children(all).build()])
            .build();
    }
    let to = text(node, "to");
    let id = to.split('@').next().unwrap_or_default();
    match world.groups.get(id) {
        Some(group) => answer.attr("type", "result").children([describe(id, group)]).build(),
        None => {
            let error = NodeBuilder::new("error").attr("code", "404").attr("text", "item-not-found").build();
            answer.attr("type", "error").children([error]).build()
        }
    }
}

/// A message of the companion's: WhatsApp has it, and each peer reads what is for it.
async fn message(shared: &Arc<Shared>, me: usize, node: &Node) {
    let (id, to) = (text(node, "id"), text(node, "to"));
    let (refused, mute) = {
        let world = shared.world();
        (world.refuses.get(&to).copied(), world.mute)
    };
    if !mute {
        let ack = NodeBuilder::new("ack")
            .attr("class", "message")
            .attr("id", &id)
            .attr("from", to.parse::<Jid>().unwrap())
            .attr("t", "1790000001");
        let ack = match refused {
            Some(code) => ack.attr("error", code.to_string()),
            None => ack,
        };
        shared.world().send(me, ack.build());
    }
    if refused.is_some() {
        return;
    }
    let sealed: Vec<(String, Node)> = match child(node, "participants") {
        Some(all) => {
            children(all, "to").filter_map(|to| Some((text(to, "jid"), child(to, "enc")?.clone()))).collect()
        }
        None => children(node, "enc")
            .filter(|enc| text(enc, "type") != "skmsg")
            .map(|enc| (to.clone(), enc.clone()))
            .collect(),
    };
    let is_group = to.ends_with("@g.us");
    for (address, enc) in sealed {
        let keys = keys_of(shared, &shared.world(), &address);
        let Some(keys) = keys else { continue };
        let message = keys.decrypt(&text(&enc, "type"), &bytes(&enc)).await;
        if is_group {
            keys.learn(&to, &message).await;
        }
        if !is_group || message.sender_key_distribution_message.is_unset() {
            note(shared, &address, &to, &id, message);
        }
    }
    let Some(enc) = children(node, "enc").find(|enc| text(enc, "type") == "skmsg") else { return };
    let members: Vec<String> = {
        let world = shared.world();
        world
            .groups
            .get(to.split('@').next().unwrap_or_default())
            .map(|group| group.members.clone())
            .unwrap_or_default()
    };
    for member in members {
        let keys = shared.world().peers[&member].keys.clone();
        if let Some(message) = keys.group_decrypt(&to, &bytes(enc)).await {
            note(shared, &jid(&member).to_string(), &to, &id, message);
        }
    }
}

/// Notes what somebody has read, by their number.
fn note(shared: &Arc<Shared>, address: &str, to: &str, id: &str, message: wa::Message) {
    let user = address.split(['@', ':', '.']).next().unwrap_or_default().to_owned();
    shared.change(|world| {
        let by = world.peers.iter().find(|(number, peer)| **number == user || peer.lid == user);
        let by = by.map_or_else(|| NUMBER.to_owned(), |(number, _)| number.clone());
        world.read.push(Read { by, chat: to.to_owned(), id: id.to_owned(), message });
    });
}
