//! The settings of a running daemon, which follow the files.

use std::{path::PathBuf, sync::Arc};

use tokio::sync::watch;

use super::{Config, ConfigError, Environment};

/// The settings as they hold now. Who works by them takes [`Live::now`] for each act, and keeps nothing of it.
///
/// A setting that takes a restart ([`super::takes`]) keeps its value of the start.
pub struct Live {
    root: PathBuf,
    environment: Environment,
    /// As they were at the start.
    start: Arc<Config>,
    now: watch::Sender<Arc<Config>>,
}

/// What became of a look at the files. Settings by their full names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Those that are other ones than before.
    pub changed: Vec<String>,
    /// All that were changed since the start and need a restart.
    pub restart: Vec<String>,
}

impl Live {
    /// The settings that a daemon of this root starts with, in this environment.
    #[must_use]
    pub fn new(root: PathBuf, environment: Environment, start: Config) -> Self {
        let start = Arc::new(start);
        Self { root, environment, now: watch::Sender::new(Arc::clone(&start)), start }
    }

    /// Returns the settings as they hold now.
    #[must_use]
    pub fn now(&self) -> Arc<Config> {
        Arc::clone(&self.now.borrow())
    }

    /// Returns what tells of each change.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<Arc<Config>> {
        self.now.subscribe()
    }

    /// Reads the files again and has what they say hold, but for what needs a restart.
    ///
    /// # Errors
    /// As [`Config::load`], for a file that no daemon could start with: nothing is changed then.
    pub fn take(&self) -> Result<Taken, ConfigError> {
        let read = Config::load(&self.root, &self.environment)?;
        let (text, dotenv) = self.start.written.kept(&read.written);
        let mut held =
            Config::with(&self.root.join("g2.toml"), &text, &self.environment, dotenv)?.at(&self.root);
        // All copies of these follow another zone together, when the times of tasks are found anew.
        held.zones = self.start.zones.clone();
        let before = self.now();
        let taken = Taken {
            changed: before.written.differences(&held.written),
            restart: held.written.differences(&read.written),
        };
        if !taken.changed.is_empty() {
            self.now.send_replace(Arc::new(held));
        }
        Ok(taken)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test plays the user")]
mod tests {
    use super::*;

    struct Root(tempfile::TempDir);

    impl Root {
        fn new(toml: &str) -> (Self, Live) {
            let root = Self(tempfile::tempdir().unwrap());
            root.says("g2.toml", toml);
            let path = root.0.path().to_owned();
            let config = Config::load(&path, &Environment::default()).unwrap();
            let live = Live::new(path, Environment::default(), config);
            (root, live)
        }

        fn says(&self, file: &str, text: &str) {
            std::fs::write(self.0.path().join(file), text).unwrap();
        }
    }

    #[test]
    fn a_change_holds_at_once_unless_it_needs_a_restart() {
        let (root, live) = Root::new("[web]\nlisten = \"127.0.0.1:4747\"\n[limits]\nkeep_days = 3\n");
        let mut follower = live.follow();
        assert_eq!(live.take().unwrap(), Taken::default());
        assert!(!follower.has_changed().unwrap());
        root.says(
            "g2.toml",
            "[web]\nlisten = \"127.0.0.1:1\"\n[budget]\nmoney = 1.5\nprices = { \"claude-3.5\" = { input = 3.0, output = 15.0 } }\n",
        );
        let changed = [
            "budget.money",
            "budget.prices.claude-3.5.input",
            "budget.prices.claude-3.5.output",
            "limits.keep_days",
        ]
        .map(str::to_owned);
        let taken = live.take().unwrap();
        assert_eq!((taken.changed, taken.restart), (changed.to_vec(), vec!["web.listen".to_owned()]));
        assert!(follower.has_changed().unwrap());
        let now = follower.borrow_and_update().clone();
        assert_eq!(now.limits.keep_days, 0);
        assert_eq!(now.budget.all.money, Some(1.5));
        assert_eq!(now.web.listen, Some("127.0.0.1:4747".parse().unwrap()));
        // It is told until it holds.
        let taken = live.take().unwrap();
        assert_eq!((taken.changed.as_slice(), taken.restart), ([].as_slice(), vec!["web.listen".to_owned()]));
        assert!(!follower.has_changed().unwrap());
    }

    #[test]
    fn a_file_that_can_t_be_used_changes_nothing() {
        let (root, live) = Root::new("[limits]\nkeep_days = 3\n");
        for bad in
            ["[limits]\nkeep_days = -1\n", "[limits\n", "[limits]\nodd = 1\n", "[budget]\nmoney = 2.0\n"]
        {
            root.says("g2.toml", bad);
            live.take().unwrap_err();
            assert_eq!(live.now().limits.keep_days, 3, "{bad}");
        }
    }

    #[test]
    fn the_env_file_counts_as_g2_toml_does() {
        let (root, live) = Root::new("");
        root.says(".env", "TZ=Asia/Tokyo\nANTHROPIC_BASE_URL=https://b\n");
        let taken = live.take().unwrap();
        assert_eq!(taken.changed, ["TZ in .env"]);
        assert_eq!(taken.restart, ["ANTHROPIC_BASE_URL in .env"]);
        let now = live.now();
        assert_eq!(
            (now.zone.name.as_str(), now.gateway.upstream.as_str()),
            ("Asia/Tokyo", "https://api.anthropic.com")
        );
    }

    #[test]
    fn a_relative_path_stays_relative_to_the_root() {
        let (root, live) = Root::new("[gateway]\ntoken_file = \"key\"\n");
        root.says("g2.toml", "log_level = \"warn\"\n[gateway]\ntoken_file = \"key\"\n");
        assert_eq!(live.take().unwrap().changed, ["log_level"]);
        assert_eq!(live.now().gateway.token_file, Some(root.0.path().join("key")));
    }
}
