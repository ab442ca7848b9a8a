//! The trait of a source: an installation that is moved in from.

use std::path::PathBuf;

use ipc_handlers::Folder;

use crate::domain::moved::{
    findings::Finding,
    rehearsal::there::{Mentions, There},
    rows::{Keyed, Part},
};

/// A batch has at most this many rows.
pub const MOST_ROWS: usize = 1_000;
/// A batch has at most about this much text, bytes: it is closed with the row that goes beyond.
pub const MOST_BYTES: usize = 4 << 20;

/// An installation that is moved in from. It is only read.
///
/// Rows come in this order: settings; groups, then chats, then wirings; people, and the list of senders; runs, then use; messages, marks and texts, each in
/// the order of time; lanes, then archives; tasks. So a row comes after those that it names.
/// Each call yields the next rows, in memory that does not grow with the source.
pub trait Source: Send {
    /// Returns the name by which it is remembered what was taken from here: the same installation has the same one again.
    fn name(&self) -> &str;

    /// Returns the instance of the root that it came from; `None`: it is another program's.
    fn of_root(&self) -> Option<&str> {
        None
    }

    /// Returns what it is, in some words for people: a program, a version, a place.
    fn about(&self) -> String;

    /// Returns about how many rows there are, for progress; 0: nobody knows.
    fn weight(&self) -> u64;

    /// Returns the next rows of these parts; `None` after the last ones.
    ///
    /// # Errors
    /// The source can't be read further. What can't be taken of it is no error: it is among the findings.
    fn next(&mut self, parts: &[Part]) -> anyhow::Result<Option<Batch>>;

    /// Returns the folders that come with it. They are asked for after the last rows, and for [`Place::Media`] as soon as a row has a
    /// file.
    fn trees(&self) -> Vec<Tree>;

    /// Returns how it decides which message wakes which group, for a rehearsal. It is asked after the last rows.
    fn rules(&self) -> There {
        There::Stored { mentions: Mentions::Stored }
    }
}

/// Rows, and what there is to know of those that are not among them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    pub rows: Vec<Keyed>,
    pub findings: Vec<Finding>,
}

/// A folder of files of a source, and its place here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    pub to: Place,
    /// Where it is: an absolute path. Where a part of it is a link, nothing is copied.
    pub from: PathBuf,
    /// Names at its top that are not taken, such as `logs`.
    pub without: Vec<String>,
}

/// Where a folder of files goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The working folder of a group.
    Group(Folder),
    /// The memory that all groups share: `groups/global`.
    Global,
    /// The folder in which the agent's program keeps what it knows: `.claude`.
    Agent(Folder),
    /// The project folder of the agent's transcripts in a group: `ID.jsonl` and what lies beside.
    Transcripts(Folder),
    /// Skills of a group's own.
    Skills(Folder),
    /// The folder with which new groups begin.
    Template,
    /// Skills of all groups.
    AllSkills,
    /// Earlier texts of the memory of a group, or of all. They are taken if there are none here.
    Memories(Option<Folder>),
    /// Files beside messages: the paths of [`File`](crate::domain::moved::rows::File) begin here.
    Media,
}
