//! The one integration binary. Every file beside this one is a module of it.

mod support;

mod answer;
mod doctor;
mod ipc_files;
mod sandbox;
mod service;
mod tidy;
