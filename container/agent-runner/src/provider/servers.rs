//! Tool servers (MCP) of the group, which the agent has beside our own tools. Pure.

use std::collections::BTreeMap;

use ipc_handlers::wire::{Launch, McpServer, NoSecret};
use serde_json::{Value, json};

use crate::tools;

/// The servers of a launch, with their secrets in place.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Servers {
    known: BTreeMap<String, McpServer>,
    /// Why others are left out, a sentence each.
    pub(super) left_out: Vec<String>,
}

impl Servers {
    /// Returns the servers of a launch. One with our own name is left out, and one that lacks a secret.
    pub(super) fn of(launch: &Launch) -> Self {
        let mut servers = Self::default();
        for (name, server) in &launch.mcp_servers {
            if name == tools::SERVER {
                servers
                    .left_out
                    .push(format!("the tool server {name} is left out: it has the name of G2's own"));
                continue;
            }
            let mut server = server.clone();
            let filled: Result<BTreeMap<_, _>, _> = server
                .texts()
                .iter()
                .map(|(of, text)| Ok((of.clone(), launch.mcp_secrets.fill(text)?)))
                .collect();
            match filled {
                Ok(texts) => {
                    *server.texts_mut() = texts;
                    servers.known.insert(name.clone(), server);
                }
                Err(NoSecret(secret)) => {
                    let why = format!("the tool server {name} is left out: .env has no {secret}");
                    servers.left_out.push(why);
                }
            }
        }
        servers
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Returns what Claude Code reads from the file of `--mcp-config`.
    pub(super) fn as_claude(&self) -> Value {
        json!({ "mcpServers": self.known })
    }

    /// Returns what an agent that speaks the Agent Client Protocol is told; `can` are its `mcpCapabilities`. Servers that it can't
    /// speak with are left out.
    pub(super) fn as_acp(&mut self, can: &Value) -> Vec<Value> {
        let mut told = Vec::new();
        for (name, server) in &self.known {
            let pairs = |texts: &BTreeMap<String, String>| -> Vec<Value> {
                texts.iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
            };
            let (kind, url, headers) = match server {
                McpServer::Stdio { command, args, env } => {
                    told.push(json!({"name": name, "command": command, "args": args, "env": pairs(env)}));
                    continue;
                }
                McpServer::Http { url, headers } => ("http", url, headers),
                McpServer::Sse { url, headers } => ("sse", url, headers),
            };
            if can[kind] == true {
                told.push(json!({"type": kind, "name": name, "url": url, "headers": pairs(headers)}));
            } else {
                self.left_out.push(format!(
                    "the tool server {name} is left out: the agent speaks with none over {kind}"
                ));
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(servers: Value, secrets: Value) -> Servers {
        let launch = json!({
            "prompt": "p", "groupFolder": "g", "chatJid": "c", "isMain": false,
            "mcpServers": servers, "mcpSecrets": secrets,
        });
        Servers::of(&serde_json::from_value(launch).unwrap())
    }

    #[test]
    fn secrets_are_filled_in_and_a_server_without_its_own_is_left_out() {
        let of = servers(
            json!({
                "weather": {"type": "stdio", "command": "w", "args": ["${A}"], "env": {"T": "x${A}y", "U": "plain"}},
                "docs": {"type": "http", "url": "https://a.example", "headers": {"Authorization": "Bearer ${B}"}},
                "g2": {"type": "stdio", "command": "evil"},
            }),
            json!({"A": "sk-1"}),
        );
        assert_eq!(
            of.as_claude(),
            json!({"mcpServers": {
                "weather": {"type": "stdio", "command": "w", "args": ["${A}"], "env": {"T": "xsk-1y", "U": "plain"}}
            }})
        );
        assert_eq!(
            of.left_out,
            [
                "the tool server docs is left out: .env has no B",
                "the tool server g2 is left out: it has the name of G2's own"
            ]
        );
        assert!(servers(json!({}), json!({})).is_empty());
    }

    #[test]
    fn an_acp_agent_is_told_of_those_that_it_can_speak_with() {
        let all = json!({
            "a": {"type": "stdio", "command": "a", "env": {"T": "1"}},
            "b": {"type": "http", "url": "https://b.example", "headers": {"H": "2"}},
            "c": {"type": "sse", "url": "https://c.example"},
        });
        let mut of = servers(all.clone(), json!({}));
        assert_eq!(
            of.as_acp(&json!({"http": true})),
            [
                json!({"name": "a", "command": "a", "args": [], "env": [{"name": "T", "value": "1"}]}),
                json!({"type": "http", "name": "b", "url": "https://b.example", "headers": [{"name": "H", "value": "2"}]}),
            ]
        );
        assert_eq!(of.left_out, ["the tool server c is left out: the agent speaks with none over sse"]);
        let mut of = servers(all, json!({}));
        assert_eq!((of.as_acp(&Value::Null).len(), of.left_out.len()), (1, 2));
    }
}
