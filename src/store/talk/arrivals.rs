//! What an adapter tells: each event is stored together with the place from which the adapter goes on after it.

use std::collections::BTreeMap;

use ipc_handlers::Time;

use crate::{
    domain::{
        heard::same::Person,
        platforms::{channels::Mark, chats::ChatInfo},
        rows::Inbound,
    },
    store::{
        Accepted, Decided, Result, Store, StoreError,
        talk::{
            accounts::{advance, count_passed_over, count_unknown_kind},
            approvals::click,
            chats::{ensure_chat, has_moved_often, has_room, is_known, learn, move_chat, put_mark},
            messages::accept,
            same,
        },
    },
};

/// Something that came in.
#[derive(Clone, Debug)]
pub enum Arrival {
    Message(Box<Inbound>),
    Mark(Mark),
    /// A button: what it carries, who pressed it, in which chat, and below which message; '' if the platform does not say that.
    Press {
        press: String,
        user: String,
        chat: String,
        of: String,
    },
    Moved {
        from: String,
        to: String,
    },
    Chat {
        jid: String,
        info: ChatInfo,
        unknown: UnknownChat,
    },
    /// What a person did who has these ids.
    By {
        person: Person,
        then: Box<Arrival>,
    },
    /// Nothing that is stored, but where the adapter goes on.
    Nothing,
    /// The same, of something that can't be taken in: it is counted.
    PassedOver,
}

/// The fate of facts about a chat that is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownChat {
    /// It is known from now on.
    Taken,
    /// The same, unless the account has told of too many that nobody uses.
    Counted,
    PassedOver,
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum Arrived {
    /// A chat is known from now on.
    NewChat,
    /// The account has told of too many chats that nobody uses.
    TooManyChats,
    Message(Accepted),
    /// What the person is told who pressed the button.
    Pressed(Decided),
    Stored,
}

impl Store {
    /// Stores an event of an account and where its adapter goes on, in one transaction. The same event again changes nothing.
    pub async fn arrive(
        &self,
        channel: &str,
        cursor: BTreeMap<String, String>,
        arrival: Arrival,
        now: Time,
    ) -> Result<Arrived> {
        let (channel, asking) = (channel.to_owned(), self.asking_now());
        self.write(move |c| {
            advance(c, &channel, &cursor, now)?;
            let arrival = match arrival {
                Arrival::By { person, then } => {
                    same::learn(c, &channel, &person, now)?;
                    *then
                }
                other => other,
            };
            Ok(match arrival {
                Arrival::Message(inbound) => {
                    let is_unknown = inbound.unknown_kind;
                    let accepted = accept(c, &asking, *inbound, now)?;
                    if is_unknown && !accepted.again {
                        count_unknown_kind(c, &channel, now)?;
                    }
                    Arrived::Message(accepted)
                }
                Arrival::Mark(mark) => {
                    put_mark(c, mark, now)?;
                    Arrived::Stored
                }
                // A button of nothing that is known changes nothing, and its press is over all the same.
                Arrival::Press { press, user, chat, of } => {
                    match click(c, &asking, &press, &user, Some((&chat, &of)), now) {
                        Ok(decided) => Arrived::Pressed(decided),
                        Err(StoreError::Refused { .. } | StoreError::NotFound { .. }) => Arrived::Stored,
                        Err(error) => return Err(error),
                    }
                }
                // With a chat that nobody knows nothing has to move: the first message makes the new one.
                Arrival::Moved { from, .. } if !is_known(c, &from)? => Arrived::Stored,
                Arrival::Moved { from, .. } if has_moved_often(c, &from)? => Arrived::TooManyChats,
                Arrival::Moved { from, to } => {
                    move_chat(c, &from, &to, now)?;
                    Arrived::Stored
                }
                Arrival::Chat { jid, info, unknown } => {
                    let arrived = match unknown {
                        _ if is_known(c, &jid)? => Arrived::Stored,
                        UnknownChat::PassedOver => return Ok(Arrived::Stored),
                        UnknownChat::Counted if !has_room(c, &channel, now)? => {
                            return Ok(Arrived::TooManyChats);
                        }
                        UnknownChat::Counted | UnknownChat::Taken => Arrived::NewChat,
                    };
                    ensure_chat(c, &jid, now)?;
                    learn(c, &jid, &info)?;
                    arrived
                }
                // One person does it.
                Arrival::By { .. } | Arrival::Nothing => Arrived::Stored,
                Arrival::PassedOver => {
                    count_passed_over(c, &channel, now)?;
                    Arrived::Stored
                }
            })
        })
        .await
    }
}
