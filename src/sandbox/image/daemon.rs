//! The image of the daemon itself: this program, the adapters beside it, what they are linked to, and the machine's
//! certificate authorities. There is no shell in it.
#![expect(clippy::disallowed_types, reason = "the engine's own program builds it")]
#![expect(clippy::disallowed_methods, reason = "programs of this machine, and a folder of our own")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{BuildError, failed, libraries_of, read, set_mode};
use crate::domain::machine::elf;

const DOCKERFILE: &str = include_str!("../../../container/daemon.Dockerfile");
/// The adapters of chat platforms, and that of WhatsApp; one that is not there is left out.
const ADAPTERS: [&str; 2] = ["g2-channels", "g2-whatsapp"];
/// Where machines keep the certificates of their authorities.
const AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Builds it of `program` and what lies beside that.
///
/// # Errors
/// [`BuildError`]
pub fn build_daemon(image: &str, program: &Path) -> Result<(), BuildError> {
    let folder = tempfile::Builder::new().prefix("g2-image-").tempdir();
    let folder = folder.map_err(failed("making a folder in", &std::env::temp_dir()))?;
    let root = folder.path().join("rootfs");
    lay_out(&root, program)?;
    let dockerfile = folder.path().join("Dockerfile");
    fs::write(&dockerfile, DOCKERFILE).map_err(failed("writing", &dockerfile))?;
    let mut docker = Command::new("docker");
    docker.args(["build", "--tag", image]).arg(folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
    let status = docker.status().map_err(failed("starting", Path::new("docker")))?;
    if status.success() { Ok(()) } else { Err(BuildError::Failed { image: image.to_owned(), status }) }
}

fn lay_out(root: &Path, program: &Path) -> Result<(), BuildError> {
    for (folder, mode) in [("tmp", 0o1777), ("root", 0o700), ("usr/local/bin", 0o755)] {
        let path = root.join(folder);
        fs::create_dir_all(&path).map_err(failed("making", &path))?;
        set_mode(&path, mode)?;
    }
    let mut programs = vec![(program.to_owned(), "g2")];
    let adapters = ADAPTERS.map(|name| (program.with_file_name(name), name));
    programs.extend(adapters.into_iter().filter(|(path, _)| path.exists()));
    for (path, name) in programs {
        put(root, &path, &Path::new("/usr/local/bin").join(name))?;
        let bytes = read(&path).map_err(failed("reading", &path))?;
        let loader = elf::loader(&bytes).map_err(|why| BuildError::Runner { path: path.clone(), why })?;
        let Some(loader) = loader else { continue };
        // At the same paths as here, where the loader looks for them.
        let libraries = libraries_of(&path)?.into_iter().map(|(_, path)| path);
        for library in libraries.chain([PathBuf::from(loader)]) {
            put(root, &library, &library)?;
        }
    }
    match AUTHORITIES.into_iter().map(Path::new).find(|path| path.exists()) {
        Some(path) => put(root, path, Path::new(AUTHORITIES[0])),
        // A machine without any has none inside either.
        None => Ok(()),
    }
}

/// Copies a file of the machine to a path in the image.
fn put(root: &Path, from: &Path, to: &Path) -> Result<(), BuildError> {
    let copy = root.join(to.strip_prefix("/").unwrap_or(to));
    let folder = copy.parent().unwrap_or(root);
    fs::create_dir_all(folder).map_err(failed("making", folder))?;
    fs::copy(from, &copy).map_err(failed("copying", from))?;
    set_mode(&copy, 0o755)
}
