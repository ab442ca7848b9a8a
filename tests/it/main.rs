//! The one integration binary. Every file beside this one is a module of it.

mod support;

mod answer;
mod channel;
mod claim_order;
mod crash;
mod dispatch;
mod docker;
mod failures;
mod fairness;
mod ipc_files;
mod mailbox;
mod sandbox;
mod store;
mod tasks;
mod tidy;
mod v1_mode;
