//! A sandbox with everything a test needs around it, and nothing left over afterwards.
#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out folders and build the program that runs inside"
)]
#![expect(clippy::disallowed_types, reason = "tests build the program that runs inside")]

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    hash::{DefaultHasher, Hash, Hasher},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicI64, Ordering},
    },
    thread,
    time::Duration,
};

use bollard::{Docker, query_parameters::CreateImageOptionsBuilder};
use futures_util::StreamExt;
use g2::sandbox::{
    Access, Chunk, Labels, Limits, Mount, Network, Sandbox, SandboxError, Seat, Spec, Whose,
    docker::DockerSandbox, process::ProcessSandbox,
};
use ipc_handlers::Folder;
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// How long a test waits for anything at all.
const DEADLINE: Duration = Duration::from_secs(120);

static MADE: AtomicI64 = AtomicI64::new(1);

/// One sandbox under test.
pub(super) struct House {
    pub(super) sandbox: Arc<dyn Sandbox>,
    pub(super) instance: String,
    dir: TempDir,
    image: String,
    program: String,
    /// Where the group's folder is seen inside.
    inside: PathBuf,
}

/// What a container wrote.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Written {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

impl House {
    /// Returns a house on Docker, or nothing where there is no Docker and nobody insists.
    pub(super) async fn docker() -> Option<Self> {
        let host = env::var("DOCKER_HOST").ok();
        let sandbox = DockerSandbox::new(host.as_deref()).unwrap();
        let program = probe(Linkage::Static);
        let image = format!("g2-test-probe:{}", folder_name(&program));
        match sandbox.check(&image).await {
            Ok(()) => {}
            Err(SandboxError::NoImage { .. }) => {
                static IMPORTED: OnceCell<()> = OnceCell::const_new();
                IMPORTED.get_or_init(|| import(&image, &program)).await;
            }
            Err(error) if env::var("G2_REQUIRE_DOCKER").is_ok_and(|value| value == "1") => panic!("{error}"),
            Err(_) => {
                eprintln!("skipped: no Docker");
                return None;
            }
        }
        let inside = PathBuf::from("/workspace/group");
        Some(Self::new(Arc::new(sandbox), image, "/container-probe".to_owned(), Some(inside)))
    }

    /// Returns a house on child processes.
    pub(super) fn process() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = probe(Linkage::Dynamic);
        let sandbox = process_sandbox(dir.path());
        let mut house =
            Self::new(Arc::new(sandbox), "unused".to_owned(), program.display().to_string(), None);
        // The sandbox' own folder goes last.
        house.dir = dir;
        house.inside = house.group();
        fs::create_dir_all(&house.inside).unwrap();
        house
    }

    fn new(sandbox: Arc<dyn Sandbox>, image: String, program: String, inside: Option<PathBuf>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let instance = format!("t{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let group = dir.path().join("group");
        fs::create_dir_all(&group).unwrap();
        // The user inside is not the one who made it.
        fs::set_permissions(&group, fs::Permissions::from_mode(0o777)).unwrap();
        let inside = inside.unwrap_or(group);
        Self { sandbox, instance, dir, image, program, inside }
    }

    /// Another sandbox on the same engine, as the next daemon makes it.
    pub(super) fn next_daemon(&mut self) {
        let host = env::var("DOCKER_HOST").ok();
        self.sandbox = Arc::new(DockerSandbox::new(host.as_deref()).unwrap());
    }

    /// `groups/<folder>` on the host.
    pub(super) fn group(&self) -> PathBuf {
        self.dir.path().join("group")
    }

    /// A file of the group's folder as it is seen inside.
    pub(super) fn inside(&self, name: &str) -> String {
        self.inside.join(name).display().to_string()
    }

    /// What runs the probe with `args`. Each has a name of its own.
    pub(super) fn spec(&self, args: &[&str]) -> Spec {
        let run = MADE.fetch_add(1, Ordering::Relaxed);
        Spec {
            name: format!("g2-{}-{run}", self.instance),
            run,
            group: Folder::parse("family").unwrap(),
            instance: self.instance.clone(),
            image: self.image.clone(),
            command: [&self.program[..]].iter().chain(args).map(|arg| (*arg).to_owned()).collect(),
            mounts: vec![Mount {
                host: self.group(),
                inside: "/workspace/group".to_owned(),
                access: Access::ReadWrite,
                whose: Whose::Own,
            }],
            env: BTreeMap::new(),
            user: (1000, 1000),
            network: Network::None,
            labels: Labels::Keep,
            scratch: Vec::new(),
            limits: Limits { memory_bytes: None, cpus: Some(1.5), pids: Some(64), output_bytes: 96 << 20 },
            seat: Seat { group: self.group(), ipc: self.dir.path().join("ipc") },
        }
    }

    pub(super) async fn create(&self, args: &[&str]) -> String {
        self.sandbox.create(&self.spec(args)).await.unwrap()
    }

    /// Creates and starts.
    pub(super) async fn launch(&self, args: &[&str], stdin: &[u8]) -> String {
        self.launch_spec(&self.spec(args), stdin).await
    }

    pub(super) async fn launch_spec(&self, spec: &Spec, stdin: &[u8]) -> String {
        let id = self.sandbox.create(spec).await.unwrap();
        self.sandbox.start(&id, stdin.to_vec()).await.unwrap();
        id
    }

    /// Runs to the end; returns the exit code and what was written.
    pub(super) async fn run(&self, args: &[&str], stdin: &[u8]) -> (i64, Written) {
        let id = self.launch(args, stdin).await;
        let written = self.written(&id).await;
        (self.code(&id).await, written)
    }

    /// Reads the output to its end.
    pub(super) async fn written(&self, id: &str) -> Written {
        let mut output = self.sandbox.output(id);
        let mut written = Written::default();
        while let Some(chunk) = in_time(output.next()).await {
            match chunk.unwrap() {
                Chunk::Stdout(bytes) => written.stdout.extend(bytes),
                Chunk::Stderr(bytes) => written.stderr.extend(bytes),
            }
        }
        written
    }

    pub(super) async fn code(&self, id: &str) -> i64 {
        in_time(self.sandbox.wait(id)).await.unwrap().code
    }
}

