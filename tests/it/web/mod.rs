//! The operator's page: by plain requests, and in a real browser.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests play the user and the machine"
)]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    net::TcpListener,
    sync::atomic::{AtomicU16, Ordering},
};

use crate::support::{Daemon, Root, wait_for};

mod browser;
mod conversations;
mod crowd;
mod door;
mod groups;
mod hooks;
mod http;
mod look;
mod manage;
mod many;
mod memory;
mod questions;
mod tokens;
mod told;
mod upload;
mod use_it;

/// Returns a port that nobody listens at. It is below those that the kernel gives away, so that nobody gets it meanwhile.
fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 10_000).unwrap();
    loop {
        let port = 20_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 10_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A root with a page.
struct Paged {
    root: Root,
    port: u16,
}

impl Paged {
    fn new(toml: &str) -> Self {
        let port = port();
        Self { root: Root::new(&format!("{toml}\n[web]\nlisten = \"127.0.0.1:{port}\"\n")), port }
    }

    /// Starts the daemon, and waits for the page.
    fn serve(&self) -> Daemon {
        self.serve_with(&[])
    }

    fn serve_with(&self, environment: &[(&str, &str)]) -> Daemon {
        let daemon = self.root.serve_with(environment);
        wait_for("the page", || self.root.json(&["status"])["page"].as_str().map(drop));
        daemon
    }

    fn host(&self) -> String {
        format!("g2.localhost:{}", self.port)
    }

    fn origin(&self) -> String {
        format!("http://{}", self.host())
    }

    /// Returns an address that lets somebody in.
    fn way_in(&self) -> String {
        self.root.json(&["web", "open"])["url"].as_str().unwrap().to_owned()
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> http::Answer {
        let host = self.host();
        let all: Vec<(&str, &str)> =
            [("Host", host.as_str())].into_iter().chain(headers.iter().copied()).collect();
        http::ask(self.port, "GET", path, &all, "")
    }

    /// Lets somebody in; returns their cookie and the token of their forms.
    fn enter(&self) -> (String, String) {
        let url = self.way_in();
        let answer = self.get(url.strip_prefix(&self.origin()).unwrap(), &[]);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let cookie = answer.header("set-cookie").split(';').next().unwrap().to_owned();
        let page = self.get("/", &[("Cookie", &cookie)]);
        assert_eq!(page.status, 200, "{}", page.text());
        let text = page.text();
        let token =
            text.split("name=\"token\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        (cookie, token)
    }

    /// Posts a form as the page would.
    fn post(&self, path: &str, cookie: &str, form: &str) -> http::Answer {
        self.post_with(
            path,
            form,
            &[("Cookie", cookie), ("Origin", &self.origin()), ("Sec-Fetch-Site", "same-origin")],
        )
    }

    fn post_with(&self, path: &str, form: &str, headers: &[(&str, &str)]) -> http::Answer {
        let host = self.host();
        let common = [("Host", host.as_str()), ("Content-Type", "application/x-www-form-urlencoded")];
        let all: Vec<(&str, &str)> = common.into_iter().chain(headers.iter().copied()).collect();
        http::ask(self.port, "POST", path, &all, form)
    }
}

/// Somebody at the page.
struct Visit<'a> {
    paged: &'a Paged,
    cookie: String,
    token: String,
}

impl<'a> Visit<'a> {
    fn new(paged: &'a Paged) -> Self {
        let (cookie, token) = paged.enter();
        Self { paged, cookie, token }
    }

    fn page(&self, path: &str) -> String {
        let answer = self.paged.get(path, &[("Cookie", &self.cookie)]);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text()
    }

    /// Asks for an operation; returns the page that tells what came of it.
    fn ask(&self, operation: &str, fields: &[(&str, &str)]) -> String {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields).append_pair("token", &self.token);
        let answer = self.paged.post(&format!("/do/{operation}"), &self.cookie, &form.finish());
        assert_eq!(answer.status, 303, "{operation}: {}", answer.text());
        self.page(answer.header("location"))
    }
}
