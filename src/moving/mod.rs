#![doc = include_str!("README.md")]

pub mod foreign;
pub mod installation;
pub mod moment;
pub mod order;
pub mod source;
pub mod sources;

mod addresses;
mod adopt;
mod dry;
mod export;
mod files;
mod import;
mod instance;
mod look;
mod rehearse;

pub use adopt::{NotAdopted, adopt_transcript};
pub use dry::dry_run;
pub use export::{Exported, From, Manifest, export};
pub use files::{Acts, Copied};
pub use import::{Here, Imported, Progress, import};
pub use instance::instance_of;
use instance::instances_of;
pub use look::look;
pub use rehearse::rehearse;
pub use source::{Batch, Place, Source, Tree};
pub use sources::{Around, SourceKind, open};
