//! What stands in the files now.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    Config, ConfigError, Environment, Written,
    dotenv::{self, Said},
};

/// What stands in `g2.toml` and `.env`, for a loop that looks often. It is worked out once for each change.
#[derive(Debug, Default)]
pub struct Standing(Mutex<Option<Known>>);

/// What was worked out, and from what.
#[derive(Debug)]
struct Known {
    text: String,
    dotenv: Said,
    written: Result<Written, Arc<ConfigError>>,
}

impl Standing {
    /// Returns the settings in which the files differ from `written`, once it is sure that the files could be used.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn differences(&self, root: &Path, written: &Written) -> Result<Vec<String>, Arc<ConfigError>> {
        let path = root.join("g2.toml");
        let text = super::text(&path).map_err(Arc::new)?;
        let dotenv = Said::of(&dotenv::text(root));
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match known.take() {
            Some(same) if same.text == text && same.dotenv == dotenv => known.insert(same),
            _ => {
                let now = Config::with(&path, &text, &Environment::default(), dotenv.clone());
                let written = now.map(|now| now.written).map_err(Arc::new);
                known.insert(Known { text, dotenv, written })
            }
        };
        known.written.as_ref().map(|now| written.differences(now)).map_err(Clone::clone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_of_a_file_is_seen() {
        let root = tempfile::tempdir().unwrap();
        let says = |file: &str, text: &str| std::fs::write(root.path().join(file), text).unwrap();
        let written = Config::load(root.path(), &Environment::default()).unwrap().written;
        let standing = Standing::default();
        let differences = || standing.differences(root.path(), &written);
        assert_eq!(differences().unwrap(), Vec::<String>::new());
        for _ in 0..2 {
            says("g2.toml", "[limits]\nkeep_days = 3\n");
            assert_eq!(differences().unwrap(), ["limits.keep_days"]);
            assert_eq!(differences().unwrap(), ["limits.keep_days"]);
            says("g2.toml", "[limits]\nkeep_days = \"three\"\n");
            let error = differences().unwrap_err();
            assert!(error.to_string().contains("line 2"), "{error}");
            assert!(Arc::ptr_eq(&differences().unwrap_err(), &error));
        }
        says("g2.toml", "");
        says(".env", "TZ=Europe/Vienna\n");
        assert_eq!(differences().unwrap(), ["TZ in .env"]);
        std::fs::remove_file(root.path().join(".env")).unwrap();
        assert_eq!(differences().unwrap(), Vec::<String>::new());
    }
}
