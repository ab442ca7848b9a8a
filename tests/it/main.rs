//! The one integration binary. Every file beside this one is a module of it.

mod support;

mod answer;
mod approvals;
mod channel;
mod claim_order;
mod claude;
mod cli;
mod clocks;
mod config;
mod corpus;
mod crash;
mod deliver;
mod dispatch;
mod docker;
mod doctor;
mod failures;
mod fairness;
mod gateway;
mod heard;
mod hostile;
mod inbound;
mod ipc_files;
mod launch;
mod mailbox;
mod prune;
mod queue;
mod sandbox;
mod scheduled;
mod service;
mod store;
mod tasks;
mod tidy;
mod tokens;
mod typing;
mod v1_mode;
