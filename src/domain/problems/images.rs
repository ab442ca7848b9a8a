//! Images that are there and are not what the settings, or this program, need.

/// An image, as its labels say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Labels<'a> {
    /// The protocol that its runner speaks; 1 where no label says so.
    pub protocol: u32,
    pub runner: Option<&'a str>,
    pub claude: Option<&'a str>,
}

/// What an image is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs<'a> {
    /// The protocol and the runner of this program.
    pub protocol: u32,
    pub runner: &'a str,
    /// Claude Code is to run in it.
    pub claude: bool,
    /// In this version alone; `None`: in any.
    pub version: Option<&'a str>,
}

/// A fault of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageFault {
    /// Its runner counts as one of v1.
    NoProtocol,
    /// It holds another Claude Code than the settings let run.
    OtherClaude { held: String, wanted: String },
    /// Agents need Claude Code, and no label says that it is there.
    NoClaude,
    /// Its runner is that of another version of this program.
    OtherRunner { held: String, wanted: String, has_claude: bool },
}

/// Decides on an image that is there; `None`: all is well.
#[must_use]
pub fn fault(is: Labels<'_>, needs: Needs<'_>) -> Option<ImageFault> {
    if is.protocol < needs.protocol {
        return Some(ImageFault::NoProtocol);
    }
    match (needs.version.filter(|_| needs.claude), is.claude) {
        (Some(wanted), Some(held)) if wanted != held => {
            return Some(ImageFault::OtherClaude { held: held.to_owned(), wanted: wanted.to_owned() });
        }
        (_, None) if needs.claude => return Some(ImageFault::NoClaude),
        (_, _) => {}
    }
    // A foreign image that says nothing of its runner is taken for good.
    is.runner.filter(|held| *held != needs.runner).map(|held| ImageFault::OtherRunner {
        held: held.to_owned(),
        wanted: needs.runner.to_owned(),
        has_claude: is.claude.is_some(),
    })
}

impl ImageFault {
    /// Whether every run of it fails.
    #[must_use]
    pub fn stops(&self) -> bool {
        match self {
            Self::OtherClaude { .. } => true,
            Self::NoProtocol | Self::NoClaude | Self::OtherRunner { .. } => false,
        }
    }

    /// Returns it in words, and its fix; `groups` use the image, if it is known that any do.
    pub(super) fn words(&self, image: &str, groups: &str) -> (String, String) {
        let of = if groups.is_empty() { String::new() } else { format!(" of {groups}") };
        match self {
            Self::NoProtocol => (
                format!(
                    "image {image} has no g2.protocol label: its runner is treated as one of v1, which needs a network and secrets on its stdin"
                ),
                "copy g2-agent into the image and label it g2.protocol=2, as container/Dockerfile shows"
                    .into(),
            ),
            Self::OtherClaude { held, wanted } => {
                let runs = if groups.is_empty() { "it" } else { groups };
                (
                    format!(
                        "image {image} has Claude Code {held}, but agent.claude.version allows only {wanted}: every run of {runs} fails"
                    ),
                    format!("set agent.claude.version = \"{held}\", or build the image with that version"),
                )
            }
            Self::NoClaude => (
                format!("agents{of} need Claude Code, but image {image} has no label that says it has it"),
                format!(
                    "build it with `g2 image build {image}`, or `g2 image build --offline {image}` without a registry of images"
                ),
            ),
            Self::OtherRunner { held, wanted, has_claude } => (
                format!("image {image} is of another g2: its runner is {held}, but this g2 needs {wanted}"),
                match has_claude {
                    true => format!(
                        "build it again with `g2 image build {image}`, or `g2 image build --offline {image}` if it was built so"
                    ),
                    false => format!("build it again with `g2 image build --bare {image}`"),
                },
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_judged_by_its_labels() {
        let is = |protocol, runner, claude| Labels { protocol, runner, claude };
        let needs = |claude, version| Needs { protocol: 2, runner: "r2", claude, version };
        let other =
            |has_claude| Some(ImageFault::OtherRunner { held: "r1".into(), wanted: "r2".into(), has_claude });
        let held = Some(ImageFault::OtherClaude { held: "9".into(), wanted: "8".into() });
        for (labels, wanted, found) in [
            (is(2, Some("r2"), None), needs(false, None), None),
            (is(2, None, None), needs(false, None), None),
            (is(2, Some("r2"), Some("9")), needs(true, Some("9")), None),
            (is(2, Some("r2"), Some("9")), needs(true, None), None),
            // A version is wanted of those alone that run it.
            (is(2, Some("r2"), Some("9")), needs(false, Some("8")), None),
            (is(1, Some("r2"), Some("9")), needs(true, Some("8")), Some(ImageFault::NoProtocol)),
            (is(2, Some("r1"), Some("9")), needs(true, Some("8")), held),
            (is(2, Some("r1"), None), needs(true, None), Some(ImageFault::NoClaude)),
            (is(2, Some("r1"), None), needs(true, Some("8")), Some(ImageFault::NoClaude)),
            (is(2, Some("r1"), None), needs(false, None), other(false)),
            (is(2, Some("r1"), Some("9")), needs(true, Some("9")), other(true)),
        ] {
            assert_eq!(fault(labels, wanted), found, "{labels:?} {wanted:?}");
        }
    }
}
