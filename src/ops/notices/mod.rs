//! Problems: what owners are told of them, and those that they let stand.

pub mod note;
pub mod try_now;
