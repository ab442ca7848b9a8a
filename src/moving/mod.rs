#![doc = include_str!("README.md")]

pub mod source;

mod adopt;
mod dry;
mod export;
mod files;
mod import;
mod rehearse;
mod sources;

pub use adopt::{NotAdopted, adopt_transcript};
pub use dry::dry_run;
pub use export::{Exported, From, Manifest, export};
pub use files::{Acts, Copied};
pub use import::{Here, Imported, Progress, import};
pub use rehearse::rehearse;
pub use source::{Batch, Place, Source, Tree};
pub use sources::{SourceKind, open};
