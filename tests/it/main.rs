//! The one integration binary. Every file beside this one is a module of it.

mod support;

mod answer;
mod claim_order;
mod crash;
mod fairness;
mod ipc_files;
mod sandbox;
mod store;
mod tasks;
mod tidy;
mod v1_mode;
