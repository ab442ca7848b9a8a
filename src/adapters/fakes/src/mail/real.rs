//! Dovecot and Postfix of Debian, on loopback: Postfix takes mails by SMTP, and hands them to Dovecot by LMTP, which keeps a mailbox for
//! each address.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::{MetadataExt as _, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::{PASSWORD, SERVER, USER};

/// How long servers and mails may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Both servers, until it is dropped.
pub struct Real {
    dir: tempfile::TempDir,
    pub imap: u16,
    pub imaps: u16,
    pub smtp: u16,
    pub smtps: u16,
}

fn ports<const N: usize>() -> [u16; N] {
    let all = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    all.map(|listener| listener.local_addr().unwrap().port())
}

/// Whether this machine has both, and lets us start them; otherwise says what is missing.
fn is_here() -> bool {
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let programs = ["/usr/sbin/dovecot", "/usr/lib/dovecot/lmtp", "/usr/sbin/postfix"];
    let missing = match programs.iter().find(|program| !Path::new(program).exists()) {
        Some(program) => program,
        None if !is_root => "root, whom Postfix wants",
        None => return true,
    };
    assert!(
        std::env::var_os("G2_REQUIRE_FOREIGN").is_none(),
        "there is no {missing}: `.ci/run` has the packages"
    );
    eprintln!("skipped: no {missing}");
    false
}

