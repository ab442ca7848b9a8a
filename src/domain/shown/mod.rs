//! What people and programs are shown of a root: screens, the feed, the audit, figures, reports.

pub mod audit;
pub mod command_words;
pub mod counted;
pub mod errors;
pub mod feed;
pub mod metrics;
pub mod repeats;
pub mod report;
pub mod screen;
