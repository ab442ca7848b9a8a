//! The images that agents run in: which kinds there are, and what each needs to be built.

/// A kind of image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// Node, Chromium and Claude Code, from a registry of images.
    Full,
    /// A small Debian with Claude Code, made without a registry.
    Offline,
    /// The runner alone.
    Bare,
}

impl ImageKind {
    /// Returns the option of `g2 image build` that asks for it; empty for the usual one.
    #[must_use]
    pub fn option(self) -> &'static str {
        match self {
            Self::Full => "",
            Self::Offline => "--offline",
            Self::Bare => "--bare",
        }
    }

    /// Returns the command by which it is built under a name.
    #[must_use]
    pub fn command(self, image: &str) -> String {
        ["g2 image build", self.option(), image]
            .into_iter()
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Returns what it holds, how large it is and what it needs, in one line.
    #[must_use]
    pub fn holds(self) -> String {
        let (holds, needs) = match self {
            Self::Full => ("Node, Chromium, git, Claude Code", "a registry of images"),
            Self::Offline => ("a small Debian, git, Claude Code", "root, debootstrap, npm"),
            Self::Bare => ("the built-in agent alone", "nothing"),
        };
        format!("{holds}; {}; needs {needs}", self.size())
    }

    /// Returns how large it is. A test measures the images that can be built without a registry.
    #[must_use]
    pub fn size(self) -> &'static str {
        match self {
            Self::Full => "over 1 GB",
            Self::Offline => "420 MB",
            // With the static runner of a package; `g2` in its place makes it larger.
            Self::Bare => "4 MB",
        }
    }

    /// Whether Claude Code is in it.
    #[must_use]
    pub fn has_claude(self) -> bool {
        match self {
            Self::Full | Self::Offline => true,
            Self::Bare => false,
        }
    }

    /// Returns the programs that building it needs.
    #[must_use]
    pub fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Full | Self::Bare => &["docker"],
            Self::Offline => &["docker", "debootstrap", "npm"],
        }
    }

    /// Returns what is missing to build it, as a sentence, and how to get it.
    ///
    /// `has` tells whether a program is there.
    #[must_use]
    pub fn missing(self, is_root: bool, has: impl Fn(&str) -> bool) -> Option<(String, String)> {
        let away: Vec<&str> = self.programs().iter().copied().filter(|program| !has(program)).collect();
        let package = |program: &&str| {
            if *program == "docker" { "docker.io".to_owned() } else { (*program).to_owned() }
        };
        if !away.is_empty() {
            let packages: Vec<String> = away.iter().map(package).collect();
            return Some((
                format!("building this image needs {}, which this machine has not", away.join(", ")),
                format!("on Debian: `apt-get install {}`", packages.join(" ")),
            ));
        }
        (self == Self::Offline && !is_root).then(|| {
            (
                "a small Debian can be made by root only".to_owned(),
                "use sudo, or leave --offline out".to_owned(),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_packages() {
        let (why, hint) = ImageKind::Offline.missing(true, |program| program == "npm").unwrap();
        assert!(
            why.contains("docker, debootstrap") && hint.contains("docker.io debootstrap"),
            "{why} {hint}"
        );
        assert!(ImageKind::Offline.missing(false, |_| true).unwrap().0.contains("root"));
        assert_eq!(ImageKind::Bare.missing(false, |_| true), None);
    }

    #[test]
    fn each_kind_has_a_command() {
        assert_eq!(ImageKind::Full.command("a:1"), "g2 image build a:1");
        assert_eq!(ImageKind::Bare.command("a:1"), "g2 image build --bare a:1");
    }
}