impl Written {
    pub(super) fn text(&self) -> &str {
        str::from_utf8(&self.stdout).unwrap()
    }

    pub(super) fn lines(&self) -> Vec<&str> {
        self.text().lines().collect()
    }
}

/// Containers outlive us: what a test has left, and a failed one too, is removed.
impl Drop for House {
    fn drop(&mut self) {
        let (sandbox, instance) = (Arc::clone(&self.sandbox), self.instance.clone());
        let clean = async move {
            for found in sandbox.list(&instance).await.unwrap_or_default() {
                let _ = sandbox.remove(&found.id).await;
            }
        };
        let clean = thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(clean);
        });
        let _ = clean.join();
    }
}

/// The process sandbox of a root.
pub(super) fn process_sandbox(dir: &Path) -> ProcessSandbox {
    ProcessSandbox::new(probe(Linkage::Dynamic), vec!["echo".to_owned()], dir.join("runs"))
}

/// Waits, but not for ever.
pub(super) async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, what).await.expect("done in time")
}

/// Waits until `is_so`.
pub(super) async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let reached = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(DEADLINE, reached).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// Whether somebody holds a lock on the file.
pub(super) fn is_held(path: &Path) -> bool {
    let file = File::open(path);
    file.is_ok_and(|file| matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock)))
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Linkage {
    Static,
    Dynamic,
}

/// Builds `container_probe.rs` when it has changed, and returns the program.
pub(crate) fn probe(linkage: Linkage) -> PathBuf {
    static BUILT: [OnceLock<PathBuf>; 2] = [const { OnceLock::new() }; 2];
    BUILT[linkage as usize].get_or_init(|| build(linkage)).clone()
}

fn build(linkage: Linkage) -> PathBuf {
    let source = include_bytes!("../../fixtures/container_probe.rs");
    let mut hasher = DefaultHasher::new();
    (source, linkage as u8).hash(&mut hasher);
    // …/target/debug/deps/it-…
    let target = env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned();
    let dir = target.join("container-probe").join(format!("{:016x}", hasher.finish()));
    let program = dir.join("container-probe");
    if !program.exists() {
        fs::create_dir_all(&dir).unwrap();
        let beside_cargo = Path::new(env!("CARGO")).with_file_name("rustc");
        let rustc = if beside_cargo.exists() { beside_cargo } else { "rustc".into() };
        // Another test binary may be at it: each builds its own, the last one stays.
        let draft = dir.join(format!("draft-{}", std::process::id()));
        let mut command = Command::new(rustc);
        command.args(["--edition", "2024", "-O", "-C", "strip=symbols"]);
        match linkage {
            Linkage::Static => command.args(["-C", "target-feature=+crt-static"]),
            Linkage::Dynamic => &mut command,
        };
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/container_probe.rs");
        assert!(command.arg(source).arg("-o").arg(&draft).status().unwrap().success());
        fs::rename(draft, &program).unwrap();
    }
    program
}

fn folder_name(program: &Path) -> String {
    program.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned()
}

/// Makes an image that holds the probe and nothing else.
async fn import(image: &str, program: &Path) {
    let host = env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned());
    let docker = Docker::connect_with_unix(&host, 120, bollard::API_DEFAULT_VERSION).unwrap();
    let (repo, tag) = image.split_once(':').unwrap();
    let options = CreateImageOptionsBuilder::default().from_src("-").repo(repo).tag(tag).build();
    let body = bollard::body_full(archive("container-probe", &fs::read(program).unwrap()).into());
    let mut steps = docker.create_image(Some(options), Some(body), None);
    while let Some(step) = steps.next().await {
        step.unwrap();
    }
}

/// A tar archive of one program.
fn archive(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = [0_u8; 512];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000755");
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{:011o}", bytes.len()));
    put(136, "00000000000");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let padding = vec![0; (512 - bytes.len() % 512) % 512 + 1024];
    [&header, bytes, &padding].concat()
}
