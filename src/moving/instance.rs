//! Which root this is: an import knows an export by it, and a daemon its containers.
#![expect(clippy::disallowed_methods, reason = "looks at data/, which no container can write")]

use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

use anyhow::Context as _;

use crate::{store::Store, system::world::World};

/// As many instances are remembered.
const MOST: usize = 64;

/// Returns the root's instance id: a new one where there is none, or where `data/` is not where it was made (a copy adopts nothing).
///
/// # Errors
/// `data/` can't be looked at, or the store not be written.
pub async fn instance_of(world: &World, root: &Path, store: &Store) -> anyhow::Result<String> {
    let data = fs::metadata(root.join("data")).context("looking at data/")?;
    let place = format!("{}:{}", data.dev(), data.ino());
    if let (Some(id), Some(known)) = (store.meta("instance")?, store.meta("place")?) {
        if known == place {
            return Ok(id);
        }
        tracing::warn!(
            "this root is a copy, or was moved: it gets an instance of its own and adopts nothing"
        );
    }
    let id = world.id().context("reading a random id from the kernel")?;
    let mut all = known(store)?;
    all.push(id.clone());
    let newest = all.len().saturating_sub(MOST);
    store.set_meta("instances", &all[newest..].join(" ")).await?;
    store.set_meta("instance", &id).await?;
    store.set_meta("place", &place).await?;
    Ok(id)
}

/// Returns this instance, and the newest of those that it was before it was moved, copied or restored.
///
/// # Errors
/// As above.
pub(super) async fn instances_of(world: &World, root: &Path, store: &Store) -> anyhow::Result<Vec<String>> {
    let own = instance_of(world, root, store).await?;
    let mut all = known(store)?;
    all.push(own);
    Ok(all)
}

fn known(store: &Store) -> anyhow::Result<Vec<String>> {
    let noted = store.meta("instances")?.unwrap_or_default();
    // Before they were noted there was the last one.
    let last = store.meta("instance")?;
    Ok(noted.split_whitespace().map(str::to_owned).chain(last).collect())
}
