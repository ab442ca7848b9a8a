//! The parameters of a request, in each of the forms that the Bot API takes: query, form, JSON, multipart.

use std::collections::BTreeMap;

use http_body_util::BodyExt as _;
use hyper::{Request, body::Incoming, header};
use serde_json::{Map, Value, json};

use super::{No, bad};

/// What a request says.
#[derive(Debug, Default)]
pub(crate) struct Params {
    pub(crate) values: Map<String, Value>,
    pub(crate) files: BTreeMap<String, Sent>,
}

/// A file that a request brings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) name: String,
    pub(crate) mime: String,
    pub(crate) bytes: Vec<u8>,
}

impl Params {
    pub(crate) async fn read(request: Request<Incoming>) -> Result<Self, &'static str> {
        let mut params = Self::default();
        params.urlencoded(request.uri().query().unwrap_or_default());
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().to_owned();
        let body = request.into_body().collect().await.map_err(|_| "the body broke off")?.to_bytes();
        if kind.starts_with("application/json") {
            if let Ok(Value::Object(values)) = serde_json::from_slice(&body) {
                params.values.extend(values);
            }
        } else if let Some((_, boundary)) = kind.split_once("boundary=") {
            params.multipart(&body, boundary.trim_matches('"'));
        } else {
            params.urlencoded(&String::from_utf8_lossy(&body));
        }
        Ok(params)
    }

    fn urlencoded(&mut self, text: &str) {
        for (name, value) in text.split('&').filter_map(|pair| pair.split_once('=')) {
            self.values.insert(decoded(name), decoded(value).into());
        }
    }

    fn multipart(&mut self, body: &[u8], boundary: &str) {
        let mark = format!("--{boundary}");
        for part in split(body, mark.as_bytes()).into_iter().skip(1) {
            let Some(at) = find(part, b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&part[..at]).into_owned();
            let bytes = part[at + 4..].strip_suffix(b"\r\n").unwrap_or(&part[at + 4..]);
            let field = |name: &str| disposition(&head, name);
            let Some(name) = field("name") else { continue };
            if let Some(file) = field("filename") {
                let mime = head.lines().find_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    name.eq_ignore_ascii_case("content-type").then(|| value.trim().to_owned())
                });
                let sent = Sent { name: file, mime: mime.unwrap_or_default(), bytes: bytes.to_vec() };
                self.files.insert(name, sent);
            } else {
                self.values.insert(name, String::from_utf8_lossy(bytes).into_owned().into());
            }
        }
    }

    pub(crate) fn int(&self, name: &str) -> Result<Option<i64>, No> {
        match self.values.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Number(number)) => Ok(number.as_i64()),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => match text.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => bad(format_args!("{name} is no number")),
            },
            Some(_) => bad(format_args!("{name} is no number")),
        }
    }

    pub(crate) fn text(&self, name: &str) -> String {
        match self.values.get(name) {
            Some(Value::String(text)) => text.clone(),
            _ => String::new(),
        }
    }

    /// An object or a list, which forms write as text.
    pub(crate) fn json(&self, name: &str) -> Result<Value, No> {
        match self.values.get(name) {
            None => Ok(Value::Null),
            Some(Value::String(text)) if text.is_empty() => Ok(Value::Null),
            Some(Value::String(text)) => match serde_json::from_str(text) {
                Ok(value) => Ok(value),
                Err(_) => bad(format_args!("can't parse {name}: it is no JSON")),
            },
            Some(value) => Ok(value.clone()),
        }
    }

    /// What is noted of a request.
    pub(crate) fn noted(&self) -> Value {
        let mut all = self.values.clone();
        for value in all.values_mut() {
            // Forms write everything as text.
            if let Value::String(text) = value
                && let Ok(read @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(text)
            {
                *value = read;
            }
        }
        let file = |sent: &Sent| json!({"name": sent.name, "mime": sent.mime, "size": sent.bytes.len()});
        let files: Map<String, Value> =
            self.files.iter().map(|(field, sent)| (field.clone(), file(sent))).collect();
        if !files.is_empty() {
            all.insert("_files".into(), files.into());
        }
        all.into()
    }
}

pub(crate) fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next().unwrap_or(b'0'), rest.next().unwrap_or(b'0')];
                u8::from_str_radix(&String::from_utf8_lossy(&digits), 16).unwrap_or(b'?')
            }
            other => other,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns a parameter of a part's head, in quotes or not.
fn disposition(head: &str, name: &str) -> Option<String> {
    let name = format!("{name}=");
    // `filename` holds `name`, too.
    let (at, _) = head.match_indices(&name).find(|(at, _)| head[..*at].ends_with([';', ' ']))?;
    let value = &head[at + name.len()..];
    let value = match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => value.split([';', '\r']).next(),
    };
    value.map(str::to_owned)
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn split<'a>(mut bytes: &'a [u8], by: &[u8]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    while let Some(at) = find(bytes, by) {
        parts.push(&bytes[..at]);
        bytes = &bytes[at + by.len()..];
    }
    parts.push(bytes);
    parts
}
