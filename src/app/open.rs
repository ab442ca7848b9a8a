//! Opens what a daemon works on, under the root's lock.
#![expect(clippy::disallowed_methods, reason = "lays out the root, which no container can write")]

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, Result};

use super::{
    Surroundings,
    adapters::{self, Accounts},
    bounds::{asking, bounds, bounds_outside},
    descriptors::make_room_for_files,
    init,
    lock::{self, lock},
    sandbox::choose_sandbox,
};
use crate::{
    channels::local::Local,
    config::Config,
    domain::shown::{errors::chain, screen},
    gateway::{self, Credentials, Gateway, Upstream},
    ipc::{Claims, Files, HostDirs},
    moving::instance_of,
    sandbox::Sandbox,
    store::{self, Names, Store},
    system::{media::Media, world::World},
};

/// What a daemon works on.
pub(super) struct Opened {
    pub(super) lock: File,
    pub(super) world: World,
    pub(super) root: PathBuf,
    /// Nothing was ended or recovered in it yet.
    pub(super) store: Store,
    /// This root's id.
    pub(super) instance: String,
    pub(super) sandbox: Box<dyn Sandbox>,
    pub(super) gateway: Gateway,
    pub(super) dirs: Arc<HostDirs>,
    pub(super) files: Files,
    pub(super) media: Arc<Media>,
    pub(super) claims: Claims,
    pub(super) local: Local,
    pub(super) accounts: Accounts,
    pub(super) names: Names,
    /// Runs' tokens are signed with it.
    pub(super) token_key: ipc_handlers::token::Key,
}

/// Opens a root under its lock. What it lacks is laid out.
///
/// # Errors
/// What can't be opened, and why; another daemon serves the root.
pub(super) async fn open(surroundings: Surroundings, root: PathBuf, config: &Config) -> Result<Opened> {
    let Surroundings { world, files, sandbox, channels: more } = surroundings;
    make_room_for_files(&root);
    // Nothing is written to a root that another daemon serves.
    private_dir(&root.join("data"))?;
    let lock = lock(&root).await?;
    adapters::kill_left(&root).await;
    if world.disk().is_none() {
        make_log_durable(&root);
    }
    init::init(&world, &root, config).await?;
    let store = open_store_under(&world, &lock, &root)?;
    remove_old_indexes(&root);
    let instance = instance_of(&world, &root, &store).await?;
    let sandbox = match sandbox {
        Some(sandbox) => sandbox,
        None => choose_sandbox(&root, config, &store).await?,
    };
    let gateway = open_gateway(world.clone(), &root, config)?;
    let dirs = HostDirs::open(files.at(&root.join("data")))?;
    if !dirs.has_links() {
        tracing::warn!(
            "the file system of data/ has no hard links, or no files without a name: a container that means it can keep all others waiting"
        );
    }
    let media = Media::open(&root.join("data")).context("opening data/media")?;
    let claims = Claims::open(&dirs, store.last_claim()?)?;
    if let Err(error) = crate::root::clear_incoming(&root.join("data")) {
        tracing::warn!(error = %chain(&error), "what programs left in data/incoming can't be removed");
    }
    let local = Local::taking_files(Arc::clone(&media), root.join("data").join(crate::root::INCOMING));
    let asking = asking(config);
    let names = asking.channels.clone();
    let known = store.addresses().await.context("reading how addresses read")?;
    let accounts = Accounts::new(&world, &root, config, &instance, &local, &media, (names.clone(), &known));
    let channels = &accounts.channels;
    more.into_iter().for_each(|channel| channels.add(channel));
    // People are asked over these, too.
    names.set(channels.names());
    let store = store.asking(asking).bounded(bounds(config));
    let token_key = crate::root::token_key(&root.join("data")).context("reading data/token.key")?;
    Ok(Opened {
        lock,
        world,
        root,
        store,
        instance,
        sandbox,
        gateway,
        dirs,
        files,
        media,
        claims,
        local,
        accounts,
        names,
        token_key,
    })
}

/// Makes a folder that only this user can look into.
pub(super) fn private_dir(path: &Path) -> Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    if !path.exists() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .with_context(|| format!("making {}", path.display()))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))
            .with_context(|| format!("closing {}", path.display()))?;
    }
    Ok(())
}

/// Removes the indexes of archived sessions that an earlier version had.
fn remove_old_indexes(root: &Path) {
    let old = root.join("data/search");
    if let Err(error) = fs::remove_dir_all(&old)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(path = %old.display(), error = %chain(&error), "an earlier version's index can't be removed");
    }
}

/// Opens the root's store, making `data/` where needed.
///
/// # Errors
/// What could not be opened, and why; the log beside it belongs to another store.
pub fn open_store(world: &World, root: &Path) -> Result<Store> {
    init::check_log(root)?;
    let data = root.join("data");
    fs::create_dir_all(&data).with_context(|| format!("making {}", data.display()))?;
    let path = data.join("g2.sqlite");
    // Its log and its index are made as it is.
    crate::root::make_private_file(&path, b"").with_context(|| format!("making {}", path.display()))?;
    Ok(Store::open_in(world.clone(), &path)?)
}

/// Opens the root's store for the holder of its lock, which may write to it.
///
/// # Errors
/// As [`open_store`].
pub(super) fn open_store_under(world: &World, lock: &File, root: &Path) -> Result<Store> {
    let store = open_store(world, root)?;
    lock::note_store(lock, root);
    Ok(store)
}

/// Has what a daemon that died committed be on the disk before it is read, and acted on. A start on a disk that is full goes on.
fn make_log_durable(root: &Path) {
    // Another's log is not to come into this store.
    if init::check_log(root).is_err() {
        return;
    }
    if let Err(error) = store::make_log_durable(&root.join("data/g2.sqlite")) {
        tracing::warn!(error = %chain(&error), "what the last daemon left in the store's log may not be on the disk");
    }
}

/// Makes the gateway of a root's settings; it reads no key yet.
///
/// # Errors
/// When the address of the model's host can't be used.
fn open_gateway(world: World, root: &Path, config: &Config) -> Result<Gateway> {
    let upstream = Upstream::of(config).with_context(|| {
        format!("the setting gateway.upstream can't be {:?}", screen::address(&config.gateway.upstream))
    })?;
    let credentials = Credentials::new(root.join(".env"), config.gateway.token_file.clone());
    let gateway = Gateway::new(world, upstream, credentials, gateway::Limits::default());
    gateway.bound_outside(bounds_outside(config));
    Ok(gateway)
}
