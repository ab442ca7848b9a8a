//! Copies of the sample installations in `tests/fixtures/moving`, and their rows.
#![expect(clippy::disallowed_methods, reason = "copies an installation, for tests")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use g2::{
    domain::{
        moved::{
            findings::{Finding, Sort},
            rows::{Keyed, Kind, Part},
        },
        time::zone::{ZoneData, Zones},
    },
    moving::{
        Source,
        sources::{Around, SourceKind, open},
    },
};
use ipc_handlers::Time;

/// All that is read for rows.
pub(crate) const PARTS: [Part; 7] =
    [Part::Settings, Part::Groups, Part::People, Part::Messages, Part::Sessions, Part::Tasks, Part::Runs];
/// 2026-05-20T10:00:00Z.
pub(crate) const NOW: Time = Time(1_779_271_200_000);

/// Copies a folder with all that is in it.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// A copy of a sample installation.
pub(crate) struct Sample {
    pub dir: tempfile::TempDir,
    pub program: SourceKind,
}

impl Sample {
    pub(crate) fn of(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/moving").join(name);
        copy(&from, dir.path());
        let program = match name {
            "g2" | "g2-first" => SourceKind::G2,
            name if name.starts_with("nanoclaw-v2") => SourceKind::NanoclawV2,
            _ => SourceKind::Nanoclaw,
        };
        Self { dir, program }
    }

    pub(crate) fn path(&self, inner: &str) -> PathBuf {
        self.dir.path().join(inner)
    }

    /// Has another program write into one of its stores.
    pub(crate) fn sql(&self, store: &str, sql: &str) {
        rusqlite::Connection::open(self.path(store)).unwrap().execute_batch(sql).unwrap();
    }

    pub(crate) fn open(&self) -> Box<dyn Source> {
        let data = ZoneData::newest(None, None);
        let berlin = data.resolve(&[Some("Europe/Berlin")]);
        let around = Around {
            home: Some(self.path("home")),
            zones: Zones::new(data, &berlin),
            now: NOW,
            scratch: std::env::temp_dir(),
        };
        open(self.program, self.dir.path(), around).unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Everything that it yields.
    pub(crate) fn read(&self) -> (Vec<Keyed>, Vec<Finding>) {
        read(&mut *self.open(), &PARTS)
    }
}

/// Everything that a source yields of these parts.
pub(crate) fn read(source: &mut dyn Source, parts: &[Part]) -> (Vec<Keyed>, Vec<Finding>) {
    let (mut rows, mut findings) = (Vec::new(), Vec::new());
    while let Some(batch) = source.next(parts).unwrap() {
        rows.extend(batch.rows);
        findings.extend(batch.findings);
    }
    (rows, findings)
}

/// The findings of a kind, each as its sort, its key and its reason.
pub(crate) fn told(findings: &[Finding], kind: Kind) -> Vec<(Sort, &str, &str)> {
    let of_kind = findings.iter().filter(|finding| finding.kind == kind);
    of_kind.map(|finding| (finding.sort, finding.key.as_str(), finding.why.as_str())).collect()
}
