//! Builds the image that agents run in, without a checkout: the files that it needs are in this program, and this program is its
//! runner where none lies beside it.
#![expect(
    clippy::disallowed_types,
    reason = "the build is a script, and its runner is asked for its version"
)]
#![expect(clippy::disallowed_methods, reason = "programs of this machine, and a folder of our own")]

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

use crate::domain::machine::{
    elf::{self, NoProgram},
    image::ImageKind,
};

mod daemon;

pub use daemon::build_daemon;

/// The script, and the files that it reads.
const FILES: [(&str, &str); 4] = [
    ("build.sh", include_str!("../../container/build.sh")),
    ("claude.sh", include_str!("../../container/claude.sh")),
    ("mirror.sh", include_str!("../../container/mirror.sh")),
    ("Dockerfile", include_str!("../../container/Dockerfile")),
];
/// The largest file that may be a runner, bytes.
const LARGEST: u64 = 1 << 30;

/// Why no image was built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("{doing} {path} failed: {source}")]
    File { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("{path} can't be the runner of an image: {why}")]
    Runner { path: PathBuf, why: NoProgram },
    #[error("building {image} failed ({status}); the lines above say why")]
    Failed { image: String, status: ExitStatus },
}

/// A program that becomes the runner of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runner {
    /// A static one, made of the same sources as this program.
    Static(PathBuf),
    /// This program, with the libraries that it needs.
    Ourselves(PathBuf),
}

/// Returns the runner for an image: a static one beside `program`, or where packages lay it, otherwise `program` itself.
#[must_use]
pub fn runner(program: &Path) -> Runner {
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = [folder.join("g2-agent"), folder.join("../lib/g2/g2-agent")];
    let is_static = |path: &PathBuf| read(path).is_ok_and(|bytes| elf::loader(&bytes) == Ok(None));
    let is_ours = |path: &PathBuf| {
        let said = Command::new(path).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
        said.is_ok_and(|said| said.stdout == format!("g2-agent {}\n", agent_runner::ID).into_bytes())
    };
    let beside = places.into_iter().find(|path| is_static(path) && is_ours(path));
    beside.map_or_else(|| Runner::Ourselves(program.to_owned()), Runner::Static)
}

/// Builds an image. What goes on is said on stderr.
///
/// # Errors
/// [`BuildError`]
pub fn build(kind: ImageKind, image: &str, runner: &Runner) -> Result<(), BuildError> {
    let folder = tempfile::Builder::new().prefix("g2-image-").tempdir();
    let folder = folder.map_err(failed("making a folder in", &std::env::temp_dir()))?;
    lay_out(folder.path(), runner)?;
    let mut script = Command::new("sh");
    script.arg(folder.path().join("build.sh"));
    script.args(Some(kind.option()).filter(|option| !option.is_empty())).arg(image);
    let ended = script.stdin(Stdio::null()).stdout(Stdio::null()).status();
    let status = ended.map_err(failed("starting", Path::new("sh")))?;
    if status.success() { Ok(()) } else { Err(BuildError::Failed { image: image.to_owned(), status }) }
}

/// Puts the script into a folder, with all that it reads.
fn lay_out(folder: &Path, runner: &Runner) -> Result<(), BuildError> {
    for (name, text) in FILES {
        let path = folder.join(name);
        fs::write(&path, text).map_err(failed("writing", &path))?;
        set_mode(&path, 0o755)?;
    }
    let id = folder.join("runner");
    fs::write(&id, agent_runner::ID).map_err(failed("writing", &id))?;
    let libraries = folder.join("agent/lib");
    fs::create_dir_all(&libraries).map_err(failed("making", &libraries))?;
    let agent = folder.join("agent/g2-agent");
    match runner {
        Runner::Static(path) => drop(fs::copy(path, &agent).map_err(failed("copying", path))?),
        Runner::Ourselves(path) => {
            let unusable = |why| BuildError::Runner { path: path.clone(), why };
            let mut bytes = read(path).map_err(failed("reading", path))?;
            let loader = elf::loader(&bytes).map_err(unusable)?;
            elf::name_own_loader(&mut bytes).map_err(unusable)?;
            fs::write(&agent, bytes).map_err(failed("writing", &agent))?;
            if let Some(loader) = loader {
                copy_libraries(path, Path::new(&loader), &libraries)?;
            }
        }
    }
    set_mode(&agent, 0o755)
}

/// Copies what a program is linked to, and its loader.
fn copy_libraries(program: &Path, loader: &Path, into: &Path) -> Result<(), BuildError> {
    let own = Path::new(elf::LOADER).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let libraries = libraries_of(program)?.into_iter().chain([(own, loader.to_owned())]);
    for (name, path) in libraries {
        let copy = into.join(name);
        fs::copy(&path, &copy).map_err(failed("copying", &path))?;
        set_mode(&copy, 0o755)?;
    }
    Ok(())
}

/// Returns what a program is linked to, by name and path.
fn libraries_of(program: &Path) -> Result<Vec<(String, PathBuf)>, BuildError> {
    let said = Command::new("ldd").arg(program).stdin(Stdio::null()).output();
    let said = said.map_err(failed("starting", Path::new("ldd")))?;
    let said = String::from_utf8_lossy(&said.stdout);
    let owned = |(name, path): (&str, &str)| (name.to_owned(), PathBuf::from(path));
    Ok(elf::libraries(&said).into_iter().map(owned).collect())
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn set_mode(path: &Path, mode: u32) -> Result<(), BuildError> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed("opening to all", path))
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BuildError {
    let path = path.to_owned();
    move |source| BuildError::File { doing, path, source }
}

/// Whether a program is in one of the folders of a search path.
#[must_use]
pub fn has_program(path: &str, name: &str) -> bool {
    std::env::split_paths(path).any(|folder| {
        let meta = fs::metadata(folder.join(name));
        meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    })
}
