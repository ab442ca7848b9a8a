//! A real Chromium, driven by its chromedriver over HTTP.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::OnceLock,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{Paged, http::ask};
use crate::support::wait_for;

const CHROMIUM: &str = "/usr/bin/chromium";
const DRIVER: &str = "/usr/bin/chromedriver";

/// Whether the tests have a browser. Without one each says so once, or fails where one is required.
pub(super) fn has_browser() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let has = Path::new(CHROMIUM).exists() && Path::new(DRIVER).exists();
        assert!(
            has || std::env::var_os("G2_REQUIRE_BROWSER").is_none(),
            "there is no chromium with chromedriver"
        );
        if !has {
            eprintln!("skipped: no chromium");
        }
        has
    })
}

/// Whether a browser runs scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scripts {
    On,
    Off,
}

/// A browser with a profile of its own.
pub(super) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

/// Starts a driver, and returns the port that it listens at. It takes a free port for IPv4 and wants the same one for
/// IPv6; it ends where another program has that, so it is started again.
fn driver() -> (Child, u16) {
    let mut ends = Vec::new();
    for _ in 0..5 {
        let mut driver = Command::new(DRIVER)
            .args(["--port=0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut complaints = driver.stderr.take().unwrap();
        let complaints = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = complaints.read_to_string(&mut text);
            text
        });
        let mut said = BufReader::new(driver.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut before = Vec::new();
        for line in said.by_ref() {
            let port = line.split_once("successfully on port ").map(|(_, port)| port.trim_end_matches('.'));
            if let Some(port) = port.and_then(|port| port.parse().ok()) {
                // It goes on to write there.
                std::thread::spawn(move || said.for_each(drop));
                return (driver, port);
            }
            before.push(line);
        }
        let status = driver.wait().unwrap();
        ends.push(format!("{status}: {} {}", before.join("\n"), complaints.join().unwrap()));
    }
    panic!("{DRIVER} does not stay: {}", ends.join("\n"));
}

impl Browser {
    /// Starts a browser that finds these names on this machine.
    pub(super) fn start(scripts: Scripts, names: &[&str]) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let (driver, port) = driver();
        let rules: Vec<String> = names.iter().map(|name| format!("MAP {name} 127.0.0.1")).collect();
        let javascript = if scripts == Scripts::On { 1 } else { 2 };
        let options = json!({
            "binary": CHROMIUM,
            "args": [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync",
                "--disable-dev-shm-usage", "--window-size=1280,900", "--hide-scrollbars",
                format!("--user-data-dir={}", profile.path().display()),
                format!("--host-resolver-rules={}", rules.join(", ")),
            ],
            "prefs": {"profile.managed_default_content_settings.javascript": javascript},
        });
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let mut browser = Self { driver, port, session: String::new(), _profile: profile };
        let begun = browser.post("/session", &wanted);
        browser.session = begun["sessionId"].as_str().expect("a session").to_owned();
        browser
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.asked("POST", path, &body.to_string())
    }

    fn asked(&self, method: &str, path: &str, body: &str) -> Value {
        let host = format!("127.0.0.1:{}", self.port);
        let answer =
            ask(self.port, method, path, &[("Host", &host), ("Content-Type", "application/json")], body);
        let value: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(answer.status, 200, "{method} {path}: {value}");
        value["value"].clone()
    }

    fn here(&self, what: &str) -> String {
        format!("/session/{}{what}", self.session)
    }

    pub(super) fn open(&self, url: &str) {
        self.post(&self.here("/url"), &json!({ "url": url }));
    }

    pub(super) fn url(&self) -> String {
        self.asked("GET", &self.here("/url"), "").as_str().unwrap().to_owned()
    }

    pub(super) fn source(&self) -> String {
        self.asked("GET", &self.here("/source"), "").as_str().unwrap().to_owned()
    }

    /// Runs a script of the test's own in the page, and returns its value.
    pub(super) fn run(&self, script: &str) -> Value {
        self.post(&self.here("/execute/sync"), &json!({ "script": script, "args": [] }))
    }

    /// The same for one that calls `arguments[0]` when it is done.
    pub(super) fn run_later(&self, script: &str) -> Value {
        self.post(&self.here("/execute/async"), &json!({ "script": script, "args": [] }))
    }

    /// Waits until a script returns something true.
    pub(super) fn until(&self, what: &str, script: &str) -> Value {
        wait_for(what, || Some(self.run(script)).filter(|value| *value != json!(false) && !value.is_null()))
    }

    /// Waits until a text is seen on the page.
    pub(super) fn sees(&self, text: &str) {
        self.until(
            &format!("{text:?} on the page"),
            &format!("return document.body?.innerText.includes({})", json!(text)),
        );
    }

    pub(super) fn click(&self, css: &str) {
        let element = self.post(&self.here("/element"), &json!({"using": "css selector", "value": css}));
        let id = element.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned();
        self.post(&self.here(&format!("/element/{id}/click")), &json!({}));
    }

    /// Types keys, wherever the focus is.
    pub(super) fn keys(&self, text: &str) {
        let actions: Vec<Value> = text
            .chars()
            .flat_map(|key| {
                [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]
            })
            .collect();
        self.post(
            &self.here("/actions"),
            &json!({"actions": [{"type": "key", "id": "keys", "actions": actions}]}),
        );
    }

    /// Opens another tab and goes there.
    pub(super) fn tab(&self) {
        let made = self.post(&self.here("/window/new"), &json!({"type": "tab"}));
        self.post(&self.here("/window"), &json!({"handle": made["handle"]}));
    }

    /// The tabs, in order.
    pub(super) fn tabs(&self) -> Vec<Value> {
        self.asked("GET", &self.here("/window/handles"), "").as_array().unwrap().clone()
    }

    pub(super) fn to_tab(&self, handle: &Value) {
        self.post(&self.here("/window"), &json!({ "handle": handle }));
    }

    /// What the console was told that is an error, such as a violation of the policy.
    pub(super) fn complaints(&self) -> Vec<String> {
        let log = self.post(&self.here("/se/log"), &json!({"type": "browser"}));
        let severe = log.as_array().unwrap().iter().filter(|entry| entry["level"] == "SEVERE");
        severe.map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
    }

    fn devtools(&self, command: &str, with: &Value) -> Value {
        self.post(&self.here("/goog/cdp/execute"), &json!({ "cmd": command, "params": with }))
    }

    /// Shows pages as on a screen of this width, in this theme.
    pub(super) fn look(&self, width: u32, height: u32, theme: &str) {
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            &json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}),
        );
        let features = json!([{"name": "prefers-color-scheme", "value": theme}]);
        self.devtools("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Returns a picture of the screen, in this format.
    pub(super) fn picture(&self, format: &str) -> Vec<u8> {
        let with = match format {
            "webp" => json!({"format": format, "quality": 55}),
            format => json!({"format": format}),
        };
        let shot = self.devtools("Page.captureScreenshot", &with);
        STANDARD.decode(shot["data"].as_str().unwrap()).unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !std::thread::panicking() && !self.session.is_empty() {
            self.asked("DELETE", &self.here(""), "");
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// A browser that is let in.
pub(super) fn inside(paged: &Paged, scripts: Scripts, names: &[&str]) -> Browser {
    let browser = Browser::start(scripts, names);
    browser.open(&paged.way_in());
    wait_for("to be let in", || browser.url().ends_with(&format!(":{}/", paged.port)).then_some(()));
    browser
}
