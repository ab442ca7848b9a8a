//! Agents in real containers: an image of this source tree, and nothing left over afterwards.

use std::{
    cell::OnceCell,
    ops::Deref,
    path::Path,
    process::{Command, Stdio},
    sync::LazyLock,
};

use super::{Daemon, Root};

/// Whether Docker answers. Where it does not, the test says so and is over, unless `G2_REQUIRE_DOCKER=1`.
pub(crate) fn docker() -> bool {
    let answers = Command::new("docker").arg("info").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if answers.is_ok_and(|status| status.success()) {
        return true;
    }
    assert!(
        std::env::var_os("G2_REQUIRE_DOCKER").is_none(),
        "G2_REQUIRE_DOCKER is set and no Docker answers"
    );
    eprintln!("skipped: no Docker");
    false
}

/// Returns what `docker` prints.
pub(crate) fn run_docker(arguments: &[&str]) -> String {
    let output = Command::new("docker").args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Returns an image that holds the runner as this source tree has it, built by `container/build.sh` where there is
/// none yet.
pub(crate) fn agent_image() -> &'static str {
    static IMAGE: LazyLock<String> = LazyLock::new(|| {
        let image = format!("g2-agent:test-{}", agent_runner::ID.replace('+', "-"));
        if run_docker(&["image", "ls", "--quiet", &image]).trim().is_empty() {
            build("--bare", &image);
        }
        image
    });
    &IMAGE
}

/// Returns an image that holds the same runner and Claude Code. It is built where that takes seconds, as its Debian is
/// there, and where `G2_REQUIRE_CLAUDE=1` insists; else the test says so and is over.
pub(crate) fn claude_image() -> Option<&'static str> {
    static IMAGE: LazyLock<Option<String>> = LazyLock::new(|| {
        let of_runner = format!("label=g2.runner={}", agent_runner::ID);
        let there = |filters: &[&str]| {
            let found = run_docker(&[&["image", "ls", "--quiet", "--no-trunc"], filters].concat());
            found.lines().next().map(str::to_owned)
        };
        there(&["--filter", &of_runner, "--filter", "label=g2.claude"]).or_else(|| {
            let image = format!("g2-agent:test-claude-{}", agent_runner::ID.replace('+', "-"));
            let required = std::env::var_os("G2_REQUIRE_CLAUDE").is_some();
            (required || there(&["g2-debian"]).is_some()).then(|| {
                build("--offline", &image);
                image
            })
        })
    });
    if IMAGE.is_none() {
        eprintln!(
            "skipped: no image with Claude Code; container/build.sh --offline g2-agent:offline builds one"
        );
    }
    IMAGE.as_deref()
}

fn build(kind: &str, image: &str) {
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("container/build.sh");
    let built = Command::new(build).args([kind, image]).stdout(Stdio::null()).status();
    assert!(built.unwrap().success(), "container/build.sh {kind}");
}

fn settings(image: &str, toml: &str) -> String {
    format!("[sandbox]\nkind = \"docker\"\nimage = \"{image}\"\n{toml}")
}

/// A root whose agents run in containers, which are removed with it.
pub(crate) struct Docked {
    root: Root,
    instance: OnceCell<String>,
}

impl Docked {
    /// Lays out a root whose settings are `toml` over short rests; `None` where there is no Docker.
    pub(crate) fn new(toml: &str) -> Option<Self> {
        docker().then(|| Self::with_image(agent_image(), toml))
    }

    pub(crate) fn with_image(image: &str, toml: &str) -> Self {
        Self { root: Root::new(&settings(image, toml)), instance: OnceCell::new() }
    }

    pub(crate) fn settings(toml: &str) -> String {
        settings(agent_image(), toml)
    }

    /// Starts the daemon and waits until it is ready.
    pub(crate) fn serve(&self) -> Daemon {
        self.serve_with(&[])
    }

    /// The same for a user whose home is `home`.
    pub(crate) fn serve_at_home(&self, home: &Path) -> Daemon {
        self.serve_with(&[("HOME", home.to_str().unwrap())])
    }

    /// Starts the daemon with more in its environment and waits until it is ready.
    pub(crate) fn serve_with(&self, environment: &[(&str, &str)]) -> Daemon {
        let daemon = self.root.serve_with(environment);
        let instance = self.root.json(&["status"])["instance"].as_str().unwrap().to_owned();
        let _ = self.instance.set(instance);
        daemon
    }

    /// This root's id; a label of each of its containers. Known once a daemon was up.
    pub(crate) fn instance(&self) -> &str {
        self.instance.get().unwrap()
    }

    /// The ids of this root's containers, in all states.
    pub(crate) fn containers(&self) -> Vec<String> {
        let Some(instance) = self.instance.get() else { return Vec::new() };
        let label = format!("label=g2.instance={instance}");
        run_docker(&["ps", "--all", "--quiet", "--no-trunc", "--filter", &label])
            .lines()
            .map(str::to_owned)
            .collect()
    }
}

impl Deref for Docked {
    type Target = Root;

    fn deref(&self) -> &Root {
        &self.root
    }
}

/// The daemon is gone by now, as it was started later.
impl Drop for Docked {
    fn drop(&mut self) {
        for id in self.containers() {
            run_docker(&["rm", "--force", "--volumes", &id]);
        }
    }
}
