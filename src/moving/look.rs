//! A look at an installation: all of its rows are read, and nothing is taken in.

use ipc_handlers::Time;

use super::{Source, SourceKind};
use crate::config::adapters::OWN_PLATFORMS;
use crate::domain::{
    moved::{
        look::{Look, ZoneHere},
        rows::Part,
    },
    time::zone::Zones,
};

/// Reads these parts of a source through, and tells what would become of them.
///
/// # Errors
/// The source can't be read further.
pub fn look(
    source: &mut dyn Source,
    kind: SourceKind,
    parts: &[Part],
    now: Time,
    zones: (Zones, ZoneHere),
) -> anyhow::Result<Look> {
    let mut look = Look::new(source.about(), now, zones, &OWN_PLATFORMS);
    while let Some(batch) = source.next(parts)? {
        look.see(&batch.rows, batch.findings);
    }
    look.finish(kind == SourceKind::Export);
    Ok(look)
}
