//! The half that is about talk: chats, wirings, people, questions, messages, what is to be said, the feed, and the groups
//! themselves. It knows nothing of how an agent works.

pub(super) mod accounts;
pub(super) mod addresses;
pub(super) mod amends;
pub(super) mod approvals;
pub(super) mod arrivals;
pub(super) mod attachments;
pub(super) mod chats;
pub(super) mod claims;
mod edits;
pub(super) mod events;
pub(super) mod files;
pub(super) mod groups;
pub(super) mod lanes;
pub(super) mod lines;
pub(super) mod messages;
pub(super) mod outbox;
pub(super) mod people;
pub(super) mod questions;
pub(super) mod register;
pub(super) mod restored;
pub(super) mod same;
pub(super) mod visits;
