//! Platforms: how their addresses read, what they can do, and how a text is cut for them; files beside
//! messages.

pub mod accounts;
pub mod addresses;
pub mod amends;
pub mod attachments;
pub mod channels;
pub mod chats;
pub mod gone;
pub mod growth;
pub mod pace;
pub mod parcels;
pub mod pictures;
pub mod typing;
