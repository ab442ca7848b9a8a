//! The one integration binary. Every file beside this one is a module of it.

mod support;

mod answer;
mod claim_order;
mod ipc_files;
mod sandbox;
mod store;
mod tidy;
