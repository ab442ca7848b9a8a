//! Putting a command into a group's box, as its agent does.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ipc_handlers::{Folder, words};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use super::{
    super::{By, Done, OpCode, OpError, Operation, Site, args::word},
    queue,
};
use crate::{
    domain::{rows::IpcRow, shown::errors::chain},
    ipc::{COMMAND_LIMIT, CommandBox, post},
};

words! {
    /// The boxes that take commands.
    #[derive(Default, JsonSchema)]
    pub enum Into: "box" {
        Messages = "messages",
        #[default]
        Tasks = "tasks",
    }
}

/// The bytes of a command file.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// As text.
    Text(String),
    /// In base64, for bytes that are not text.
    Base64(String),
}

/// As it is derived, but for what it says of anything else.
impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Form {
            text: Option<String>,
            base64: Option<String>,
        }
        match Form::deserialize(deserializer) {
            Ok(Form { text: Some(text), base64: None }) => Ok(Self::Text(text)),
            Ok(Form { text: None, base64: Some(text) }) => Ok(Self::Base64(text)),
            Ok(_) | Err(_) => Err(D::Error::custom(
                r#"a command is the bytes of its file, as {"text": "{\"type\":…}"} or {"base64": "…"}"#,
            )),
        }
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes)
            .map_or_else(|bytes| Self::Base64(STANDARD.encode(bytes.as_bytes())), Self::Text)
    }
}

impl Content {
    fn bytes(self) -> Result<Vec<u8>, OpError> {
        match self {
            Self::Text(text) => Ok(text.into_bytes()),
            Self::Base64(text) => STANDARD
                .decode(text)
                .map_err(|error| OpError::invalid(format!("the command is not base64: {error}"))),
        }
    }
}

/// Put a command into a group's box, as its agent does.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Group, by its folder.
    pub group: Folder,
    /// Box that it is put into; both take any command.
    #[serde(default, rename = "box")]
    #[arg(id = "box", long, value_name = "BOX", default_value_t, value_parser = word::<Into>())]
    pub in_box: Into,
    /// The file's bytes, at most 1 MiB.
    #[arg(skip = Content::Text(String::new()))]
    pub command: Content,
}

impl Operation for Args {
    type Row = IpcRow;

    async fn run(self, site: &Site<'_>, _: &By) -> Result<Done<IpcRow>, OpError> {
        let Self { group, in_box, command } = self;
        site.group(&group).await?;
        let bytes = command.bytes()?;
        if bytes.len() as u64 > COMMAND_LIMIT {
            return Err(OpError::invalid(format!("the command has more than {COMMAND_LIMIT} bytes")));
        }
        let in_box = match in_box {
            Into::Messages => CommandBox::Messages,
            Into::Tasks => CommandBox::Tasks,
        };
        let id = site
            .world
            .id()
            .map_err(|error| OpError::new(OpCode::Failed, format!("making a name: {error}")))?;
        let name = format!("{:013}-sent-{}.json", site.world.now().0, &id[..8]);
        post::post(&site.root.join("data"), &group, in_box, &name, &bytes).map_err(|error| {
            let hint = if let post::PostError::NoBox(_) = error { post::PostError::NO_BOX } else { "" };
            OpError::new(OpCode::Failed, format!("sending a command: {}", chain(&error))).hint(hint)
        })?;
        let row = queue::row_of_new(site.store, &group, in_box, &name, &bytes)?;
        Ok(Done::new(row, format!("{group}/{in_box}/{name}")))
    }
}
