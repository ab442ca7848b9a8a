//! The one integration binary. Every file beside this one is a module of it.

mod support;

mod answer;
mod channel;
mod dispatch;
mod docker;
mod failures;
mod fairness;
mod ipc_files;
mod mailbox;
mod sandbox;
mod tasks;
mod v1_mode;
