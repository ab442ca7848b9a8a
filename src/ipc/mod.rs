#![doc = include_str!("README.md")]

pub mod boxes;
mod dir;
pub mod files;
mod host;
mod inside;
mod kernel;
mod layout;
mod left;
pub mod mailbox;
mod memory;
mod names;
mod old;
mod own;
pub mod peek;
pub mod post;
mod replies;
mod skills;
mod transcript;
mod trash;
mod tree;
pub mod twin;
pub mod watch;
mod weigh;
mod world_fault;

pub use boxes::{
    ClaimError, Emptied, Entry, GroupBoxes, Identity, InputLeft, InputState, Listing, PutError, Stamp,
    StateError,
};
pub use files::{At, Files};
pub use host::{HostDirs, Owner, sync_all};
pub use inside::{
    Inside, InsideError, InsideFile, InsideStamp, file_inside, is_only_name, read_inside, stamp_inside,
};
pub use kernel::Writer;
pub use layout::{
    LaidOut, lay_out_global, lay_out_group, lay_out_group_with, lay_out_template, look_at_folder,
    take_back_group,
};
pub use left::LeftBox;
pub use mailbox::{
    COMMAND_LIMIT, Claimed, Claims, DONE_FILES, HEAD, LeftOver, Origin, OriginKind, Read, ReadError, Source,
    Why,
};
pub use memory::{MEMORY_LIMIT, Memory, MemoryError, MemoryOf, read_memory, write_memory};
pub use names::{BoxName, CommandBox, FileKind, display_name};
pub use old::{Looked, OldFile, Removed, old_files, remove_old};
pub use own::give_folder;
pub use replies::{remove_replies, replies};
pub use transcript::transcript_lines;
pub use trash::Swept;
pub use tree::{Met, each_below};
pub use watch::{Hint, HintSender, Hints, Watch, WatchError, hints};
pub use weigh::{Gap, Weight, weigh};
pub use world_fault::WorldFault;
