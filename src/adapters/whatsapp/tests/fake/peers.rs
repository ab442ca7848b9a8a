//! Those who write to the account, and what they do if it can't read them.

use whatsapp_rust::{Jid, NodeBuilder, prelude::wa};

use super::{Shared, jid, signal::Keys};

/// A message of a peer.
#[derive(Clone)]
pub(super) struct Written {
    pub(super) by: String,
    /// Empty: to the account alone.
    pub(super) group: String,
    pub(super) mark: String,
    pub(super) message: wa::Message,
}

/// Somebody who writes to the account.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) keys: Keys,
    pub(super) name: String,
    pub(super) lid: String,
    /// It writes by its other id.
    pub(super) by_lid: bool,
    /// Groups in which the companion can read it.
    pub(super) distributed: std::collections::BTreeSet<String>,
}

impl Shared {
    /// Encrypts a message for the companion as it is known now, and delivers it.
    pub(super) async fn send_written(&self, id: &str, written: &Written) {
        let Written { by, group, mark, message } = written;
        let (peer, bundle) = self.change(|world| {
            let peer = world.peers[by].clone();
            let bundle = (!peer.keys.has_session()).then(|| world.bundle_for_one()).flatten();
            (peer, bundle)
        });
        if let Some(bundle) = bundle {
            peer.keys.begin(&bundle).await;
        }
        let sealed = |kind: &'static str, bytes: Vec<u8>| {
            NodeBuilder::new("enc").attr("v", "2").attr("type", kind).bytes(bytes).build()
        };
        let mut node = head(&peer, id);
        if !mark.is_empty() {
            node = node.attr("edit", mark);
        }
        let mut children = Vec::new();
        if group.is_empty() {
            let (kind, bytes) = peer.keys.encrypt(message).await;
            children.push(sealed(kind, bytes));
            node = match peer.by_lid {
                true => node.attr("from", Jid::lid(&*peer.lid)).attr("sender_pn", jid(by)),
                false => node.attr("from", jid(by)),
            };
        } else {
            let address = Jid::group(group).to_string();
            if !peer.distributed.contains(group) {
                let told = peer.keys.distribution(&address).await;
                let (kind, bytes) = peer.keys.encrypt(&told).await;
                children.push(sealed(kind, bytes));
                self.change(|world| world.peers.get_mut(by).unwrap().distributed.insert(group.to_owned()));
            }
            children.push(sealed("skmsg", peer.keys.group_encrypt(&address, message).await));
            node = node.attr("from", Jid::group(group));
            node = match peer.by_lid {
                true => node
                    .attr("participant", Jid::lid(&*peer.lid))
                    .attr("participant_pn", jid(by))
                    .attr("addressing_mode", "lid"),
                false => node.attr("participant", jid(by)).attr("addressing_mode", "pn"),
            };
        }
        let node = node.children(children).build();
        self.change(|world| {
            world.queue.retain(|(waiting, _)| waiting != id);
            world.deliver(id, node);
        });
    }

    /// The companion could not read a message: its sender begins anew with it, and sends the message again.
    pub(super) async fn send_again(&self, id: &str) {
        let written = self.change(|world| {
            let written = world.written.get(id).cloned()?;
            let peer = world.peers.get_mut(&written.by)?;
            peer.keys.forget();
            peer.distributed.remove(&written.group);
            Some(written)
        });
        if let Some(written) = written {
            self.send_written(id, &written).await;
        }
    }
}

pub(super) fn head(peer: &Peer, id: &str) -> NodeBuilder {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    NodeBuilder::new("message")
        .attr("id", id)
        .attr("t", now.to_string())
        .attr("type", "text")
        .attr("notify", peer.name.as_str())
}