impl Real {
    /// Starts both with a certificate and its key, as PEM. `None`: they are not on this machine.
    #[must_use]
    pub fn start(certificate: &str, key: &str) -> Option<Self> {
        if !is_here() {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let [imap, imaps, smtp, smtps, lmtp, auth] = ports();
        let this = Self { dir, imap, imaps, smtp, smtps };
        let at = this.dir.path().display();
        std::fs::set_permissions(this.dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        for folder in ["mail", "postfix", "spool", "data"] {
            std::fs::create_dir(this.at(folder)).unwrap();
        }
        for (owner, folder) in [("nobody:nogroup", "mail"), ("postfix:postfix", "data")] {
            assert!(Command::new("chown").arg(owner).arg(this.at(folder)).status().unwrap().success());
        }
        std::fs::write(this.at("cert.pem"), certificate).unwrap();
        std::fs::write(this.at("key.pem"), key).unwrap();
        std::fs::set_permissions(this.at("key.pem"), PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::write(this.at("users"), format!("{USER}:{{PLAIN}}{PASSWORD}\n")).unwrap();
        let dovecot = format!(
            "base_dir = {at}/run\nstate_dir = {at}/state\nlog_path = {at}/dovecot.log\nprotocols = imap lmtp\nlisten = 127.0.0.1\n\
             ssl = yes\nssl_cert = <{at}/cert.pem\nssl_key = <{at}/key.pem\ndisable_plaintext_auth = no\nauth_mechanisms = plain login\n\
             mail_location = maildir:{at}/mail/%u\nmail_uid = nobody\nmail_gid = nogroup\nfirst_valid_uid = 1\nfirst_valid_gid = 1\n\
             passdb {{\n driver = passwd-file\n args = {at}/users\n}}\n\
             userdb {{\n driver = static\n args = uid=nobody gid=nogroup home={at}/mail/%u allow_all_users=yes\n}}\n\
             namespace inbox {{\n inbox = yes\n mailbox Sent {{\n  special_use = \\Sent\n  auto = create\n }}\n}}\n\
             service imap-login {{\n inet_listener imap {{\n  port = {imap}\n }}\n inet_listener imaps {{\n  port = {imaps}\n  ssl = yes\n }}\n}}\n\
             service lmtp {{\n inet_listener lmtp {{\n  address = 127.0.0.1\n  port = {lmtp}\n }}\n}}\n\
             service auth {{\n inet_listener {{\n  address = 127.0.0.1\n  port = {auth}\n }}\n}}\n"
        );
        std::fs::write(this.at("dovecot.conf"), dovecot).unwrap();
        let main = format!(
            "compatibility_level = 3.6\nqueue_directory = {at}/spool\ndata_directory = {at}/data\ncommand_directory = /usr/sbin\n\
             daemon_directory = /usr/lib/postfix/sbin\nmail_owner = postfix\nsetgid_group = postdrop\ninet_interfaces = 127.0.0.1\n\
             inet_protocols = ipv4\nmyhostname = {SERVER}\nmydestination =\nmynetworks = 127.0.0.0/8\nalias_maps =\nalias_database =\n\
             local_recipient_maps =\nvirtual_mailbox_domains = us.example example.org\nvirtual_mailbox_maps = static:yes\n\
             virtual_transport = lmtp:inet:127.0.0.1:{lmtp}\nsmtpd_sasl_auth_enable = yes\nsmtpd_sasl_type = dovecot\n\
             smtpd_sasl_path = inet:127.0.0.1:{auth}\nsmtpd_recipient_restrictions = permit_mynetworks, reject\n\
             smtpd_tls_cert_file = {at}/cert.pem\nsmtpd_tls_key_file = {at}/key.pem\nsmtpd_tls_security_level = may\n\
             maillog_file = {at}/spool/log\nmaillog_file_prefixes = {at}\n"
        );
        std::fs::write(this.at("postfix/main.cf"), main).unwrap();
        let services = [
            "pickup unix n - n 60 1 pickup",
            "cleanup unix n - n - 0 cleanup",
            "qmgr unix n - n 300 1 qmgr",
            "tlsmgr unix - - n 1000? 1 tlsmgr",
            "rewrite unix - - n - - trivial-rewrite",
            "bounce unix - - n - 0 bounce",
            "defer unix - - n - 0 bounce",
            "trace unix - - n - 0 bounce",
            "proxymap unix - - n - - proxymap",
            "lmtp unix - - n - - lmtp",
            "error unix - - n - - error",
            "retry unix - - n - - error",
            "anvil unix - - n - 1 anvil",
            "scache unix - - n - 1 scache",
            "postlog unix-dgram n - n - 1 postlogd",
        ];
        let services: String = services.iter().map(|line| format!("{line}\n")).collect();
        let master = format!(
            "127.0.0.1:{smtp} inet n - n - - smtpd\n127.0.0.1:{smtps} inet n - n - - smtpd -o smtpd_tls_wrappermode=yes\n{services}"
        );
        std::fs::write(this.at("postfix/master.cf"), master).unwrap();
        this.run("dovecot", &["-c", &format!("{at}/dovecot.conf")]);
        this.run("postfix", &["-c", &format!("{at}/postfix"), "start"]);
        for port in [imap, imaps, smtp, smtps, lmtp] {
            this.wait("a server", || TcpStream::connect(("127.0.0.1", port)).ok().map(drop));
        }
        Some(this)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let log = std::fs::File::options().create(true).append(true).open(self.at("starts")).unwrap();
        let mut command = Command::new(format!("/usr/sbin/{program}"));
        command.args(arguments).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        assert!(command.status().unwrap().success(), "{program}: {}", self.said());
    }

    /// What both said.
    fn said(&self) -> String {
        let read = |name: &str| std::fs::read_to_string(self.at(name)).unwrap_or_default();
        ["starts", "dovecot.log", "spool/log"].map(read).join("\n")
    }

    fn wait<T>(&self, what: &str, is: impl Fn() -> Option<T>) -> T {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(is) = is() {
                return is;
            }
            assert!(Instant::now() < until, "{what} never came: {}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A mail comes to the agent, by Postfix.
    pub fn deliver(&self, mail: &str) {
        let stream = TcpStream::connect(("127.0.0.1", self.smtp)).unwrap();
        let (mut out, mut input) = (stream.try_clone().unwrap(), BufReader::new(stream));
        let mut step = |said: &str, code: &str| {
            out.write_all(said.as_bytes()).unwrap();
            let mut line = String::new();
            while !line.starts_with(&format!("{code} ")) {
                line.clear();
                assert!(input.read_line(&mut line).unwrap() > 0 && line.starts_with(code), "{said}: {line}");
            }
        };
        step("", "220");
        step("EHLO example.org\r\n", "250");
        step("MAIL FROM:<ada@example.org>\r\n", "250");
        step(&format!("RCPT TO:<{USER}>\r\n"), "250");
        step("DATA\r\n", "354");
        // It came just now: Postfix writes when.
        let mail: String = mail.split_inclusive('\n').filter(|line| !line.starts_with("Date:")).collect();
        let dots = mail.replace("\n.", "\n..").replace('\n', "\r\n");
        step(&format!("{dots}\r\n.\r\n"), "250");
        step("QUIT\r\n", "221");
    }

    /// Waits until somebody has this number of mails; returns them in order.
    #[must_use]
    pub fn got(&self, who: &str, count: usize) -> Vec<String> {
        let folder = self.at("mail").join(who).join("new");
        self.wait("a mail", || {
            let files = std::fs::read_dir(&folder).ok()?;
            let mut mails: Vec<(std::time::SystemTime, String)> = files
                .map(|file| {
                    let path = file.unwrap().path();
                    (path.metadata().unwrap().modified().unwrap(), std::fs::read_to_string(path).unwrap())
                })
                .collect();
            mails.sort();
            (mails.len() >= count).then(|| mails.into_iter().map(|(_, mail)| mail).collect())
        })
    }

    /// Dovecot ends, and begins again.
    pub fn restart_dovecot(&self) {
        let settings = self.at("dovecot.conf").display().to_string();
        self.run("dovecot", &["-c", &settings, "stop"]);
        self.wait("its end", || TcpStream::connect(("127.0.0.1", self.imap)).err().map(drop));
        self.run("dovecot", &["-c", &settings]);
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        for (program, settings, order) in
            [("postfix", "postfix", "stop"), ("dovecot", "dovecot.conf", "stop")]
        {
            let mut command = Command::new(format!("/usr/sbin/{program}"));
            command.arg("-c").arg(self.at(settings)).arg(order).stdin(Stdio::null());
            let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    }
}
