//! The daily backup. One into a file of its own is made by `g2 backup` itself: the daemon may be of any state then.

pub mod now;
