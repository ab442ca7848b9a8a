//! A dry run: the same import, into a copy of the store that is thrown away.

use std::{
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow};

use super::{Acts, Here, Imported, Progress, Source, import};
use crate::{
    config::Config,
    domain::{moved::rows::Part, shown::errors::chain},
    store::{self, Store},
    system::world::World,
};

/// Imports into a copy of a root's store, as it stands now, and writes nothing to the root. A daemon may serve it meanwhile.
///
/// # Errors
/// As those of an import; the copy can't be made.
pub async fn dry_run(
    world: &World,
    (root, config): (&Path, &Config),
    source: Box<dyn Source>,
    parts: &[Part],
    progress: &Progress,
) -> anyhow::Result<Imported> {
    let copy = Copy::of(world, root).await?;
    let store = Store::open(&copy.0.join("g2.sqlite"))?;
    let here = Here { world, root, store: &store, config, owner: None, acts: Acts::Looking };
    import(&here, source, parts, progress).await
}

/// A folder with a copy of the store, which goes with this.
struct Copy(PathBuf);

impl Copy {
    async fn of(world: &World, root: &Path) -> anyhow::Result<Self> {
        let folder = root.join(format!("data/tmp/dry-run-{}", std::process::id()));
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .with_context(|| format!("making {}", folder.display()))?;
        let copy = Self(folder);
        let (from, to) = (root.join("data/g2.sqlite"), copy.0.join("g2.sqlite"));
        let copied = world.blocking(move || store::copy_to(&from, &to)).await;
        copied.map_err(|panic| anyhow!("copying the store: {panic}"))?.context("copying the store")?;
        Ok(copy)
    }
}

impl Drop for Copy {
    #[expect(
        clippy::disallowed_methods,
        reason = "a folder that we have made, which no container can write to"
    )]
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(error = %chain(&error), folder = %self.0.display(), "the copy of the store stays; the next start removes it");
        }
    }
}
