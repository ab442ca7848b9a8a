//! `g2 completions` and `g2 man`: what a shell and `man` know of the command line, made from its own definition.

use std::{fs, path::PathBuf};

use super::{CliResult, Context, complete, help, out, wrap};
use anyhow::Context as _;
use clap::Args;

pub(super) const COMPLETIONS: &str = "\
With the script, a shell asks g2 itself: commands, options, and the names of groups, chats, tasks,
runs, messages, texts, questions, sessions, people and channels are completed as the root has them
that --root, G2_ROOT or the working directory names. The script is for one of these files:
  bash   ~/.local/share/bash-completion/completions/g2
  zsh    _g2 in a folder of $fpath
  fish   ~/.config/fish/completions/g2.fish

Examples:
  g2 completions bash > g2.bash   # then `source g2.bash`
  g2 completions zsh > _g2";

pub(super) const MAN: &str = "\
Examples:
  g2 man man1   # then `man man1/g2.1`
  g2 man ~/.local/share/man/man1";

#[derive(Debug, Args)]
pub(super) struct Completions {
    /// Shell that reads the script
    #[arg(value_parser = ["bash", "elvish", "fish", "powershell", "zsh"])]
    shell: String,
}

impl Completions {
    pub(super) fn run(&self) -> CliResult {
        out::script(&complete::script(&self.shell)?)
    }
}

#[derive(Debug, Args)]
pub(super) struct Man {
    /// Folder for the pages; it is made if it is not there, and pages of the same name are replaced
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

impl Man {
    pub(super) fn run(&self, context: &Context) -> CliResult {
        #[expect(clippy::disallowed_methods, reason = "a folder of the person who asks, no container's")]
        fs::create_dir_all(&self.dir).with_context(|| format!("making {}", self.dir.display()))?;
        // Without the commands `help`, each of which would be a page.
        let command = help::command_for(wrap::WIDEST).disable_help_subcommand(true);
        clap_mangen::generate_to(command, &self.dir)
            .with_context(|| format!("writing pages into {}", self.dir.display()))?;
        let dir = fs::canonicalize(&self.dir).unwrap_or_else(|_| self.dir.clone());
        if context.json {
            return out::json(serde_json::json!({ "dir": dir }));
        }
        out::line(format_args!(
            "pages written into {}; begin with `man {}/g2.1`",
            dir.display(),
            dir.display()
        ))
    }
}
